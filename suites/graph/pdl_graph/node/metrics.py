"""How good scores of nodes are that may have several labels each."""

from __future__ import annotations

from typing import Literal

import numpy as np

from pdl.dtype import Array
from pdl.train.metrics import Metric


class LabelF1(Metric):
    """F1 of labels of which a node may have several, predicted where their score (a logit) is above 0: 2 tp / (2 tp +
    fp + fn), of all together ("micro") or the mean over labels that are there or predicted ("macro")."""

    def __init__(self, average: Literal["micro", "macro"]) -> None:
        self.average = average
        self.hits, self.sizes = np.zeros(0), np.zeros(0)

    def update(self, scores: Array, labels: Array) -> None:
        predicted, there = scores > 0, labels > 0
        hits, sizes = (predicted & there).sum(0), predicted.sum(0) + there.sum(0)
        first = not len(self.hits)
        self.hits, self.sizes = (hits, sizes) if first else (self.hits + hits, self.sizes + sizes)

    def compute(self) -> float:
        if not self.sizes.sum():
            return float("nan")
        if self.average == "micro":
            return float(2 * self.hits.sum() / self.sizes.sum())
        known = self.sizes > 0
        return float(np.mean(2 * self.hits[known] / self.sizes[known]))
