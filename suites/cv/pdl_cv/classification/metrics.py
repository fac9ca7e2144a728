"""The mistakes of a classifier, worst first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pdl.train.metrics import Metric


@dataclass(frozen=True, order=True)
class Mistake:
    """One sample that was put into a wrong class: loss = -log p(label), `p` the probability given to `predicted`."""

    loss: float
    index: int
    label: int
    predicted: int
    p: float


class Mistakes(Metric):
    """The `keep` wrongly classified samples with the highest loss."""

    def __init__(self, keep: int) -> None:
        self.keep = keep
        self.found: list[Mistake] = []

    def update(self, scores: Any, labels: Any, index: Any) -> None:
        """scores float [N, C] (logits), labels and index int [N]."""
        predicted = scores.argmax(axis=1)
        wrong = np.flatnonzero(predicted != labels)
        log_p = log_softmax(scores[wrong])
        for row, i in enumerate(wrong):
            loss, p = -float(log_p[row, labels[i]]), float(np.exp(log_p[row, predicted[i]]))
            self.found.append(Mistake(loss, int(index[i]), int(labels[i]), int(predicted[i]), p))
        self.found = sorted(self.found, key=lambda m: (-m.loss, m.index))[: self.keep]

    def compute(self) -> Any:
        return self.found


def log_softmax(scores: np.ndarray) -> np.ndarray:
    """log(exp(s) / sum(exp(s))) over the last axis, in float64."""
    shifted = scores.astype(np.float64) - scores.max(axis=-1, keepdims=True, initial=-np.inf)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
