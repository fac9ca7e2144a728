"""Accumulators: a metric sees every batch of an evaluation and says one number (or array) at its end.

The trainer calls `update(*outputs)` with what the task's `step` put into `Loss.outputs`, mostly (predictions,
targets); arrays, on the CPU. All sums are kept in float64 or int64, so that the order of batches of one evaluation is
the only order there is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from pdl.dtype import Array
from pdl.errors import UsageError
from pdl.hints import Range
from pdl.ranking import auc, calibration_bins, equal_error_rate, minimum_detection_cost

Average = Literal["macro", "micro", "weighted"]

#: classes up to which `class_metrics` has areas under curves, which keep every score of an evaluation
CURVES = 100


class Metric:
    """An accumulator. Subclasses define `update(*outputs)` and `compute()`; a new object is made for every
    evaluation."""

    of_probabilities: ClassVar[bool] = False
    """Whether it reads scores as logits of probabilities, which those of other methods may not be."""

    def update(self, *outputs: Any) -> None:
        """Take in one batch."""
        raise NotImplementedError(f"{type(self).__name__} must define update")

    def compute(self) -> float | Array:
        """The value over everything seen: a number goes into the logs, an array into the report."""
        raise NotImplementedError(f"{type(self).__name__} must define compute")


class Several(Metric):
    """An accumulator of several numbers, of which `compute` gives the first."""

    def numbers(self) -> dict[str, float]:
        """All of them by name."""
        raise NotImplementedError(f"{type(self).__name__} must define numbers")


class Shown(Metric):
    """One of the numbers of another metric, which alone is shown the batches: a line of its own in the log.

    source  that metric
    name    of the number
    """

    def __init__(self, source: Several, name: str) -> None:
        self.source, self.name = source, name

    @classmethod
    def all(cls, source: Several) -> dict[str, Metric]:
        """All numbers of a metric by name, the first of which is its own."""
        first, *others = source.numbers()
        return {first: source, **{name: cls(source, name) for name in others}}

    def update(self, *outputs: Any) -> None:
        """The source has seen them."""

    def compute(self) -> float:
        return self.source.numbers()[self.name]


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


class _Rates(Metric):
    """A number between 0 and 1 of each class, from how often it is present, predicted, and both.

    average  "macro": the mean over the classes that are present or predicted; "weighted" by how often each is present;
             "micro": of all samples together. Without a prediction precision counts as 0, without a sample recall.

    Takes scores [N, C] or classes [N], with targets int [N].
    """

    def __init__(self, *, average: Average = "macro") -> None:
        self.average = average
        self.hits, self.predicted, self.present = (np.zeros(0, np.int64) for _ in range(3))

    def update(self, scores: Array, targets: Array) -> None:
        predicted = scores.argmax(axis=1) if scores.ndim == 2 else scores
        targets = targets.astype(np.int64)
        size = max(len(self.hits), *(1 + int(each.max(initial=-1)) for each in (predicted, targets)))
        seen = (targets[predicted == targets], predicted, targets)
        known = (self.hits, self.predicted, self.present)
        self.hits, self.predicted, self.present = (
            np.bincount(classes, minlength=size) + np.pad(counts, (0, size - len(counts)))
            for classes, counts in zip(seen, known, strict=True)
        )

    def compute(self) -> float:
        counts = self.hits, self.predicted, self.present
        if self.average == "micro":
            counts = tuple(each.sum(keepdims=True) for each in counts)  # type: ignore[assignment]
        above, below = self.fraction(*counts)
        each = np.divide(above, below, out=np.zeros(len(below)), where=below > 0)
        weights = counts[2] if self.average == "weighted" else counts[1] + counts[2] > 0
        return float(np.average(each, weights=weights)) if weights.any() else float("nan")

    @staticmethod
    def fraction(hits: Array, predicted: Array, present: Array) -> tuple[Array, Array]:
        """The numerator and the denominator of each class."""
        raise NotImplementedError


class F1(_Rates):
    """The harmonic mean of precision and recall, 2 hits / (predicted + present), averaged over classes."""

    @staticmethod
    def fraction(hits: Array, predicted: Array, present: Array) -> tuple[Array, Array]:
        return 2 * hits, predicted + present


class Precision(_Rates):
    """hits / predicted: the share of what was put into a class that belongs there, averaged over classes."""

    @staticmethod
    def fraction(hits: Array, predicted: Array, present: Array) -> tuple[Array, Array]:
        return hits, predicted


class Recall(_Rates):
    """hits / present: the share of a class that was found, averaged over classes."""

    @staticmethod
    def fraction(hits: Array, predicted: Array, present: Array) -> tuple[Array, Array]:
        return hits, present


class _Kept(Metric):
    """Keeps what it is shown of every batch until the end."""

    def __init__(self) -> None:
        self.outputs: list[Array] = []
        self.targets: list[Array] = []

    def update(self, outputs: Array, targets: Array) -> None:
        self.outputs.append(np.array(outputs))  # copies: a step's outputs are overwritten by the next one
        self.targets.append(np.array(targets))

    @property
    def seen(self) -> tuple[Array, Array]:
        """All outputs and targets, one below the other."""
        return np.concatenate(self.outputs), np.concatenate(self.targets)


class AUC(_Kept):
    """Area under the ROC curve: how often a sample of a class scores higher than one that is none of it, ties counted
    half (`pdl.ranking.auc`).

    scores float [N, C] (logits), targets int [N]: of two classes the area of the second; of more the mean over classes,
    each against the rest by its probability. targets [N, C] of 0 and 1: the mean over labels. Classes and labels that
    all or none of the samples have are left out.
    """

    def compute(self) -> float:
        if not self.outputs:
            return float("nan")
        scores, targets = self.seen
        if targets.ndim == 2:
            labels = targets > 0
        elif scores.shape[1] == 2:
            scores, labels = scores[:, 1:] - scores[:, :1], targets[:, None] == 1
        else:
            scores, labels = softmax(scores), targets[:, None] == np.arange(scores.shape[1])
        mixed = [k for k, one in enumerate(labels.T) if one.any() and not one.all()]
        return float(np.mean([auc(scores[:, k], labels[:, k]) for k in mixed])) if mixed else float("nan")


class EqualErrorRate(_Kept):
    """EER of deciding yes or no by a score: the share of false alarms at the threshold where it is the share of misses
    (`pdl.ranking.equal_error_rate`). scores float [N], labels [N] of 0 and 1.
    """

    def compute(self) -> float:
        return equal_error_rate(*self.seen)[0] if self.outputs else float("nan")


class DetectionCost(_Kept):
    """minDCF of deciding yes or no by a score (`pdl.ranking.minimum_detection_cost`). scores float [N], labels [N] of 0
    and 1.

    p_target     how frequent yes is in use
    miss         what one costs
    false_alarm  what one costs
    """

    def __init__(
        self,
        *,
        p_target: Annotated[float, Range(above=0, below=1)] = 0.01,
        miss: Annotated[float, Range(above=0)] = 1.0,
        false_alarm: Annotated[float, Range(above=0)] = 1.0,
    ) -> None:
        super().__init__()
        self.p_target, self.miss, self.false_alarm = p_target, miss, false_alarm

    def compute(self) -> float:
        if not self.outputs:
            return float("nan")
        return minimum_detection_cost(*self.seen, self.p_target, miss=self.miss, false_alarm=self.false_alarm)[0]


class CalibrationError(Metric):
    """Expected calibration error: how far the probability of the predicted class lies, on average, from how often that
    class is right (`pdl.ranking.calibration_bins`). scores float [N, C] (logits), targets int [N].

    bins  of equal width, by the probability of the predicted class
    """

    of_probabilities = True

    def __init__(self, *, bins: Annotated[int, Range(1)] = 15) -> None:
        self.bins = bins
        self.confidences: list[Array] = []
        self.correct: list[Array] = []

    def update(self, scores: Array, targets: Array) -> None:
        chances = softmax(scores)
        self.confidences.append(chances.max(axis=1, initial=0.0))
        self.correct.append(chances.argmax(axis=1) == targets)

    def compute(self) -> float:
        if not self.correct:
            return float("nan")
        found = calibration_bins(np.concatenate(self.confidences), np.concatenate(self.correct), bins=self.bins)
        return found.expected_calibration_error


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


class R2(_Kept):
    """Coefficient of determination: 1 - sum (p - t)^2 / sum (t - mean t)^2."""

    def compute(self) -> float:
        if not self.outputs:
            return float("nan")
        p, t = (each.astype(np.float64) for each in self.seen)
        spread = float(np.square(t - t.mean()).sum())
        return 1.0 - float(np.square(p - t).sum()) / spread if spread else float("nan")


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


def softmax(scores: Array) -> Array:
    """exp(s) / sum exp(s) over the last axis, in float64."""
    powers = np.exp(scores.astype(np.float64) - scores.max(axis=-1, keepdims=True, initial=-np.inf))
    chances: Array = powers / powers.sum(axis=-1, keepdims=True)
    return chances


def log_softmax(scores: Array) -> Array:
    """log(exp(s) / sum(exp(s))) over the last axis, in float64."""
    shifted = scores.astype(np.float64) - scores.max(axis=-1, keepdims=True, initial=-np.inf)
    logs: Array = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return logs


def class_metrics(num_classes: int) -> dict[str, Metric]:
    """What a task measures whose outputs are logits [N, C] and classes [N]: accuracy (and top5 of more than 5 classes),
    f1, precision and recall (means over classes), auc of up to 100 classes, ece (calibration), and the confusion
    matrix."""
    return {
        "accuracy": Accuracy(),
        **({"top5": TopK(5)} if num_classes > 5 else {}),
        "f1": F1(),
        "precision": Precision(),
        "recall": Recall(),
        **({"auc": AUC()} if num_classes <= CURVES else {}),
        "ece": CalibrationError(),
        "confusion": ConfusionMatrix(num_classes),
    }
