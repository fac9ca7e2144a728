"""How good probabilities of clicks are: AUC, AUC within groups, log loss, accuracy."""

from __future__ import annotations

import numpy as np

from pdl.dtype import Array
from pdl.ranking import auc, grouped_auc
from pdl.train.metrics import Mean, Metric


class Kept(Metric):
    """Keeps column `label` of the logits and labels of every batch until the end."""

    def __init__(self, label: int = 0) -> None:
        self.label = label
        self.scores: list[Array] = []
        self.labels: list[Array] = []
        self.groups: list[Array] = []

    def update(self, logits: Array, labels: Array, groups: Array | None = None) -> None:
        rows = len(labels)
        self.scores.append(logits.reshape(rows, -1)[:, self.label])
        self.labels.append(labels.reshape(rows, -1)[:, self.label])
        if groups is not None:
            self.groups.append(groups)


class AUC(Kept):
    """Area under the ROC curve, exactly, over all rows."""

    def compute(self) -> float:
        return auc(np.concatenate(self.scores), np.concatenate(self.labels)) if self.scores else float("nan")


class GAUC(Kept):
    """The mean of the AUCs within groups, weighted by their rows (`pdl.ranking.grouped_auc`)."""

    def compute(self) -> float:
        if not self.scores:
            return float("nan")
        return grouped_auc(*(np.concatenate(each) for each in (self.scores, self.labels, self.groups)))


class LogLoss(Mean):
    """Mean of -log of the probability of what was, in float64."""

    def __init__(self, label: int = 0) -> None:
        super().__init__()
        self.label = label

    def update(self, logits: Array, labels: Array, groups: Array | None = None) -> None:  # type: ignore[override]
        x = logits.reshape(len(labels), -1)[:, self.label].astype(np.float64)
        y = labels.reshape(len(labels), -1)[:, self.label]
        super().update(float(np.mean(np.logaddexp(0.0, np.where(y > 0, -x, x)))), len(x))


class BinaryAccuracy(Mean):
    """Share of rows whose probability lies on the label's side of one half."""

    def __init__(self, label: int = 0) -> None:
        super().__init__()
        self.label = label

    def update(self, logits: Array, labels: Array, groups: Array | None = None) -> None:  # type: ignore[override]
        x = logits.reshape(len(labels), -1)[:, self.label]
        y = labels.reshape(len(labels), -1)[:, self.label]
        super().update(float(np.mean((x > 0) == (y > 0))), len(x))


class MeanAUC(Metric):
    """The mean of the labels' AUCs: what several labels are watched by."""

    def __init__(self, labels: int) -> None:
        self.each = [AUC(label) for label in range(labels)]

    def update(self, logits: Array, labels: Array, groups: Array | None = None) -> None:
        for one in self.each:
            one.update(logits, labels)

    def compute(self) -> float:
        return float(np.mean([one.compute() for one in self.each]))
