"""What chose the weights that a run's test used, inferred from its recipe and data, for result and card."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pdl.errors import PdlError

LOOKED_AT = 16  # samples of two splits, to see whether they are the same


def selection(weights: str, monitor: str, datasets: Mapping[str, Any], *, stopped_early: bool = False) -> str:
    """One or two sentences.

    weights   "best" or "last"
    monitor   the metric that "best" means, such as val/accuracy
    datasets  those of the run, by split
    """
    split, _, _ = monitor.partition("/")
    if "test" in datasets and same_samples(datasets.get("train"), datasets["test"]):
        return "Training and test are the same data: the figures say how well it was fitted."
    chose = weights == "best" or stopped_early
    if not chose:
        return "The weights are those of the last epoch; no split chose them."
    how = f"of the epoch with the best {monitor}" if weights == "best" else f"of the last epoch, which {monitor} chose"
    sentence = f"The weights are those {how}"
    if "test" not in datasets:
        return f"{sentence}; nothing else was measured, so that figure is optimistic."
    if split == "test" or same_samples(datasets.get(split), datasets["test"]):
        return f"{sentence}, and {split} is the test split itself: the test figures are optimistic."
    return f"{sentence}; the test split had no part in that."


def same_samples(one: Any, other: Any) -> bool:
    """Whether two data sets are as long and hold the same samples at places evenly spread over them."""
    if one is None or other is None:
        return False
    try:
        count = len(one)
        if one is other or count != len(other):
            return one is other
        return all(_equal(one[i], other[i]) for i in {n * count // LOOKED_AT for n in range(LOOKED_AT)} if i < count)
    except (TypeError, PdlError):  # streams have no length and no places; a sample may be unreadable
        return False


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, Mapping):
        return isinstance(other, Mapping) and one.keys() == other.keys() and all(_equal(one[k], other[k]) for k in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(_equal(a, b) for a, b in zip(one, other, strict=True))
    if isinstance(one, np.ndarray | np.generic | int | float | str):
        return np.array_equal(np.asarray(one), np.asarray(other))
    return one is other
