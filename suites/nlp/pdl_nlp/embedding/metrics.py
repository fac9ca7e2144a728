"""How well likeness of vectors agrees with what people say."""

from __future__ import annotations

import numpy as np

from pdl.dtype import Array
from pdl.train.metrics import Metric


class Spearman(Metric):
    """Spearman's rank correlation of likeness and score: that of Pearson of their ranks, equal values sharing a rank.
    NaN where one of them is constant."""

    def __init__(self) -> None:
        self.held: list[tuple[Array, Array]] = []

    def update(self, likeness: Array, scores: Array) -> None:
        """likeness, scores float [N]."""
        self.held.append((np.asarray(likeness, np.float64), np.asarray(scores, np.float64)))

    def compute(self) -> float:
        if not self.held:
            return float("nan")
        a, b = (ranks(np.concatenate(each)) for each in zip(*self.held, strict=True))
        a, b = a - a.mean(), b - b.mean()
        below = float(np.sqrt((a * a).sum() * (b * b).sum()))
        return float((a * b).sum()) / below if below else float("nan")


class Scored(Metric):
    """Likeness, score and number of every pair: float64 [N, 3]."""

    def __init__(self) -> None:
        self.held: list[Array] = []

    def update(self, likeness: Array, scores: Array, index: Array) -> None:
        """likeness, scores float [N], index int [N]."""
        self.held.append(np.stack([likeness, scores, index], axis=1).astype(np.float64))

    def compute(self) -> Array:
        return np.concatenate(self.held) if self.held else np.zeros((0, 3))


def ranks(values: Array) -> Array:
    """Ranks from 1, equal values with the mean of theirs: float64 [N]."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    found: Array = (last - (counts - 1) / 2)[place]
    return found
