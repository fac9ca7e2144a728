"""The step `east_boxes`: lines of text, of the maps that an EAST net makes of an image.

X. Zhou, C. Yao, H. Wen, Y. Wang, S. Zhou, W. He, J. Liang: EAST: An Efficient and Accurate Scene Text Detector, CVPR
2017, arXiv 1704.03155. Each cell tells a rectangle around its line; those of neighbours are averaged row by row, and
of what is left the better ones suppress those that overlap them (locality-aware non-maximum suppression, section 3.6).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pdl.dtype import Array
from pdl.errors import UsageError
from pdl.runtime.frame import Frame
from pdl.runtime.steps.arguments import count, number
from pdl_ocr.steps.boxes import LineBoxes, clockwise, listed

CELLS = 20_000  # with the best probabilities that are looked at
PARALLEL = 1e-6  # pixels; edges that differ by less lie along each other


class EastBoxes(LineBoxes):
    """The boxes of maps [H, W, 6]: of each cell the probability of being inside of a line, the distances in pixels of
    the net's input from its middle to the upper, right, lower and left side of the line, and the line's angle in
    radians, clockwise on a screen. Cells with numbers that are not finite, sides shorter than `least`, or distances of
    more than twice the sides of the map tell nothing; of more than 20,000 cells the best are looked at.

    threshold   a cell tells a box where its probability is above
    score       a box stays where the mean probability of the cells that told it is at least
    iou         boxes whose intersection over union is above are one
    least       shorter sides than this many pixels of the net's input are noise
    most        how many boxes are looked at after those of neighbours were averaged: those that most cells told
    stride      pixels of the net's input in a cell
    """

    name = "east_boxes"
    near = 4.0

    def __init__(
        self,
        threshold: float = 0.8,
        score: float = 0.8,
        iou: float = 0.2,
        least: int = 3,
        most: int = 1000,
        stride: int = 4,
    ) -> None:
        self.threshold, self.score = number("threshold", threshold, 0, 1), number("score", score, 0, 1)
        self.iou = number("iou", iou, 0, 1)
        self.least, self.most = count("least", least), count("most", most, most=2000)
        self.stride, self.small = count("stride", stride, most=64), self.least

    def place(self, value: Any, frame: Frame) -> Any:
        found = np.asarray(value, np.float32)
        if found.ndim != 3 or found.shape[2] != 6:
            raise UsageError(f"east_boxes: expected maps [H, W, 6], got an output of shape {found.shape}")
        boxes, totals, cells = _averaged(*self._told(found), self.iou)
        best = np.argsort(-totals, kind="stable")[: self.most]
        kept = best[suppressed(boxes[best], self.iou)]
        scores = np.minimum(totals[kept] / cells[kept], 1.0)
        good = scores >= self.score
        return listed([clockwise(frame.back(box)) for box in boxes[kept[good]]], scores[good].tolist())

    def _told(self, maps: Array) -> tuple[Array, Array]:
        """The corners float64 [n, 4, 2] in pixels of the net's input, and scores [n], of the cells that tell a box, row
        by row."""
        height, width = maps.shape[:2]
        score, sides = maps[..., 0], maps[..., 1:5]
        with np.errstate(invalid="ignore"):
            told = np.isfinite(maps).all(axis=2) & (score > self.threshold)
            told &= (np.abs(sides) <= 2 * self.stride * (height + width)).all(axis=2)
            told &= np.minimum(sides[..., 0] + sides[..., 2], sides[..., 1] + sides[..., 3]) >= self.least
        cells = np.flatnonzero(told)
        if len(cells) > CELLS:
            best = np.argsort(-score.reshape(-1)[cells], kind="stable")[:CELLS]
            cells = np.sort(cells[best])
        rows, columns = np.divmod(cells, width)
        upper, right, lower, left, angle = maps.reshape(-1, 6)[cells, 1:].astype(np.float64).T
        u = np.stack([np.cos(angle), np.sin(angle)], axis=1)[:, None]
        v = np.stack([-u[..., 1], u[..., 0]], axis=2)
        across, down = np.stack([-left, right, right, -left], axis=1), np.stack([-upper, -upper, lower, lower], axis=1)
        middles = (np.stack([columns, rows], axis=1) + 0.5) * self.stride
        return middles[:, None] + across[..., None] * u + down[..., None] * v, score.reshape(-1)[cells].astype(float)


def _averaged(boxes: Array, scores: Array, iou: float) -> tuple[Array, Array, Array]:
    """Runs of boxes float64 [n, 4, 2] of which each overlaps the one before by more than `iou`, averaged with their
    scores [n] as weights: corners [r, 4, 2], the sums of the scores [r], and the numbers of boxes [r]."""
    if not len(boxes):
        return boxes, scores, scores
    starts = np.flatnonzero(np.concatenate([[True], ious(boxes[1:], boxes[:-1]) <= iou]))
    cells = np.diff(starts, append=len(boxes))
    # near 45 degrees the first corner of a box may be another one than that of its neighbour
    first = np.repeat(boxes[starts], cells, axis=0)
    turned = np.stack([np.roll(boxes, -turn, axis=1) for turn in range(4)])
    nearest = np.abs(turned - first).sum(axis=(2, 3)).argmin(axis=0)
    weighted = scores[:, None, None] * turned[nearest, np.arange(len(boxes))]
    totals = np.add.reduceat(scores, starts)
    return np.add.reduceat(weighted, starts) / totals[:, None, None], totals, cells


def suppressed(boxes: Array, iou: float) -> list[int]:
    """Which of the boxes float64 [n, 4, 2], best first, no better one overlaps by more than `iou`."""
    low, high, rest, kept = boxes.min(axis=1), boxes.max(axis=1), np.arange(len(boxes)), []
    while len(rest):
        first, rest = int(rest[0]), rest[1:]
        kept.append(first)
        meet = ((low[rest] < high[first]) & (high[rest] > low[first])).all(axis=1)
        over = np.zeros(len(rest), bool)
        over[meet] = ious(np.broadcast_to(boxes[first], (int(meet.sum()), 4, 2)), boxes[rest[meet]]) > iou
        rest = rest[~over]
    return kept


def ious(a: Array, b: Array) -> Array:
    """float64 [n]: intersection over union of convex quadrilaterals [n, 4, 2], clockwise on a screen, one by one."""
    a, b = a - a[:, :1], b - a[:, :1]  # numbers are finer near 0
    both = _along(a, b, -PARALLEL) + _along(b, a, PARALLEL)
    union = _twice(a).sum(axis=1) + _twice(b).sum(axis=1) - both
    return both / np.maximum(union, 1e-9)  # type: ignore[no-any-return]


def _along(a: Array, b: Array, least: float) -> Array:
    """float64 [n]: what the edges of `a` in `b` add to twice the area that both share. By Green's theorem this is a sum
    over the border of what they share, whose edges are parts of those of one in the other. One along an edge of `b`
    counts where it is at least `least` pixels within: below 0 for `a` and above for `b`, so that it counts once."""
    edges = np.roll(b, -1, axis=1) - b
    edges = edges / np.maximum(np.hypot(edges[..., 0], edges[..., 1]), 1e-9)[..., None]
    # [n, edges of a, edges of b]: how far within an edge begins, and how much farther it ends
    within = _cross(edges[:, None], a[:, :, None] - b[:, None])
    more = _cross(edges[:, None], (np.roll(a, -1, axis=1) - a)[:, :, None])
    along = np.abs(more) < PARALLEL
    at = -within / np.where(along, 1.0, more)
    enters = np.where(~along & (more > 0), at, 0.0).max(axis=2)
    leaves = np.where(~along & (more < 0), at, 1.0).min(axis=2)
    out = (along & (within < least)).any(axis=2)
    part = np.where(out, 0.0, np.clip(np.minimum(leaves, 1.0) - np.maximum(enters, 0.0), 0.0, None))
    return (part * _twice(a)).sum(axis=1)  # type: ignore[no-any-return]


def _twice(a: Array) -> Array:
    """[n, 4]: what each edge adds to twice the area of quadrilaterals [n, 4, 2]."""
    return _cross(a, np.roll(a, -1, axis=1))


def _cross(a: Array, b: Array) -> Array:
    return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]  # type: ignore[no-any-return]
