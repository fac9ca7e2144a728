"""How well detections cover annotations: IoU of boxes and of masks, similarity of keypoints. NumPy in, NumPy out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pdl.errors import DataError, ShapeError
from pdl_cv.data.boxes import rle

Array = np.ndarray[Any, Any]

#: how far annotators of COCO disagree on each of its 17 points, as a share of the root of a person's area
COCO_SIGMAS = (
    0.026, 0.025, 0.025, 0.035, 0.035, 0.079, 0.079, 0.072, 0.072, 0.062, 0.062, 0.107, 0.107, 0.087, 0.087, 0.089,
    0.089,
)  # fmt: skip


def box_areas(boxes: Array) -> Array:
    """Areas of boxes (x1, y1, x2, y2): [N, 4] to float64 [N]."""
    wide = boxes[:, 2:].astype(np.float64) - boxes[:, :2]
    return wide[:, 0] * wide[:, 1]


def box_overlaps(detected: Array, annotated: Array, crowd: Array) -> Array:
    """IoU of boxes (x1, y1, x2, y2): detected [D, 4], annotated [G, 4] to float64 [D, G]; of a crowd (bool [G]) the
    share of the detection that lies inside."""
    a, b = (np.asarray(each, np.float64) for each in (detected[:, None], annotated[None]))
    wide = np.minimum(a[..., 2], b[..., 2]) - np.maximum(a[..., 0], b[..., 0])
    high = np.minimum(a[..., 3], b[..., 3]) - np.maximum(a[..., 1], b[..., 1])
    both = np.maximum(wide, 0.0) * np.maximum(high, 0.0)
    return _ratio(both, box_areas(detected), box_areas(annotated), crowd)


def _ratio(both: Array, detected: Array, annotated: Array, crowd: Array) -> Array:
    """Intersection over union, or over the detection alone: [D, G], [D], [G], [G]."""
    union = detected[:, None] + np.where(crowd, 0.0, annotated[None] - both)
    return np.divide(both, union, out=np.zeros_like(both), where=both > 0)


@dataclass(frozen=True)
class Runs:
    """Masks as runs of ones, column by column as in COCO's run-length code.

    begin, end  int64 [R]: places of the runs, of all masks one after another; `end` is one past the last
    owner       int64 [R]: the mask that a run belongs to, ascending
    size        (height, width) of all masks
    areas       int64 [N]: ones of each mask
    """

    begin: Array
    end: Array
    owner: Array
    size: tuple[int, int]
    areas: Array

    def __len__(self) -> int:
        return len(self.areas)

    @classmethod
    def of(cls, masks: Any) -> Runs:
        """Of masks [N, H, W], ones where not 0, or of COCO's run-length codes {"size": (height, width), "counts":
        numbers or text}. DataError for codes that are none, or of different sizes."""
        if isinstance(masks, Runs):
            return masks
        if isinstance(masks, np.ndarray) and masks.dtype != object:
            return cls._of_arrays(masks)
        return cls._of_codes(list(masks))

    @classmethod
    def _of_arrays(cls, masks: Array) -> Runs:
        if masks.ndim != 3:
            raise ShapeError(f"masks have shape {masks.shape}, expected [N, H, W]")
        count, height, width = masks.shape
        columns = np.zeros((count, height * width + 2), np.bool_)
        columns[:, 1:-1].reshape(count, width, height)[...] = masks.transpose(0, 2, 1) != 0
        owner, at = np.nonzero(columns[:, 1:] != columns[:, :-1])
        return cls._made(at[::2], at[1::2], owner[::2], (height, width), count)

    @classmethod
    def _of_codes(cls, codes: Sequence[Any]) -> Runs:
        begin, end, owner = [], [], []
        size: tuple[int, int] | None = None
        for number, code in enumerate(codes):
            height, width = (int(each) for each in code["size"])
            size = size or (height, width)
            if size != (height, width):
                raise DataError(f"mask {number} has size {(height, width)}, others of its image {size}; all must agree")
            borders = np.cumsum(_counts(code, number))
            if len(borders) and borders[-1] != height * width:
                raise DataError(f"mask {number}: its runs sum to {borders[-1]}, {height} x {width} are expected")
            ends = borders[1::2]
            begin.append(borders[::2][: len(ends)])
            end.append(ends)
            owner.append(np.full(len(ends), number))
        first, last, whose = (np.concatenate([np.zeros(0, np.int64), *each]) for each in (begin, end, owner))
        return cls._made(first, last, whose, size or (0, 0), len(codes))

    @classmethod
    def _made(cls, begin: Array, end: Array, owner: Array, size: tuple[int, int], count: int) -> Runs:
        some = end > begin
        begin, end, owner = begin[some], end[some], owner[some]
        areas = np.bincount(owner, weights=end - begin, minlength=count).astype(np.int64)
        return cls(begin, end, owner, size, areas)

    def covered(self, number: int, places: Array) -> Array:
        """How many ones mask `number` has before each place: int64, as `places`."""
        own = slice(*np.searchsorted(self.owner, (number, number + 1)))
        begin, end = self.begin[own], self.end[own]
        before = np.concatenate(([0], np.cumsum(end - begin)))
        run = np.searchsorted(begin, places, side="right")  # runs that begin at or before the place
        beyond = np.maximum(end[np.maximum(run - 1, 0)] - places, 0) if len(end) else 0
        return before[run] - np.where(run > 0, beyond, 0)

    def union(self, kept: Array | None = None) -> Runs:
        """What lies in some mask (of those `kept`, bool [N]), as one mask."""
        use = np.ones(len(self.owner), np.bool_) if kept is None else kept[self.owner]
        order = np.argsort(self.begin[use], kind="stable")
        begin, end = self.begin[use][order], np.maximum.accumulate(self.end[use][order])
        first = np.concatenate(([True], begin[1:] > end[:-1]))[: len(begin)]
        last = np.append(first[1:], True)[: len(begin)]
        return Runs._made(begin[first], end[last], np.zeros(int(first.sum()), np.int64), self.size, 1)

    def common(self, other: Runs) -> int:
        """Ones of the first mask that are ones of `other`'s first, too."""
        _check_sizes(self, other)
        return int((other.covered(0, self.end) - other.covered(0, self.begin)).sum())


