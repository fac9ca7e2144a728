"""What the report says of a detector: its classes, kinds of errors, curves, sizes, and the worst images drawn."""

from __future__ import annotations

from typing import Any

import numpy as np

from pdl.data import Dataset, sample_name
from pdl.data.transforms.numeric import displayed
from pdl.report import Section, bar_chart, charts, escape, figure, line_chart, named_bars, number, table
from pdl.train import Evaluation, Reporter
from pdl_cv.detection.average_precision import RECALLS, Curve
from pdl_cv.detection.drawing import drawn
from pdl_cv.detection.error_kinds import KINDS, ErrorKinds
from pdl_cv.detection.metrics import AveragePrecision, ClassResult

Array = np.ndarray[Any, Any]

FOLD = 20  # rows of a table that are shown at once
WEAKEST = 10  # classes whose curves are drawn
BINS = 8  # of sizes, as many annotations in each
WORST = 12  # images that are drawn
BOXES = 12  # wrong detections that are drawn in each


class DetectionReporter(Reporter):
    """Classes, kinds of errors, precision-recall curves, what is found by size, and the images with the most errors."""

    def sections(self, evaluation: Evaluation, dataset: Any) -> list[Section]:
        metric = next((each for each in evaluation.observers.values() if isinstance(each, AveragePrecision)), None)
        if metric is None or not len(metric.seen.truth):
            return []
        rows, errors = metric.table(), metric.errors()
        made = [_classes(rows, evaluation.split), _kinds(errors), _curves(metric.curves(), rows)]
        wanted = _wanted(rows)
        clear = np.flatnonzero(metric.seen.scores >= wanted[metric.seen.labels])
        made.append(_sizes(metric, errors, clear))
        if isinstance(dataset, Dataset):
            made += _worst(metric, errors, clear, dataset, getattr(self.task, "skeleton", ()))
        return made


def _wanted(rows: list[ClassResult]) -> Array:
    """The score of each class from which on detections are taken seriously: that of its highest F1; infinity where
    nothing of it was found."""
    return np.array([row.score if np.isfinite(row.score) else np.inf for row in rows])


def _classes(rows: list[ClassResult], split: str) -> Section:
    weakest = sorted(rows, key=lambda row: (np.isnan(row.ap), row.ap))
    many = any(np.isfinite(row.ap50) for row in rows)  # COCO's protocol has AP at several IoUs
    lines = [
        (
            row.name, row.ap, *((row.ap50, row.ap75) if many else ()), row.recall, row.f1, row.score, row.annotations,
            row.detections,
        )
        for row in weakest
    ]  # fmt: skip
    head = ("class", "AP", *(("AP50", "AP75") if many else ()), "recall", "F1", "at score", "annotated", "found")
    note = "<p>F1 at IoU 0.5 is the highest over all scores, reached by detections of that score or more.</p>"
    return Section(f"Classes ({split})", table(lines, head=head, fold=FOLD) + note)


def _kinds(errors: ErrorKinds) -> Section:
    lines = [(kind, words, int(errors.counts[kind].sum()), errors.cost[kind]) for kind, words in KINDS.items()]
    lines.sort(key=lambda row: -np.nan_to_num(row[3]))
    said = [f"{number(cost)}, {count:,} error{'s' * (count != 1)}" for _, _, count, cost in lines]
    chart = named_bars({kind: cost for kind, _, _, cost in lines}, said, label="AP50 lost")
    head = ("kind", "what it is", "errors", "AP50 lost")
    cost = "what a kind costs is how much it would rise without these errors alone"
    note = f"<p>AP50 is {number(errors.ap50)}; {cost}.</p>"
    return Section("Kinds of errors", charts([figure(chart, "")]) + table(lines, head=head) + note, narrow=True)


def _curves(curves: list[Curve], rows: list[ClassResult]) -> Section:
    """Of the weakest classes that are annotated."""
    order = sorted((k for k, row in enumerate(rows) if row.annotations), key=lambda k: rows[k].ap)
    series = {curves[k].name: _points(curves[k]) for k in order[:WEAKEST]}
    chart = line_chart(series, x_label="recall", y_label="precision", unit=True)
    few = f"the {WEAKEST} weakest of {len(order)} classes" if len(order) > WEAKEST else "each class"
    return Section("Precision and recall", figure(chart, f"{few}, precision made monotone"), narrow=True)


