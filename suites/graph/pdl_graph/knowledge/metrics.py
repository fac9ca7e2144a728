"""Filtered ranking: where the answer of a fact stands among all entities, but for the other known answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pdl.ranking import Lists, Ties, ranks
from pdl.train.metrics import Metric

TIES = {
    "average": "an answer shares the mean rank of those that score the same",
    "conservative": "those that score the same stand before an answer",
    "optimistic": "those that score the same stand behind an answer",
}


class Ranks(Metric):
    """Keeps the rank of each query (float64, infinity where there is none: an unknown entity, or NaN), in the order
    of their numbers. `update(scores [N, num_entities + 1], answer int64 [N], excluded, index int64 [N])`."""

    def __init__(self, ties: Ties = "average") -> None:
        self.ties, self.seen = ties, list[tuple[np.ndarray, np.ndarray]]()

    def update(self, scores: np.ndarray, answer: np.ndarray, excluded: Lists, index: np.ndarray) -> None:
        self.seen.append((index, ranks(scores, answer, ties=self.ties, excluded=excluded)))

    def compute(self) -> np.ndarray:
        index, found = (np.concatenate(each) for each in zip(*self.seen, strict=True))
        return found[np.argsort(index, kind="stable")]


class Measure(Metric):
    """One number of `Ranks`: mrr, mr or hits@k."""

    def __init__(self, of: Ranks, name: str) -> None:
        self.of, self.name = of, name

    def update(self, *outputs: Any) -> None:
        """`Ranks` itself is shown the batches."""

    def compute(self) -> float:
        return measure(self.of.compute(), self.name) if self.of.seen else float("nan")


def measure(found: np.ndarray, name: str) -> float:
    """mrr: the mean of 1 / rank; mr: the mean rank, of answers that have one; hits@k: the share of ranks <= k."""
    if name == "mrr":
        return float((1.0 / found).mean())
    if name == "mr":
        known = found[np.isfinite(found)]
        return float(known.mean()) if len(known) else float("nan")
    return float((found <= int(name.removeprefix("hits@"))).mean())


def names(cutoffs: Sequence[int]) -> tuple[str, ...]:
    """The measures, in order."""
    return ("mrr", "mr", *(f"hits@{k}" for k in cutoffs))
