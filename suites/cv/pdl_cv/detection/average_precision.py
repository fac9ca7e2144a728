"""Average precision from matches: COCO's at 101 recalls, VOC's over all points and at 11."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from pdl_cv.detection.matching import Seen, match

Array = np.ndarray[Any, Any]
Protocol = Literal["coco", "voc", "voc07"]

THRESHOLDS = np.linspace(0.5, 0.95, 10)
RECALLS = np.linspace(0.0, 1.0, 101)
ELEVEN = np.linspace(0.0, 1.0, 11)
#: areas in pixels from which and up to which annotations are counted
RANGES = {"all": (0, 1e10), "small": (0, 32**2), "medium": (32**2, 96**2), "large": (96**2, 1e10)}


@dataclass(frozen=True)
class Curve:
    """Precision and recall of a class when all detections that score at least as high count, highest score first:
    float64 [D] each."""

    name: str
    precision: Array
    recall: Array
    scores: Array

    @property
    def best(self) -> tuple[float, float]:
        """The highest F1 = 2 P R / (P + R), and the score from which on it is reached; NaN where nothing was found, or
        the class is not present."""
        total = self.precision + self.recall
        if not (total > 0).any():
            return float("nan"), float("nan")
        f1 = np.divide(2 * self.precision * self.recall, total, out=np.zeros_like(total), where=total > 0)
        at = int(f1.argmax())
        return float(f1[at]), float(self.scores[at])


@dataclass(frozen=True)
class Judged:
    """Detections of all classes at one threshold and range of areas, and whether each is right.

    order  int64 [D]: rows of detections that count, by class, each class by descending score
    right  bool [D]: of these, whether one found an annotation
    starts int64 [C + 1]: where classes begin in `order`
    present int64 [C]: annotations of each class that are to be found
    """

    order: Array
    right: Array
    starts: Array
    present: Array

    def of(self, label: int) -> Array:
        """Of one class."""
        return self.right[self.starts[label] : self.starts[label + 1]]


def by_class(seen: Seen) -> Array:
    """Rows of detections by class, each class by descending score, of equal scores the earlier image first."""
    return np.lexsort((-seen.scores, seen.labels))


def judged(labels: Array, order: Array, right: Array, counted: Array, present: Array) -> Judged:
    """`labels`, `right` and `counted` are those of every detection, [D]; `order` that of `by_class`."""
    order = order[counted[order]]
    starts = np.searchsorted(labels[order], np.arange(len(present) + 1))
    return Judged(order, right[order], starts, present)


def interpolated(right: Array, present: int, recalls: Array) -> Array:
    """The highest precision at each recall or beyond (0 where it is not reached): float64, as `recalls`.

    right bool [D], by descending score; present: how many are to be found, at least 1.
    """
    hits = np.flatnonzero(right)
    found = np.arange(1, len(hits) + 1)
    envelope = np.maximum.accumulate((found / (hits + 1))[::-1])[::-1]
    return np.append(envelope, 0.0)[np.searchsorted(found / present, recalls)]


def area_under(right: Array, present: int) -> float:
    """The area under precision made monotone, as VOC has it from 2010 on. Arguments as those of `interpolated`."""
    hits = np.flatnonzero(right)
    envelope = np.maximum.accumulate((np.arange(1, len(hits) + 1) / (hits + 1))[::-1])
    return float(envelope.sum() / present)


def class_average(right: Array, present: int, protocol: Protocol) -> float:
    """Average precision of a class at one threshold; NaN without annotations."""
    if not present:
        return float("nan")
    if protocol == "voc":
        return area_under(right, present)
    return float(interpolated(right, present, RECALLS if protocol == "coco" else ELEVEN).mean())


# -- COCO --------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Accumulated:
    """What COCO averages over, NaN for classes that are not present.

    precision  float64 [A, C, T]: mean over 101 recalls, for ranges of areas, classes and thresholds
    recall     float64 [A, M, C, T]: the highest, also for each number of detections an image
    judged     at threshold 0.5, areas of any size
    """

    precision: Array
    recall: Array
    judged: Judged


def coco(seen: Seen, classes: int, ranges: tuple[str, ...], most: tuple[int, ...]) -> Accumulated:
    """Matches at COCO's ten thresholds, for annotations in `ranges` of areas and the `most` best detections of a class
    in an image (ascending; no others are in `seen`)."""
    limits = np.array([RANGES[name] for name in ranges], np.float64).T
    outside = (seen.sizes[:, None] < limits[0]) | (seen.sizes[:, None] > limits[1])
    ignored = seen.ignored[:, None] | outside
    rows, found = match(seen, THRESHOLDS, ignored)
    place = np.full(len(seen.scores), -1)
    place[rows] = np.arange(len(rows))
    beyond = (seen.areas[:, None] < limits[0]) | (seen.areas[:, None] > limits[1])
    order = by_class(seen)
    starts = np.searchsorted(seen.labels[order], np.arange(classes + 1))
    precision = np.full((len(ranges), classes, len(THRESHOLDS)), np.nan)
    recall = np.full((len(ranges), len(most), classes, len(THRESHOLDS)), np.nan)
    for area in range(len(ranges)):
        present = np.bincount(seen.truth[~ignored[:, area]], minlength=classes)
        for label in np.flatnonzero(present).tolist():
            own = order[starts[label] : starts[label + 1]]
            right, counted = _verdicts(found[:, area], place[own], beyond[own, area], ignored[:, area])
            ranks = seen.ranks[own]
            for k, number in enumerate(most):
                recall[area, k, label] = (right & (ranks < number)).sum(axis=1) / present[label]
            for t in range(len(THRESHOLDS)):
                precision[area, label, t] = interpolated(right[t, counted[t]], present[label], RECALLS).mean()
    return Accumulated(precision, recall, at_half(seen, classes, order, rows, found[:, 0, 0]))


def _verdicts(found: Array, place: Array, beyond: Array, ignored: Array) -> tuple[Array, Array]:
    """Whether detections of a class are right, and whether they count: bool [T, D]. A detection does not if it took an
    ignored annotation, or none and its own area is out of range."""
    thresholds, some = found.shape[1], place >= 0
    right = np.zeros((thresholds, len(place)), np.bool_)
    counted = np.repeat(~beyond[None], thresholds, axis=0)
    took = found[place[some]].T
    passed = (took >= 0) & ignored[took]
    right[:, some] = (took >= 0) & ~passed
    counted[:, some] = np.where(took >= 0, ~passed, counted[:, some])
    return right, counted


def at_half(seen: Seen, classes: int, order: Array, rows: Array, took: Array) -> Judged:
    """At threshold 0.5 (or another: that of `took` [C], see `match`), areas of any size."""
    right, counted = np.zeros(len(seen.scores), np.bool_), np.ones(len(seen.scores), np.bool_)
    passed = (took >= 0) & seen.ignored[took]
    right[rows], counted[rows] = (took >= 0) & ~passed, ~passed
    return judged(seen.labels, order, right, counted, np.bincount(seen.truth[~seen.ignored], minlength=classes))


# -- VOC ---------------------------------------------------------------------------------------------------------------
def voc(seen: Seen, classes: int, threshold: float) -> Judged:
    """Each detection is compared with the annotation of its class that it covers most, and no other; the one with the
    highest score finds it, the rest are wrong. Those of ignored (difficult) annotations do not count."""
    use = np.flatnonzero(seen.same & (seen.overlap >= threshold))
    use = use[np.lexsort((seen.annotation[use], -seen.overlap[use], seen.detection[use]))]
    rows, first = np.unique(seen.detection[use], return_index=True)
    took = seen.annotation[use[first]]
    best = np.lexsort((rows, -seen.scores[rows]))
    right = np.zeros(len(seen.scores), np.bool_)
    right[rows[best[np.unique(took[best], return_index=True)[1]]]] = True
    counted = np.ones(len(seen.scores), np.bool_)
    counted[rows] = ~seen.ignored[took]
    present = np.bincount(seen.truth[~seen.ignored], minlength=classes)
    return judged(seen.labels, by_class(seen), right & counted, counted, present)


def curve(name: str, seen: Seen, verdict: Judged, label: int) -> Curve:
    """Precision and recall of a class over all scores; NaN recall where the class is not present."""
    right = verdict.of(label)
    found, present = np.cumsum(right), int(verdict.present[label])
    recall = found / present if present else np.full(len(found), np.nan)
    scores = seen.scores[verdict.order[verdict.starts[label] : verdict.starts[label + 1]]]
    return Curve(name, found / np.arange(1, len(found) + 1), recall, scores)
