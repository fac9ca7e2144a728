"""How good scores of nodes are, where a class is not one of several: areas under curves, and F1 over several labels."""

from __future__ import annotations

from typing import Literal

import numpy as np

from pdl.dtype import Array
from pdl.ranking import auc
from pdl.train.metrics import Metric


class AUC(Metric):
    """Area under the ROC curve: of two classes by the difference of their scores, of several labels the mean over
    those that some have and some lack."""

    def __init__(self) -> None:
        self.scores: list[Array] = []
        self.labels: list[Array] = []

    def update(self, scores: Array, labels: Array) -> None:
        several = labels.ndim == 2
        self.scores.append(scores if several else scores[:, 1:] - scores[:, :1])
        self.labels.append(labels if several else labels[:, None])

    def compute(self) -> float:
        if not self.scores:
            return float("nan")
        scores, labels = np.concatenate(self.scores), np.concatenate(self.labels) > 0
        mixed = [k for k in range(labels.shape[1]) if 0 < labels[:, k].sum() < len(labels)]
        return float(np.mean([auc(scores[:, k], labels[:, k]) for k in mixed])) if mixed else float("nan")


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
