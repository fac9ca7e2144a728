"""Sections on probabilities and on numbers: curves over all thresholds, calibration, errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pdl.dtype import Array
from pdl.errors import DataError, ShapeError
from pdl.ranking import (
    auc,
    average_precision,
    calibration_bins,
    detection_error_curve,
    equal_error_rate,
    precision_recall_curve,
    roc_curve,
)
from pdl.report.chart import Points, line_chart
from pdl.report.page import Section, charts, figure
from pdl.report.plots import DRAWN, bar_chart, scatter_chart

WEAKEST = 10  # classes whose curves are drawn
MOST = 100  # classes; of more, curves are not computed
BINS = 15  # of confidence
GRID = np.linspace(0.0, 1.0, 401)  # where curves are averaged
ERROR_BINS = 40


def curve_sections(probabilities: Array, labels: Array, classes: Sequence[str], split: str) -> list[Section]:
    """ROC and precision-recall curves with the areas below them, and calibration: how often answers are right, by how
    sure they are (Guo et al., arXiv 1706.04599). [] without samples.

    probabilities [N, C], rows that sum to 1; labels int [N], the true classes; classes: the C names. Of two classes
    the curves are those of the second; of more, each class against all others: the mean over the classes (macro), and
    the `WEAKEST` with the smallest areas. Of more than `MOST` classes there is only calibration.
    """
    probabilities, labels = _checked(np.asarray(probabilities), np.asarray(labels), len(classes))
    if not len(labels):
        return []
    made = [] if len(classes) > MOST else _threshold_sections(probabilities, labels, classes, split)
    return [*made, _calibration(probabilities, labels, split)]


def detection_sections(scores: Mapping[str, tuple[Array, Array]], split: str) -> list[Section]:
    """ROC and DET curves of deciding yes or no by a score, with the areas below them and the EER. [] where a label is
    missing everywhere.

    scores  by name: what is compared in one chart, scores float [N] and labels [N] of 0 and 1
    """
    known = {name: pair for name, pair in scores.items() if not np.isnan(auc(*pair))}
    if not known:
        return []
    rates = {f"{name} ({auc(*pair):.4f})": _points(*roc_curve(*pair)[:2]) for name, pair in known.items()}
    errors = {
        f"{name} ({equal_error_rate(*pair)[0]:.2%})": _points(*detection_error_curve(*pair)[:2])
        for name, pair in known.items()
    }
    roc = line_chart(rates, x_label="false alarms", y_label="hits", unit=True, guides={"chance": [(0, 0), (1, 1)]})
    drawn = [share for points in errors.values() for point in points for share in point if 0 < share < 1]
    ends = [(end, end) for end in (min(drawn, default=0.01), max(drawn, default=0.5))]
    det = line_chart(errors, x_label="false alarms", y_label="misses", deviates=True, guides={"equal": ends})
    return [
        Section(f"ROC ({split})", figure(roc, "in brackets: the area below (AUC)"), narrow=True),
        Section(f"DET ({split})", figure(det, "in brackets: the equal error rate (EER)"), narrow=True),
    ]


def number_sections(predictions: Array, targets: Array, name: str, split: str) -> list[Section]:
    """Predicted against true numbers, and how the errors are distributed. [] without samples.

    predictions, targets float [N]; `name`: what is predicted, with its unit if it has one.
    """
    predictions, targets = np.asarray(predictions, np.float64).ravel(), np.asarray(targets, np.float64).ravel()
    if predictions.shape != targets.shape:
        raise ShapeError(f"number_sections: {len(predictions)} predictions and {len(targets)} targets")
    errors = predictions - targets
    errors = errors[np.isfinite(errors)]
    if not len(errors):
        return []
    few = f"; {DRAWN:,} of {len(errors):,} samples" if len(errors) > DRAWN else ""
    left_out = len(targets) - len(errors)
    note = f"<p>{left_out:,} samples whose prediction or target is not finite are left out.</p>" if left_out else ""
    scatter = scatter_chart(targets, predictions, x_label=f"true {name}", y_label=f"predicted {name}")
    figures = [figure(scatter, f"predicted against true{few}"), figure(*_error_bars(errors))]
    return [Section(f"Predictions and errors ({split})", charts(figures) + note)]


def _checked(probabilities: Array, labels: Array, count: int) -> tuple[Array, Array]:
    if (
        probabilities.ndim != 2
        or labels.shape != probabilities.shape[:1]
        or probabilities.shape[1] != count
        or count < 2
    ):
        raise ShapeError(
            f"curve_sections: probabilities {probabilities.shape}, labels {labels.shape} and {count} classes; expected "
            "[N, C], [N] and C names, C at least 2"
        )
    sums = probabilities.sum(axis=1, dtype=np.float64)
    wrong = np.flatnonzero(~((np.abs(sums - 1) < 1e-3) & (probabilities.min(axis=1) >= 0)))
    if len(wrong):
        raise DataError(
            f"curve_sections: row {wrong[0]} sums to {sums[wrong[0]]:.4g}, its minimum is "
            f"{probabilities[wrong[0]].min():.4g}; rows are probabilities, which sum to 1"
        )
    if len(labels) and not (labels.min() >= 0 and labels.max() < count):
        raise DataError(f"curve_sections: labels in [{labels.min()}, {labels.max()}]; there are {count} classes")
    return probabilities, labels


# -- thresholds --------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class _OneClass:
    """A class against all others."""

    name: str
    scores: Array
    labels: Array
    auc: float
    precision: float

    @classmethod
    def of(cls, name: str, scores: Array, labels: Array) -> _OneClass:
        return cls(name, scores, labels, auc(scores, labels), average_precision(scores, labels))

    def roc(self) -> tuple[Array, Array]:
        """False and true positive rates, ascending."""
        return roc_curve(self.scores, self.labels)[:2]

    def recall(self) -> tuple[Array, Array]:
        """Recall, ascending, and precision, as the steps whose area is the average precision."""
        precision, recall, _ = precision_recall_curve(self.scores, self.labels)
        rises = np.flatnonzero(np.diff(recall[::-1]) > 0) + 1
        ends, heights = recall[::-1][rises], precision[::-1][rises]
        return np.repeat(np.append(0.0, ends), 2)[1:-1], np.repeat(heights, 2)


def _threshold_sections(probabilities: Array, labels: Array, classes: Sequence[str], split: str) -> list[Section]:
    numbers = [1] if len(classes) == 2 else range(len(classes))
    each = [_OneClass.of(classes[c], probabilities[:, c], labels == c) for c in numbers]
    each = [one for one in each if not np.isnan(one.auc)]  # in a split without a class nothing is known of it
    if not each:
        return []
    weakest = sorted(each, key=lambda one: one.auc)[:WEAKEST]
    rates, precisions = {}, {}
    if len(classes) > 2:
        rates[f"mean ({np.mean([one.auc for one in each]):.3f})"] = _mean_rates(each)
        precisions[f"mean ({np.mean([one.precision for one in each]):.3f})"] = _mean_precision(each)
    rates |= {f"{one.name} ({one.auc:.3f})": _points(*one.roc()) for one in weakest}
    precisions |= {f"{one.name} ({one.precision:.3f})": _points(*one.recall()) for one in weakest}
    share = float(np.mean([one.labels.mean() for one in each]))
    whose = f"share of {each[0].name}" if len(classes) == 2 else "mean share of a class"
    roc = line_chart(
        rates, x_label="false positive rate", y_label="true positive rate", unit=True,
        guides={"chance": [(0, 0), (1, 1)]},
    )  # fmt: skip
    recall = line_chart(
        precisions, x_label="recall", y_label="precision", unit=True,
        guides={f"{whose} ({share:.3f})": [(0, share), (1, share)]},
    )  # fmt: skip
    of = f" of {classes[1]}" if len(classes) == 2 else ""
    some = f"; the {WEAKEST} weakest of {len(each)} classes" if len(each) > WEAKEST else ""
    return [
        Section(f"ROC{of} ({split})", figure(roc, f"in brackets: the area below (AUC){some}"), narrow=True),
        Section(
            f"Precision and recall{of} ({split})", figure(recall, f"in brackets: average precision{some}"), narrow=True
        ),
    ]


def _mean_rates(each: Sequence[_OneClass]) -> Points:
    """The true positive rate at each false positive rate, averaged over the classes."""
    mean = np.mean([np.interp(GRID, *one.roc()) for one in each], axis=0)
    return [(0.0, 0.0), *_points(GRID, mean)]


def _mean_precision(each: Sequence[_OneClass]) -> Points:
    """The precision at each recall, averaged over the classes."""
    found = []
    for one in each:
        recall, precision = (side[1::2] for side in one.recall())
        found.append(precision[np.minimum(np.searchsorted(recall, GRID - 1e-12), len(recall) - 1)])
    return _points(GRID, np.mean(found, axis=0))


def _points(x: Array, y: Array) -> Points:
    return list(zip(x.tolist(), y.tolist(), strict=True))


# -- calibration -------------------------------------------------------------------------------------------------------
def _calibration(probabilities: Array, labels: Array, split: str) -> Section:
    right = probabilities.argmax(axis=1) == labels
    bins = calibration_bins(np.minimum(probabilities.max(axis=1), 1.0), right, bins=BINS)
    edges = np.linspace(0.0, 1.0, BINS + 1)
    said = [
        (f"confidence {sure:.3f}", f"accuracy {accuracy:.3f}", _samples(count)) if count else ()
        for sure, accuracy, count in zip(bins.confidence, bins.accuracy, bins.counts, strict=True)
    ]
    reliability = bar_chart(edges, bins.accuracy, said, x_label="confidence", y_label="accuracy", unit=True)
    counts = bar_chart(edges, bins.counts.astype(np.float64), said, x_label="confidence", y_label="samples", height=130)
    error = bins.expected_calibration_error
    note = f"expected calibration error {error:.3f} in {BINS} bins; bars below the diagonal: too sure"
    return Section(f"Calibration ({split})", figure(reliability, note) + figure(counts, ""), narrow=True)


# -- numbers -----------------------------------------------------------------------------------------------------------
def _error_bars(errors: Array) -> tuple[str, str]:
    """A histogram of errors, and what is below it. The outermost bars hold what lies beyond: half a percent a side."""
    low, high = (float(each) for each in np.quantile(errors, (0.005, 0.995), method="closest_observation"))
    beyond = len(errors) >= 2 * ERROR_BINS and (errors.min() < low or errors.max() > high)
    low, high = (low, high) if beyond else (float(errors.min()), float(errors.max()))
    room = 0.0 if high > low else abs(low) * 0.1 or 1.0
    number = min(ERROR_BINS, max(5, round(len(errors) ** 0.5)))
    counts, edges = np.histogram(np.clip(errors, low, high), bins=number, range=(low - room, high + room))
    said = [(f"{edges[k]:.4g} to {edges[k + 1]:.4g}", _samples(count)) for k, count in enumerate(counts.tolist())]
    chart = bar_chart(edges, counts.astype(np.float64), said, x_label="error", y_label="samples")
    also = "; the outermost bars hold all that lies beyond" if beyond else ""
    return chart, f"predicted - true: mean {errors.mean():.4g}, std {errors.std():.4g}{also}"


def _samples(count: int) -> str:
    return f"{count:,} sample{'s' if count != 1 else ''}"
