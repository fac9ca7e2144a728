"""Accumulators: a metric sees every batch of an evaluation and says one number (or array) at its end.

The trainer calls `update(*outputs)` with what the task's `step` put into `Loss.outputs`, mostly (predictions,
targets); arrays, on the CPU. All sums are kept in float64 or int64, so that the order of batches of one evaluation is
the only order there is.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from pdl.dtype import Array
from pdl.errors import UsageError

Average = Literal["macro", "micro"]


class Metric:
    """An accumulator. Subclasses define `update(*outputs)` and `compute()`; a new object is made for every
    evaluation."""

    def update(self, *outputs: Any) -> None:
        """Take in one batch."""
        raise NotImplementedError(f"{type(self).__name__} must define update")

    def compute(self) -> float | Array:
        """The value over everything seen: a number goes into the logs, an array into the report."""
        raise NotImplementedError(f"{type(self).__name__} must define compute")


class Mean(Metric):
    """Weighted mean: sum(weight * value) / sum(weight)."""

    def __init__(self) -> None:
        self.total = 0.0
        self.weight = 0.0

    def update(self, value: float, weight: float = 1.0) -> None:
        self.total += float(value) * weight
        self.weight += weight

    def compute(self) -> float:
        return self.total / self.weight if self.weight else float("nan")


class TopK(Metric):
    """Share of samples whose target is among the k highest scores. scores [N, C], targets int [N].

    Of equal scores the lower class counts as higher, so k=1 agrees with argmax.

    k  how many of the highest scores count
    """

    def __init__(self, k: int = 1) -> None:
        self.k, self.hits, self.seen = k, 0, 0

    def update(self, scores: Array, targets: Array) -> None:
        own = np.take_along_axis(scores, targets[:, None], axis=1)
        before = np.arange(scores.shape[1]) < targets[:, None]
        rank = (scores > own).sum(axis=1) + ((scores == own) & before).sum(axis=1)
        self.hits += int((rank < self.k).sum())
        self.seen += len(targets)

    def compute(self) -> float:
        return self.hits / self.seen if self.seen else float("nan")


class Accuracy(TopK):
    """Share of samples whose highest score is the target's."""

    def __init__(self) -> None:
        super().__init__(1)


class ConfusionMatrix(Metric):
    """Counts int64 [C, C]: row is the true class, column the predicted one. Takes scores [N, C] or classes [N]."""

    def __init__(self, num_classes: int) -> None:
        self.counts = np.zeros((num_classes, num_classes), np.int64)

    def update(self, scores: Array, targets: Array) -> None:
        predicted = scores.argmax(axis=1) if scores.ndim == 2 else scores
        n = len(self.counts)
        flat = np.bincount(targets.astype(np.int64) * n + predicted, minlength=n * n)
        if len(flat) > n * n:
            raise UsageError(
                f"ConfusionMatrix: a class of {max(targets.max(), predicted.max())} among {n} classes (0..{n - 1})"
            )
        self.counts += flat.reshape(n, n)

    def compute(self) -> Array:
        return self.counts


class FScore(ConfusionMatrix):
    """Precision, recall or their harmonic mean F1, averaged over classes ("macro") or over samples ("micro").

    A class that is neither present nor predicted is left out of the macro average; an empty precision or recall
    counts as 0.

    of       f1, precision or recall
    average  macro: the mean over classes; micro: over all samples
    """

    def __init__(
        self, num_classes: int, *, of: Literal["f1", "precision", "recall"] = "f1", average: Average = "macro"
    ) -> None:
        super().__init__(num_classes)
        self.of, self.average = of, average

    def compute(self) -> float:  # type: ignore[override]  # counts inside, a number outside
        hits, predicted, present = np.diag(self.counts), self.counts.sum(axis=0), self.counts.sum(axis=1)
        if self.average == "micro":
            hits, predicted, present = (each.sum(keepdims=True) for each in (hits, predicted, present))
        below = {"f1": predicted + present, "precision": predicted, "recall": present}[self.of]
        above = 2 * hits if self.of == "f1" else hits
        known = (predicted + present) > 0
        each = np.divide(above, below, out=np.zeros(len(below)), where=below > 0)
        return float(each[known].mean()) if known.any() else float("nan")


class MeanSquaredError(Metric):
    """Mean of (prediction - target)^2 over all elements; with `root` its square root."""

    def __init__(self, *, root: bool = False) -> None:
        self.root, self.total, self.count = root, 0.0, 0

    def update(self, predictions: Array, targets: Array) -> None:
        difference = predictions.astype(np.float64) - targets
        self.total += float(np.square(difference).sum())
        self.count += difference.size

    def compute(self) -> float:
        mean = self.total / self.count if self.count else float("nan")
        return mean**0.5 if self.root else mean


class MeanAbsoluteError(Metric):
    """Mean of |prediction - target| over all elements."""

    def __init__(self) -> None:
        self.total, self.count = 0.0, 0

    def update(self, predictions: Array, targets: Array) -> None:
        difference = predictions.astype(np.float64) - targets
        self.total += float(np.abs(difference).sum())
        self.count += difference.size

    def compute(self) -> float:
        return self.total / self.count if self.count else float("nan")
