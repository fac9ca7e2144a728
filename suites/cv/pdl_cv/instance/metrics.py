"""Instance masks as microscopy measures them: objects found and missed at one IoU, and the area they cover together.
COCO's average precision of masks is `pdl_cv.detection.metrics.MaskAP`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import numpy as np

from pdl.errors import UsageError
from pdl.hints import Range
from pdl.train.metrics import Metric
from pdl_cv.detection.overlaps import Runs, mask_overlaps

Share = Annotated[float, Range(0, 1)]


class MaskMatches(Metric):
    """TP / (TP + FP + FN) of instance masks at one IoU: the "AP50" of the Data Science Bowl 2018 and of StarDist
    (Schmidt et al., arXiv 1806.03535), which knows no scores but a threshold.

    iou    from which on a mask is found; each finds at most one, those of higher scores choose first
    score  detections below are left out

    Sums run over all images. Detections and annotations are those of `pdl_cv.detection.metrics.MaskAP`; classes must
    agree, and annotations of a crowd, with what lies in them, count neither way.
    """

    def __init__(self, *, iou: Share = 0.5, score: Share = 0.5) -> None:
        self.iou, self.score = iou, score
        self.found = self.wrong = self.missed = 0
        self.overlap = 0.0

    def update(self, detections: Sequence[Mapping[str, Any]], annotations: Sequence[Mapping[str, Any]]) -> None:
        for found, known in zip(*_checked(self, detections, annotations), strict=True):
            labels, truth = np.asarray(found["labels"]), np.asarray(known["labels"])
            crowd = np.asarray(known.get("crowd", np.zeros(len(truth))), np.bool_)
            overlaps = mask_overlaps(_runs(found), _runs(known), crowd) * (labels[:, None] == truth)
            scores = np.asarray(found["scores"], np.float64)
            best = np.argsort(-scores, kind="stable")
            self._match(overlaps[best[(scores >= self.score)[best] & (labels >= 0)[best]]], crowd)

    def _match(self, overlaps: np.ndarray, crowd: np.ndarray) -> None:
        """Of one image, [D, G], best detections first."""
        free = ~crowd
        hits = 0
        for row in overlaps:
            at = int(np.where(free, row, -1.0).argmax()) if len(row) else -1
            if at >= 0 and free[at] and row[at] >= self.iou and row[at] > 0:
                free[at] = False
                hits += 1
                self.overlap += float(row[at])
            elif not (row[crowd] >= self.iou).any():
                self.wrong += 1
        self.found += hits
        self.missed += int((~crowd).sum()) - hits

    def compute(self) -> float:
        return self.numbers()["AP"]

    def numbers(self) -> dict[str, float]:
        """AP = TP / (TP + FP + FN); precision, recall and F1; SQ, the mean IoU of what was found, and PQ = SQ * F1
        (Kirillov et al., arXiv 1801.00868). NaN where a denominator is 0."""
        hits, wrong, missed = self.found, self.wrong, self.missed
        return {
            "AP": _share(hits, hits + wrong + missed),
            "precision": _share(hits, hits + wrong),
            "recall": _share(hits, hits + missed),
            "F1": _share(2 * hits, 2 * hits + wrong + missed),
            "SQ": _share(self.overlap, hits),
            "PQ": _share(2 * self.overlap, 2 * hits + wrong + missed),
        }


class MaskDice(Metric):
    """Dice coefficient 2 |A & B| / (|A| + |B|) of all pixels that lie in some mask, found and annotated, of whatever
    class: the mean over images (one without any in both counts 1).

    score  detections below are left out
    """

    def __init__(self, *, score: Share = 0.5) -> None:
        self.score, self.total, self.images = score, 0.0, 0

    def update(self, detections: Sequence[Mapping[str, Any]], annotations: Sequence[Mapping[str, Any]]) -> None:
        for found, known in zip(*_checked(self, detections, annotations), strict=True):
            kept = (np.asarray(found["scores"]) >= self.score) & (np.asarray(found["labels"]) >= 0)
            a, b = _runs(found).union(kept), _runs(known).union()
            both = a.common(b)
            size = int(a.areas.sum() + b.areas.sum())
            self.total += 2 * both / size if size else 1.0
            self.images += 1

    def compute(self) -> float:
        return self.total / self.images if self.images else float("nan")


def _checked(
    metric: Metric, detections: Sequence[Any], annotations: Sequence[Any]
) -> tuple[Sequence[Any], Sequence[Any]]:
    if len(detections) != len(annotations):
        raise UsageError(
            f"{type(metric).__name__}: detections of {len(detections)} images, annotations of {len(annotations)}"
        )
    return detections, annotations


def _runs(objects: Mapping[str, Any]) -> Runs:
    return Runs.of(objects["masks"] if len(objects["labels"]) else [])


def _share(part: float, whole: float) -> float:
    return part / whole if whole else float("nan")
