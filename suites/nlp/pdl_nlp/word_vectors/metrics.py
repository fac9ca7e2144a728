"""How well the contexts of words are told from other words."""

from __future__ import annotations

import numpy as np

from pdl.dtype import Array
from pdl.train import Metric


class ContextAUC(Metric):
    """The share of contexts whose score is above that of a word drawn as none, ties as a half; each counts as in the
    loss. 0.5 is chance."""

    def __init__(self) -> None:
        self.right, self.total = 0.0, 0.0

    def update(self, own: Array, weight: Array, negative: Array) -> None:
        """Scores of contexts [N, T, C], how much each counts, scores of negatives [N, T, K]."""
        other = negative[..., np.arange(own.shape[-1]) % negative.shape[-1]]  # one for each context
        self.right += float((weight * (np.greater(own, other) + 0.5 * np.equal(own, other))).sum(dtype=np.float64))
        self.total += float(weight.sum(dtype=np.float64))

    def compute(self) -> float:
        return self.right / self.total if self.total else float("nan")
