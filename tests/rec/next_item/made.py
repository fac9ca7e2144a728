"""Small sessions, and a recipe on a file of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from pdl_rec.data import Sessions


def sessions(*rows: list[int], times: bool = False) -> Sessions:
    """Sessions of these items; with `times` a later one begins earlier."""
    items = np.array([item for row in rows for item in row], np.int64)
    offsets = np.cumsum([0, *(len(row) for row in rows)])
    when = np.concatenate([np.arange(len(r)) - 100.0 * i for i, r in enumerate(rows)]) if times else None
    return Sessions(items, offsets, when, np.arange(len(rows)))


def write_cycles(path: Path, *, sessions: int, seed: int, items: int = 12) -> Path:
    """Sessions in which item k is followed by k + 1 (mod `items`), as a csv."""
    rng = np.random.default_rng(seed)
    lines = ["session_id,item_id,timestamp"]
    for session in range(sessions):
        first = rng.integers(items)
        lines += [f"{session},item{(first + k) % items},{100 * session + k}" for k in range(rng.integers(2, 9))]
    path.write_text("\n".join(lines) + "\n")
    return path


def recipe(folder: Path, **changes: Any) -> dict[str, Any]:
    """Train, val and test of such sessions; `changes` are merged into the sections."""
    for number, (split, count) in enumerate((("train", 60), ("val", 12), ("test", 12))):
        write_cycles(folder / f"{split}.csv", sessions=count, seed=number)
    data = {
        split: {"_target_": "pdl_rec.data.SessionFile", "path": str(folder / f"{split}.csv")}
        for split in ("train", "val", "test")
    }
    base: dict[str, Any] = {
        "task": {"_target_": "pdl_rec.NextItem", "cutoffs": [1, 5], "max_length": 6},
        "model": {"_target_": "pdl_rec.GRU4Rec", "layers": [16]},
        "data": {**data, "batch_size": 8, "eval_batch_size": 16},
        "optim": {"_target_": "pdl.optim.Adam", "lr": 1e-2},
        "train": {"epochs": 12, "monitor": "val/recall@1", "report": False, "export": False},
    }
    for section, values in changes.items():
        base[section] = {**base[section], **values}
    return base
