"""How well detections cover annotations: IoU of boxes and of masks, similarity of keypoints. NumPy in, NumPy out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pdl.errors import DataError, ShapeError
from pdl_cv import rle

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
        sizes = {tuple(int(side) for side in code["size"]) for code in codes}
        if len(sizes) > 1:
            raise DataError(f"masks of one image have the sizes {sorted(sizes)} (height, width); all must agree")
        height, width = sizes.pop() if sizes else (0, 0)
        lengths, numbers = _counts(codes)
        owner = np.repeat(np.arange(len(codes)), numbers)
        sums = np.bincount(owner, weights=lengths, minlength=len(codes))
        wrong = np.flatnonzero(sums != height * width)
        if len(wrong) or (lengths < 0).any():
            k = int(wrong[0]) if len(wrong) else int(owner[(lengths < 0).argmax()])
            raise DataError(f"mask {k}: its runs sum to {sums[k]:.0f}, {height} x {width} are expected, none below 0")
        ends = np.cumsum(lengths) - owner * (height * width)
        ones = (np.arange(len(lengths)) - np.repeat(np.cumsum(numbers) - numbers, numbers)) % 2 == 1
        return cls._made((ends - lengths)[ones], ends[ones], owner[ones], (height, width), len(codes))

    @classmethod
    def _made(cls, begin: Array, end: Array, owner: Array, size: tuple[int, int], count: int) -> Runs:
        some = end > begin
        begin, end, owner = begin[some], end[some], owner[some]
        areas = np.bincount(owner, weights=end - begin, minlength=count).astype(np.int64)
        return cls(begin, end, owner, size, areas)

    @property
    def bounds(self) -> Array:
        """Boxes around the masks: int64 [N, 4]; zeros where a mask has no ones."""
        boxes = np.zeros((len(self), 4), np.int64)
        owners, first = np.unique(self.owner, return_index=True)
        if len(owners):
            height = max(self.size[0], 1)
            left, right = self.begin // height, (self.end - 1) // height
            several = left < right  # a run that goes on at the top of the next column
            top = np.where(several, 0, self.begin % height)
            bottom = np.where(several, height - 1, (self.end - 1) % height)
            low = (np.minimum.reduceat(each, first) for each in (left, top))
            high = (np.maximum.reduceat(each, first) + 1 for each in (right, bottom))
            boxes[owners] = np.stack([*low, *high], axis=1)
        return boxes

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
        """How many pixels are ones of both, each of one mask alone (see `union`)."""
        _check_sizes(self, other)
        return int((other.covered(0, self.end) - other.covered(0, self.begin)).sum())


def _counts(codes: Sequence[Mapping[str, Any]]) -> tuple[Array, Array]:
    """The counts of all codes one after another, and how many each has."""
    given = [code["counts"] for code in codes]
    if any(isinstance(counts, str | bytes) for counts in given):
        texts = [each if isinstance(each, str | bytes) else rle.to_text(each) for each in given]
        try:
            return rle.from_texts(texts)
        except ValueError as error:
            raise DataError(f"the counts of masks are no run-length code of COCO: {error}") from error
    joined = np.concatenate([np.zeros(0, np.int64), *(np.asarray(counts, np.int64) for counts in given)])
    return joined, np.array([len(counts) for counts in given], np.int64)


def _check_sizes(a: Runs, b: Runs) -> None:
    if len(a.begin) and len(b.begin) and a.size != b.size:
        raise DataError(f"masks of {a.size} are compared with annotated ones of {b.size} (height, width)")


def mask_overlaps(detected: Runs, annotated: Runs, crowd: Array) -> Array:
    """IoU of masks: float64 [D, G]; of a crowd (bool [G]) the share of the detection that lies inside."""
    _check_sizes(detected, annotated)
    both = np.zeros((len(detected), len(annotated)))
    near = box_overlaps(detected.bounds, annotated.bounds, np.zeros(len(annotated), np.bool_)) > 0
    for column in np.flatnonzero(near.any(axis=0)).tolist():
        use = np.flatnonzero(near[detected.owner, column])
        inside = annotated.covered(column, detected.end[use]) - annotated.covered(column, detected.begin[use])
        both[:, column] = np.bincount(detected.owner[use], weights=inside, minlength=len(detected))
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
