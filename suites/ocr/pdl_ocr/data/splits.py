"""The splits that people's own data have, or are cut into, for the recipes that `pdl init` writes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pdl.config.text import quoted
from pdl.errors import DataError
from pdl.train.task import SPLITS

SEEDS = 16
PARTS = {"train": 0.8, "val": 0.1, "test": 0.1}


def splits_of(kind: Any, data: Path) -> dict[str, dict[str, Any]]:
    """The arguments of `TextLines` or `TextPages` for each split of what lies at a path. Where there is no list or
    folder for each, one is cut 8:1:1 (or 9:1 beside a test) by a hash of the images' paths."""
    found: dict[str, dict[str, Any]] = {}
    path = data.resolve()
    if data.is_dir():
        for split in SPLITS:
            try:
                own = kind(path, split=split)
            except DataError:
                continue
            if split != "train" and own.fingerprint == kind(path, split="train").fingerprint:
                continue  # one list for all
            found[split] = {"path": path, "split": split}
    if "val" in found:
        return found
    ratios = {"train": 0.9, "val": 0.1} if "test" in found else PARTS
    for seed in range(SEEDS):  # of few pages a hash may leave a split empty
        more = {"ratios": ratios, **({"seed": seed} if seed else {})}
        cut = {split: {"path": path, "split": split, **more} for split in ratios}
        if seed == SEEDS - 1 or all(_has_any(kind, arguments) for arguments in cut.values()):
            break
    return {**found, **cut}


def _has_any(kind: Any, arguments: Mapping[str, Any]) -> bool:
    try:
        return len(kind(**arguments)) > 0
    except DataError:
        return False


def written(kind: Any, arguments: Mapping[str, Any]) -> str:
    """The node of a recipe that builds a data set of these arguments."""
    ratios = arguments.get("ratios")
    more = "" if ratios is None else f", ratios: {{{', '.join(f'{k}: {v}' for k, v in ratios.items())}}}"
    more += f", seed: {arguments['seed']}" if arguments.get("seed") else ""
    target = f"pdl_ocr.data.{kind.__name__}"
    return f"{{_target_: {target}, path: {quoted(arguments['path'])}, split: {arguments['split']}{more}}}"
