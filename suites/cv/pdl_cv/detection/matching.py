"""Which detection finds which annotation: what is kept of every image, and the greedy matching of COCO, in all images,
classes, thresholds and ranges of area at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Seen:
    """Detections and annotations of all images, in the order of images; detections of an image best first.

    scores, labels, areas, images, ranks   of detections [D]: `ranks` are places among those of one class and image
    truth, sizes, places, ignored, crowd   of annotations [G]: label, area, image, whether one is not counted, and of
                                           these whether it may be found more than once
    detection, annotation, overlap         of pairs [P] of one image, whatever their labels: rows, and how far one
                                           covers the other; by detection, ascending
    """

    scores: Array
    labels: Array
    areas: Array
    images: Array
    ranks: Array
    truth: Array
    sizes: Array
    places: Array
    ignored: Array
    crowd: Array
    detection: Array
    annotation: Array
    overlap: Array

    @property
    def same(self) -> Array:
        """Whether the two of a pair have one label: bool [P]."""
        return self.labels[self.detection] == self.truth[self.annotation]


_KINDS = "fifiiifibbiif"  # of the fields of `Seen`
_DTYPES = {"f": np.float64, "i": np.int64, "b": np.bool_}


class Growing:
    """`Seen`, image by image."""

    def __init__(self) -> None:
        self.parts: list[tuple[Array, ...]] = [tuple(np.zeros(0, _DTYPES[kind]) for kind in _KINDS)]
        self.detections = self.annotations = self.images = 0

    def add(
        self, detected: tuple[Array, Array, Array, Array], annotated: tuple[Array, Array, Array, Array],
        overlaps: Array, least: float,
    ) -> None:  # fmt: skip
        """One image: (scores, labels, areas, ranks) [D], (truth, sizes, ignored, crowd) [G] and overlaps [D, G], of
        which pairs of at least `least` are kept."""
        scores, labels, areas, ranks = detected
        truth, sizes, ignored, crowd = annotated
        images, places = (np.full(len(each), self.images) for each in (scores, truth))
        row, column = np.nonzero(overlaps >= least)
        self.parts.append((
            scores, labels, areas, images, ranks, truth, sizes, places, ignored, crowd,
            row + self.detections, column + self.annotations, overlaps[row, column],
        ))  # fmt: skip
        self.detections += len(scores)
        self.annotations += len(truth)
        self.images += 1

    def seen(self) -> Seen:
        """All so far."""
        if len(self.parts) > 1:
            self.parts = [tuple(np.concatenate(each) for each in zip(*self.parts, strict=True))]
        return Seen(*self.parts[0])


def match(seen: Seen, thresholds: Array, ignored: Array) -> tuple[Array, Array]:
    """Detections in descending order of score take, each, the annotation of their class and image that they cover most,
    by at least the threshold, and that no other has taken; counted ones before `ignored` ones; those of a crowd are
    never used up.

    thresholds [T] > 0; ignored bool [G, A], for each range of areas. Returns the rows int64 [C] of the detections that
    could take any, and int32 [C, A, T], the row of the annotation that each has taken, -1 for none.
    """
    use = np.flatnonzero(seen.same & (seen.overlap >= thresholds.min()))
    # by detection; within one by overlap, of equal ones the later annotation is the better
    use = use[np.lexsort((seen.annotation[use], seen.overlap[use], seen.detection[use]))]
    detection, annotation, overlap = seen.detection[use], seen.annotation[use], seen.overlap[use]
    rows, start, count = np.unique(detection, return_index=True, return_counts=True)
    within = (np.arange(len(use)) - np.repeat(start, count)).astype(np.int32)
    length = np.repeat(count, count).astype(np.int32)
    place = within[:, None] + length[:, None] * ~ignored[annotation]  # the larger the better: [P, A]
    taken = np.zeros((len(seen.truth), ignored.shape[1], len(thresholds)), np.bool_)
    found = np.full((len(rows), ignored.shape[1], len(thresholds)), -1, np.int32)
    enough = np.minimum(thresholds, 1 - 1e-10)
    for chosen in _rounds(seen, rows):
        lengths = count[chosen]
        first = np.concatenate(([0], np.cumsum(lengths)[:-1]))
        pairs = np.repeat(start[chosen] - first, lengths) + np.arange(lengths.sum())
        own = annotation[pairs]
        free = (overlap[pairs, None, None] >= enough) & ~taken[own]
        best = np.maximum.reduceat(np.where(free, place[pairs, :, None], -1), first, axis=0)  # [detections, A, T]
        took = annotation[start[chosen, None, None] + best % lengths[:, None, None]]
        found[chosen] = np.where(best >= 0, took, -1)
        who, area, threshold = np.nonzero((best >= 0) & ~seen.crowd[took])
        taken[took[who, area, threshold], area, threshold] = True
    return rows, found


def _rounds(seen: Seen, rows: Array) -> list[Array]:
    """Places in `rows` in rounds: of every image and class the best detection, then the second, and so on."""
    if not len(rows):
        return []
    group = seen.images[rows] * (int(seen.labels.max()) + 1) + seen.labels[rows]
    order = np.argsort(group, kind="stable")  # rows ascend, so scores descend
    _, begin, size = np.unique(group[order], return_index=True, return_counts=True)
    number = np.empty(len(rows), np.int64)
    number[order] = np.arange(len(rows)) - np.repeat(begin, size)
    by_round = np.argsort(number, kind="stable")
    return np.split(by_round, np.cumsum(np.bincount(number))[:-1])