def _counts(code: Mapping[str, Any], number: int) -> Array:
    counts = code["counts"]
    try:
        return rle.from_text(counts) if isinstance(counts, str | bytes) else np.asarray(counts, np.int64)
    except ValueError as error:
        raise DataError(f"mask {number}: its counts are no run-length code of COCO: {error}") from error


def _check_sizes(a: Runs, b: Runs) -> None:
    if len(a.begin) and len(b.begin) and a.size != b.size:
        raise DataError(f"masks of {a.size} are compared with annotated ones of {b.size} (height, width)")


def mask_overlaps(detected: Runs, annotated: Runs, crowd: Array) -> Array:
    """IoU of masks: float64 [D, G]; of a crowd (bool [G]) the share of the detection that lies inside."""
    _check_sizes(detected, annotated)
    both = np.zeros((len(detected), len(annotated)))
    for column in range(len(annotated)):
        inside = annotated.covered(column, detected.end) - annotated.covered(column, detected.begin)
        both[:, column] = np.bincount(detected.owner, weights=inside, minlength=len(detected))
    return _ratio(both, detected.areas.astype(np.float64), annotated.areas.astype(np.float64), crowd)


def keypoint_similarity(detected: Array, annotated: Array, boxes: Array, areas: Array, sigmas: Array) -> Array:
    """Object keypoint similarity (COCO): the mean over annotated points of exp(-distance^2 / (2 area (2 sigma)^2)).

    detected [D, P, 2 or 3], annotated [G, P, 3] (x, y, visibility), boxes [G, 4] (x1, y1, x2, y2), areas [G] and
    sigmas [P] to float64 [D, G]. Of an annotation without points, which is never counted, all P are compared with its
    box, wider and higher by its size on each side.
    """
    made = np.zeros((len(detected), len(annotated)))
    scale = (2 * np.asarray(sigmas, np.float64)) ** 2
    x, y = (detected[..., k].astype(np.float64) for k in (0, 1))
    for column, points in enumerate(annotated.astype(np.float64)):
        seen = points[:, 2] > 0
        if seen.any():
            dx, dy = x - points[:, 0], y - points[:, 1]
        else:
            seen = np.ones(len(seen), np.bool_)
            low, high = boxes[column, :2].astype(np.float64), boxes[column, 2:].astype(np.float64)
            low, high = 2 * low - high, 2 * high - low
            dx, dy = (np.maximum(0, low[k] - v) + np.maximum(0, v - high[k]) for k, v in ((0, x), (1, y)))
        distance = (dx**2 + dy**2) / scale / (float(areas[column]) + np.spacing(1)) / 2
        made[:, column] = np.exp(-distance[:, seen]).mean(axis=1)
    return made
