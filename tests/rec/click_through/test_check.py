"""What `pdl check` finds in tables of clicks."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdl.train import Recipe


def table(rows: int, seed: int) -> dict[str, list[Any]]:
    rng = np.random.default_rng(seed)
    return {
        name: rng.integers(0, n, rows).tolist() for name, n in (("site", 9), ("device", 4), ("label", 2), ("ad", 50))
    }


def messages(folder: Path, splits: dict[str, dict[str, list[Any]]], kind: str = "ClickFile") -> str:
    data = {}
    for split, columns in splits.items():
        lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
        (folder / f"{split}.csv").write_text("\n".join(lines) + "\n")
        data[split] = {"_target_": f"pdl_rec.data.{kind}", "path": str(folder / f"{split}.csv")}
    fields: dict[str, Any] = {name: {} for name in splits["train"] if name not in ("label", "price")}
    recipe = Recipe({
        "task": {"_target_": "pdl_rec.ClickThrough", "fields": fields},
        "model": {"_target_": "pdl_rec.LR"},
        "data": data,
        "optim": {"_target_": "pdl.optim.Adam"},
    })  # fmt: skip
    found = recipe.task.build().check(recipe)
    return "\n".join(f"{fault.severity} {fault}" for fault in found)


@pytest.mark.parametrize("kind", ["ClickFile", "ClickStream"])
def test_sound_rows_pass(tmp_path: Path, kind: str) -> None:
    assert messages(tmp_path, {"train": table(500, 0), "test": table(200, 1)}, kind) == ""


@pytest.mark.parametrize(
    ("split", "change", "wanted"),
    [
        ("test", {"label": [0] * 200}, r"error \[test\].*the label 'click' is 0 in all 200 rows"),
        ("train", {"site": ["x"] * 500}, r"warning \[train\].*'site' has one value"),
        ("train", {"ad": list(range(500))}, r"warning \[train\].*'ad' has 500 values in 500 rows"),
        ("train", {"device": table(500, 0)["label"]}, r"error \[train\].*follows from the value of field 'device'"),
        ("train", {"label": [0, 1, 2, 3] * 125}, r"error \[train\].*the label 'click' is 2 in row 2"),
        ("test", {n: column[:200] for n, column in table(500, 0).items()}, r"warning .*200 of 200 rows are in train"),
    ],
)  # fmt: skip
def test_faults(tmp_path: Path, split: str, change: dict[str, list[Any]], wanted: str) -> None:
    splits = {"train": table(500, 0), "test": table(200, 1)}
    splits[split] |= change
    found = messages(tmp_path, splits)
    assert re.search(wanted, found), found
