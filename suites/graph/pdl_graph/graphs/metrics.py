"""How good predictions for graphs are, where some of them are not known (NaN): the mean over the targets of each one's
AUC or error, as MoleculeNet measures (Wu et al., arXiv 1703.00564)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pdl.dtype import Array
from pdl.ranking import auc
from pdl.train.metrics import Metric


class PerTarget(Metric):
    """The mean over targets of `measure(predictions [N], targets [N])` of those that are known; NaN of a target is
    left out."""

    def __init__(self, measure: Callable[[Array, Array], float]) -> None:
        self.measure = measure
        self.predictions: list[Array] = []
        self.targets: list[Array] = []

    def update(self, predictions: Array, targets: Array) -> None:
        """Both [N, T]."""
        self.predictions.append(np.array(predictions))  # a step's outputs are windows that the next one overwrites
        self.targets.append(np.array(targets))

    def each(self) -> Array:
        """The value of each target, float64 [T]; NaN where nothing is known."""
        if not self.targets:
            return np.empty(0)
        predictions, targets = np.concatenate(self.predictions), np.concatenate(self.targets)
        known = ~np.isnan(targets)
        columns = zip(predictions.T, targets.T, known.T, strict=True)
        return np.array([self.measure(p[k], t[k]) if k.any() else np.nan for p, t, k in columns])

    def compute(self) -> float:
        each = self.each()
        each = each[~np.isnan(each)]
        return float(each.mean()) if len(each) else float("nan")


def rmse(predictions: Array, targets: Array) -> float:
    """sqrt(mean (p - t)^2)."""
    return float(np.sqrt(np.mean(np.square(predictions.astype(np.float64) - targets))))


def mae(predictions: Array, targets: Array) -> float:
    """mean |p - t|."""
    return float(np.mean(np.abs(predictions.astype(np.float64) - targets)))


def right_side(logits: Array, targets: Array) -> float:
    """Share of logits on the target's side of 0."""
    return float(np.mean((logits > 0) == (targets > 0)))


__all__ = ["PerTarget", "auc", "mae", "right_side", "rmse"]