def _points(curve: Curve) -> list[tuple[float, float]]:
    """At 101 recalls, as far as the curve goes."""
    if not len(curve.recall):
        return [(0.0, 0.0)]
    envelope = np.maximum.accumulate(curve.precision[::-1])[::-1]
    grid = RECALLS[: np.searchsorted(RECALLS, curve.recall[-1], side="right")]
    at = np.searchsorted(curve.recall, grid)
    return list(zip(grid.tolist(), envelope[at].tolist(), strict=True))


def _sizes(metric: AveragePrecision, errors: ErrorKinds, clear: Array) -> Section:
    """The share of annotations that is found, by the root of their area."""
    seen = metric.seen
    known = ~seen.ignored
    found = np.zeros(len(seen.truth), np.bool_)
    right = errors.found[clear]
    found[right[right >= 0]] = True
    sides = np.sqrt(np.maximum(seen.sizes, 0.0))
    edges = np.unique(np.quantile(sides[known], np.linspace(0, 1, BINS + 1))) if known.any() else np.zeros(0)
    if len(edges) < 2:
        edges = np.array([0.0, 1.0]) if not len(edges) else edges[0] + np.array([-0.5, 0.5])
    counts = np.histogram(sides[known], edges)[0]
    hits = np.histogram(sides[known & found], edges)[0]
    share = np.divide(hits, counts, out=np.full(len(counts), np.nan), where=counts > 0)
    said = [
        (f"{edges[k]:.0f} to {edges[k + 1]:.0f} pixels", f"{hits[k]} of {counts[k]} found") for k in range(len(counts))
    ]
    chart = bar_chart(edges, share, said, x_label="root of the area, pixels", y_label="share found")
    note = f"{int(hits.sum()):,} of {int(counts.sum()):,} annotations, at the scores of the highest F1"
    return Section("What is found, by size", figure(chart, note), narrow=True)


def _worst(
    metric: AveragePrecision, errors: ErrorKinds, clear: Array, dataset: Dataset, skeleton: Any
) -> list[Section]:
    """The images with the most wrong detections (by score) and missed annotations."""
    seen, count = metric.seen, len(metric.samples)
    wrong = clear[errors.detections[clear] >= 0]
    missed = ~seen.ignored
    missed[errors.found[clear][errors.found[clear] >= 0]] = False
    weight = np.bincount(seen.images[wrong], seen.scores[wrong], count) + np.bincount(
        seen.places[missed], minlength=count
    )
    figures = []
    for image in np.argsort(-weight, kind="stable")[:WORST].tolist():
        if weight[image] > 0:
            own = wrong[seen.images[wrong] == image][:BOXES]
            index = metric.samples[image]
            drawing = _drawing(metric, errors, own, image, dataset[index], skeleton)
            said = f"{len(own)} wrong, {int(missed[seen.places == image].sum())} missed, {sample_name(dataset, index)}"
            figures.append(figure(drawing, said))
    note = "Annotations are dashed, wrong detections are drawn through and named by their kind."
    return [Section("Worst images", f"<p>{escape(note)}</p>{charts(figures)}")] if figures else []


def _drawing(metric: AveragePrecision, errors: ErrorKinds, own: Array, image: int, sample: Any, skeleton: Any) -> str:
    seen = metric.seen
    first = int(np.searchsorted(seen.images, image))
    names = list(KINDS)
    found = {
        "boxes": metric.boxes[image][own - first], "labels": seen.labels[own], "scores": seen.scores[own],
        "texts": [f"{metric.classes[seen.labels[k]]}, {names[errors.detections[k]]}" for k in own.tolist()],
    }  # fmt: skip
    known = {name: sample[name] for name in ("boxes", "labels", "keypoints") if name in sample}
    return drawn(displayed(sample["image"], ()), found, metric.classes, skeleton=skeleton, dashed=known)
