"""How well masked tokens are found."""

from __future__ import annotations

import math

from pdl.dtype import Array
from pdl.train.metrics import Metric


class MaskedAccuracy(Metric):
    """The share of masked positions whose token has the highest score."""

    def __init__(self) -> None:
        self.right = self.count = 0

    def update(self, found: Array, losses: Array, targets: Array) -> None:
        """found, targets int [N, M], targets -1 where nothing is masked; losses float [N, M]."""
        real = targets >= 0
        self.right += int((found[real] == targets[real]).sum())
        self.count += int(real.sum())

    def compute(self) -> float:
        return self.right / self.count if self.count else float("nan")


class Perplexity(Metric):
    """exp of the mean over masked positions of -log p(token)."""

    def __init__(self) -> None:
        self.total, self.count = 0.0, 0

    def update(self, found: Array, losses: Array, targets: Array) -> None:
        """As of `MaskedAccuracy`."""
        real = targets >= 0
        self.total += float(losses[real].sum())
        self.count += int(real.sum())

    def compute(self) -> float:
        return math.exp(self.total / self.count) if self.count else float("nan")
