"""How good the classes of two are told apart, and how much of what varies is explained."""

from __future__ import annotations

import numpy as np

from pdl.dtype import Array
from pdl.train.metrics import Metric
from pdl_rec.click_through.metrics import AUC


class PairAUC(AUC):
    """Area under the ROC curve of the second of two classes, from scores [N, 2] and labels [N]."""

    def update(self, logits: Array, labels: Array, groups: Array | None = None) -> None:
        super().update(np.asarray(logits[:, 1] - logits[:, 0]), labels)


class R2(Metric):
    """1 - sum (p - t)^2 / sum (t - mean t)^2: the share of the variance that is explained."""

    def __init__(self) -> None:
        self.predictions: list[Array] = []
        self.targets: list[Array] = []

    def update(self, predictions: Array, targets: Array) -> None:
        self.predictions.append(np.array(predictions, np.float64))
        self.targets.append(np.array(targets, np.float64))

    def compute(self) -> float:
        if not self.targets:
            return float("nan")
        p, t = np.concatenate(self.predictions), np.concatenate(self.targets)
        spread = float(np.square(t - t.mean()).sum())
        return 1.0 - float(np.square(p - t).sum()) / spread if spread else float("nan")
