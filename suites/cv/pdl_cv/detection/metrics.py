"""Average precision of boxes, masks and keypoints, as COCO and as Pascal VOC define it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from pdl.errors import DataError, ShapeError, UsageError
from pdl.hints import Range
from pdl.train.metrics import Several
from pdl_cv.detection.average_precision import (
    THRESHOLDS,
    Accumulated,
    Curve,
    Judged,
    Protocol,
    class_average,
    coco,
    curve,
    voc,
)
from pdl_cv.detection.error_kinds import LEAST, ErrorKinds, error_kinds
from pdl_cv.detection.matching import Growing, Seen
from pdl_cv.detection.overlaps import (
    COCO_SIGMAS,
    Runs,
    box_areas,
    box_overlaps,
    keypoint_similarity,
    mask_overlaps,
)

Array = np.ndarray[Any, Any]
Kind = Literal["boxes", "masks", "keypoints"]
Objects = Mapping[str, Any]
"""What is in an image, found or annotated, in pixels of the original: labels int [N], boxes [N, 4] (x1, y1, x2, y2),
masks (uint8 [N, H, W], or COCO's run-length codes), keypoints [N, P, 3]; of detections scores [N]; of annotations crowd
and difficult bool [N] and area float [N], where there are such."""


@dataclass(frozen=True)
class ClassResult:
    """One class in a table; NaN where there is no annotation, or the protocol has no such number.

    ap          average precision, of COCO the mean over IoU 0.5 to 0.95
    ap50, ap75  at IoU 0.5 and 0.75
    recall      the share found with all detections, of COCO the mean over IoU 0.5 to 0.95
    f1          the highest at IoU 0.5, and `score`, the lowest score of detections that reaches it
    """

    name: str
    annotations: int
    detections: int
    ap: float
    ap50: float
    ap75: float
    recall: float
    f1: float
    score: float


class AveragePrecision(Several):
    """Base of the three below: what is compared, a subclass says.

    classes   their names in the order of labels
    protocol  "coco": mean over IoU 0.5, 0.55, ..., 0.95, precision at 101 recalls, at most 100 detections of a class in
              an image (keypoints: 20); annotations of a crowd (and difficult ones) count neither way.
              "voc": at one IoU, the area under precision made monotone, every detection compared with the annotation
              it covers most; difficult ones (and crowds) count neither way. "voc07": precision at 11 recalls
    iou       of VOC's protocols

    Attributes, for drawings: samples, the numbers of the images in their data set ("index" of annotations; by default
    in the order of updates); boxes, of each the boxes found as float32 [D, 4], best first.

    Equal to pycocotools, with NaN where that has -1; VOC's overlap is at least `iou`, as in its development kit. Of
    detections with equal scores the one that was given first comes first. Of an image scores, areas and overlaps of at
    least 0.1 are kept, and no masks.
    """

    ranges: ClassVar[tuple[str, ...]] = ("all", "small", "medium", "large")
    most: ClassVar[tuple[int, ...]] = (1, 10, 100)

    def __init__(
        self,
        classes: Sequence[str],
        *,
        protocol: Protocol = "coco",
        iou: Annotated[float, Range(0.1, below=1)] = 0.5,
    ) -> None:
        if protocol not in ("coco", "voc", "voc07"):
            raise UsageError(f"{type(self).__name__}: protocol={protocol!r} is none of coco, voc, voc07")
        self.classes, self.protocol, self.iou = list(classes), protocol, iou
        self.samples: list[int] = []
        self.boxes: list[Array] = []
        self._growing = Growing()
        self._done: tuple[Seen, Accumulated | None, Judged] | None = None

    # -- what is compared ----------------------------------------------------------------------------------------------
    def measured(self, found: Objects, known: Objects) -> tuple[Array, Array, Array]:
        """Areas [D] and [G] and overlaps [D, G] of an image."""
        raise NotImplementedError

    def uncounted(self, known: Objects) -> Array:
        """Which annotations cannot be found, beside those of a crowd and difficult ones: bool [G]."""
        return np.zeros(len(known["labels"]), np.bool_)

    # -- accumulating --------------------------------------------------------------------------------------------------
    def update(self, detections: Sequence[Objects], annotations: Sequence[Objects]) -> None:
        """Take in images: what was found in each, and what is annotated. Detections of label -1 are left out."""
        if len(detections) != len(annotations):
            raise UsageError(
                f"{type(self).__name__}: detections of {len(detections)} images, annotations of {len(annotations)}"
            )
        for found, known in zip(detections, annotations, strict=True):
            self._add(found, known)
        self._done = None

    def _add(self, found: Objects, known: Objects) -> None:
        image = self._growing.images
        scores = np.asarray(found["scores"], np.float64)
        labels = self._labels(found, f"detections of image {image}", -1)
        truth = self._labels(known, f"annotations of image {image}", 0)
        if len(scores) != len(labels):
            raise ShapeError(f"detections of image {image}: {len(scores)} scores and {len(labels)} labels")
        with np.errstate(invalid="ignore"):  # boxes that are not finite overlap nothing
            areas, sizes, overlaps = self.measured(found, known)
        best = np.argsort(-scores, kind="stable")
        best = best[labels[best] >= 0]
        ranks = _ranks(labels[best])
        if self.protocol == "coco":
            best, ranks = best[ranks < self.most[-1]], ranks[ranks < self.most[-1]]
        crowd = _marked(known, "crowd")
        ignored = crowd | _marked(known, "difficult") | self.uncounted(known)
        sizes = np.asarray(known.get("area", sizes), np.float64)
        self.samples.append(int(known.get("index", image)))
        self.boxes.append(
            np.asarray(found["boxes"] if "boxes" in found else np.zeros((len(scores), 4)), np.float32)[best]
        )
        detected = scores[best], labels[best], areas[best], ranks
        self._growing.add(detected, (truth, sizes, ignored, crowd), overlaps[best], min(LEAST, self.iou))

    def _labels(self, objects: Objects, what: str, least: int) -> Array:
        labels = np.asarray(objects["labels"], np.int64)
        if len(labels) and not least <= labels.min() <= labels.max() < len(self.classes):
            raise DataError(
                f"{what}: labels {labels.min()}..{labels.max()}, expected 0..{len(self.classes) - 1} "
                f"({len(self.classes)} classes)"
            )
        return labels

    # -- results -------------------------------------------------------------------------------------------------------
    @property
    def _results(self) -> tuple[Seen, Accumulated | None, Judged]:
        if self._done is None:
            seen = self._growing.seen()
            if self.protocol == "coco":
                made = coco(seen, len(self.classes), self.ranges, self.most)
                self._done = seen, made, made.judged
            else:
                self._done = seen, None, voc(seen, len(self.classes), self.iou)
        return self._done

    def compute(self) -> float:
        """The protocol's main number, the mean over classes that are annotated; NaN without any."""
        return next(iter(self.numbers().values()))

    def numbers(self) -> dict[str, float]:
        """All numbers of the protocol: COCO's twelve (AP, AP50, AP75, AP_small, ..., AR1, AR10, AR100, AR_small, ...),
        of keypoints ten; VOC's mAP."""
        made = self._results[1]
        return {"mAP": _mean(self._by_class())} if made is None else self._coco_numbers(made)

    def _coco_numbers(self, made: Accumulated) -> dict[str, float]:
        half, threequarters = 0, int(np.searchsorted(THRESHOLDS, 0.75 - 1e-9))
        numbers = {
            "AP": _mean(made.precision[0]),
            "AP50": _mean(made.precision[0, :, half]),
            "AP75": _mean(made.precision[0, :, threequarters]),
            **{f"AP_{name}": _mean(each) for name, each in zip(self.ranges[1:], made.precision[1:], strict=True)},
        }
        if len(self.most) > 1:
            numbers |= {f"AR{most}": _mean(each) for most, each in zip(self.most, made.recall[0], strict=True)}
        else:
            recall = made.recall[0, 0]
            numbers |= {"AR": _mean(recall), "AR50": _mean(recall[:, half]), "AR75": _mean(recall[:, threequarters])}
        named = zip(self.ranges[1:], made.recall[1:], strict=True)
        return numbers | {f"AR_{name}": _mean(each[-1]) for name, each in named}

    def table(self) -> list[ClassResult]:
        """A row for each class."""
        seen, made, verdict = self._results
        found = np.bincount(seen.labels, minlength=len(self.classes)).tolist()
        rows = []
        for label, (name, average, each) in enumerate(zip(self.classes, self._by_class(), self.curves(), strict=True)):
            if made is None:
                recall = verdict.of(label).sum() / verdict.present[label] if verdict.present[label] else np.nan
                numbers = average, float("nan"), float("nan"), float(recall)
            else:
                precision, recall = made.precision[0, label], made.recall[0, -1, label]
                numbers = average, float(precision[0]), float(precision[5]), _mean(recall)
            rows.append(ClassResult(name, int(verdict.present[label]), found[label], *numbers, *each.best))
        return rows

    def curves(self) -> list[Curve]:
        """Precision and recall of each class over all scores, at IoU 0.5 (of VOC's protocols at theirs)."""
        seen, _, verdict = self._results
        return [curve(name, seen, verdict, label) for label, name in enumerate(self.classes)]

    @property
    def seen(self) -> Seen:
        """All detections and annotations, in order of images."""
        return self._results[0]

    def errors(self) -> ErrorKinds:
        """Errors at IoU 0.5, sorted into kinds, and what each kind costs."""
        return error_kinds(self._results[0], len(self.classes))

    def _by_class(self) -> list[float]:
        _, made, verdict = self._results
        if made is not None:
            return [_mean(each) for each in made.precision[0]]
        present = verdict.present.tolist()
        return [class_average(verdict.of(label), count, self.protocol) for label, count in enumerate(present)]


class BoxAP(AveragePrecision):
    """Average precision of boxes, by their IoU; arguments and protocols are those of `AveragePrecision`."""

    def measured(self, found: Objects, known: Objects) -> tuple[Array, Array, Array]:
        a, b = _rows(found, "boxes", 4), _rows(known, "boxes", 4)
        return box_areas(a), box_areas(b), box_overlaps(a, b, _marked(known, "crowd"))


class MaskAP(AveragePrecision):
    """Average precision of instance masks, by the IoU of their pixels; arguments and protocols are those of
    `AveragePrecision`."""

    def measured(self, found: Objects, known: Objects) -> tuple[Array, Array, Array]:
        a, b = (Runs.of(each["masks"] if len(each["labels"]) else []) for each in (found, known))
        overlaps = mask_overlaps(a, b, _marked(known, "crowd"))
        return a.areas.astype(np.float64), b.areas.astype(np.float64), overlaps


class KeypointAP(AveragePrecision):
    """Average precision of keypoints, by their similarity (OKS) in place of IoU; arguments are those of
    `AveragePrecision`, and

    sigmas  of each point: how far annotators disagree on it, as a share of the root of an object's area. By default
            COCO's of 17 points; of another number of points the mean of those for each, 0.067

    Annotations without a visible point are not counted.
    """

    ranges = ("all", "medium", "large")
    most = (20,)

    def __init__(
        self, classes: Sequence[str], *, protocol: Protocol = "coco",
        iou: Annotated[float, Range(0.1, below=1)] = 0.5, sigmas: Sequence[float] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(classes, protocol=protocol, iou=iou)
        self.sigmas = None if sigmas is None else np.asarray(sigmas, np.float64)

    def measured(self, found: Objects, known: Objects) -> tuple[Array, Array, Array]:
        a, b = (np.asarray(each["keypoints"] if len(each["labels"]) else ()) for each in (found, known))
        boxes = _rows(known, "boxes", 4)
        areas = np.asarray(known.get("area", box_areas(boxes)), np.float64)
        extent = np.ptp(a[..., :2].astype(np.float64), axis=1).prod(axis=1) if len(a) else np.zeros(0)
        if not (len(a) and len(b)):
            return extent, areas, np.zeros((len(a), len(b)))
        if a.shape[1] != b.shape[1]:
            raise ShapeError(f"KeypointAP: objects found have {a.shape[1]} points, annotated ones {b.shape[1]}")
        return extent, areas, keypoint_similarity(a, b, boxes, areas, self._sigmas(a.shape[1]))

    def _sigmas(self, points: int) -> Array:
        if self.sigmas is None:
            self.sigmas = np.array(COCO_SIGMAS if points == len(COCO_SIGMAS) else [np.mean(COCO_SIGMAS)] * points)
        if len(self.sigmas) != points:
            raise ShapeError(f"KeypointAP: {len(self.sigmas)} sigmas, objects have {points} points")
        return self.sigmas

    def uncounted(self, known: Objects) -> Array:
        if not len(known["labels"]):
            return super().uncounted(known)
        hidden: Array = np.all(np.asarray(known["keypoints"])[..., 2] == 0, axis=1)
        return hidden


def evaluate_detections(
    detections: Sequence[Objects],
    annotations: Sequence[Objects],
    classes: Sequence[str],
    *,
    kind: Kind = "boxes",
    **settings: Any,
) -> AveragePrecision:
    """Compare what was found in images with what is annotated: `evaluate_detections(...).numbers()`, `.table()`,
    `.curves()`, `.errors()`.

    Both have an entry for each image (see `Objects`), in one order. `settings` are those of `BoxAP`, `MaskAP` or
    `KeypointAP`.
    """
    made: AveragePrecision = {"boxes": BoxAP, "masks": MaskAP, "keypoints": KeypointAP}[kind](classes, **settings)
    made.update(detections, annotations)
    return made


def _ranks(labels: Array) -> Array:
    """Places of detections among those of their class, in the order given."""
    order = np.argsort(labels, kind="stable")
    by_class = labels[order]
    ranks = np.empty(len(labels), np.int64)
    ranks[order] = np.arange(len(labels)) - np.searchsorted(by_class, by_class)
    return ranks


def _rows(objects: Objects, name: str, width: int) -> Array:
    rows = np.asarray(objects[name])
    if rows.shape != (len(objects["labels"]), width) and rows.size:
        raise ShapeError(f"{name} have shape {rows.shape}, expected ({len(objects['labels'])}, {width})")
    return rows.reshape(-1, width)


def _marked(known: Objects, name: str) -> Array:
    """Which annotations are of a crowd, or difficult: bool [G]."""
    return np.asarray(known.get(name, np.zeros(len(known["labels"]))), np.bool_)


def _mean(values: Any) -> float:
    """Of the numbers that are not NaN; NaN without any."""
    values = np.asarray(values)
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else float("nan")
