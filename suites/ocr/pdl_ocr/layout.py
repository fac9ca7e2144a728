"""The order in which the lines of a page are read, with columns, and what belongs together: blocks, paragraphs, rows.

A region is cut as by recursive XY cuts (G. Nagy, S. Seth: Hierarchical representation of optically scanned documents,
ICPR 1984), but vertical cuts look for a gutter: an empty rectangle between lines of running text that lines across it,
such as a heading over both columns, may end above and below (T. Breuel: Two geometric algorithms for layout analysis,
DAS 2002). What no gutter divides is read row by row, so a receipt or a table stays in its rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from pdl.dtype import Array

#: from this height on, as a part of its width, a line is one that runs downwards
UPRIGHT = 1.5

# Lengths are parts of the median height of the lines.
SHRINK = 0.15  # of its height a box loses above and below: detectors draw boxes larger than the letters
GUTTER = 0.6  # the least width of a gutter
COLUMN = 8.0  # the least width of a column: about 16 letters; prices and keys are shorter
ROWS = 3  # the least number of rows on each side of a gutter
WIDE = 6.0  # the median width of lines of running text; cells of tables are mostly shorter
FILLED = 0.6  # of the width of its column a line of running text fills, ...
RUNNING = 0.5  # ... and so do this part of the lines of a column
BESIDE = 0.7  # of the height of the shorter column has the other one beside it
BLOCK = 1.5  # white between two blocks that stand below one another
PARAGRAPH = 1.4  # the distance from row to row where a paragraph begins, as a part of the usual one in the block
TALLER = 1.3  # a row so many times as high as the next one, or the other way round, belongs to another paragraph
INDENT = 1.0  # the first row of a paragraph begins so much further right than the block does
TURN = 0.35  # the largest skew of a page that is allowed for, radians


@dataclass(frozen=True)
class Place:
    """Where a line stands in the order of a page: its number among the polygons, and the numbers of its block, of its
    paragraph and of its row, which count on through the page. Lines of one row stand side by side."""

    line: int
    block: int
    paragraph: int
    row: int


def places(polygons: Sequence[Sequence[Sequence[float]]]) -> list[Place]:
    """The lines of a page in reading order, of their quadrilaterals (clockwise from the upper left corner, pixels)."""
    if not len(polygons):
        return []
    boxes = Boxes.of(np.asarray(polygons, np.float64))
    found: list[Place] = []
    block = paragraph = row = 0
    for region in columns(boxes, np.arange(len(polygons))):
        for rows in blocks(boxes, in_rows(boxes, region)):
            for group in paragraphs(boxes, rows):
                for members in group:
                    found += [Place(int(i), block, paragraph, row) for i in members]
                    row += 1
                paragraph += 1
            block += 1
    return found


def skew(corners: Array) -> float:
    """The angle of a page's lines [N, 4, 2] in radians: the median over those that are wide, each counted by its width;
    0 where it is more than `TURN`."""
    along = corners[:, 1] - corners[:, 0] + corners[:, 2] - corners[:, 3]
    width, height = np.hypot(*along.T) / 2, np.hypot(*(corners[:, 3] - corners[:, 0]).T)
    wide = width > 2 * height
    if not wide.any():
        return 0.0
    angles, weights = np.arctan2(along[wide, 1], along[wide, 0]), width[wide]
    order = np.argsort(angles)
    at = np.searchsorted(np.cumsum(weights[order]), weights.sum() / 2)
    angle = float(angles[order][min(at, len(order) - 1)])
    return angle if abs(angle) <= TURN else 0.0


@dataclass(frozen=True)
class Boxes:
    """Lines as upright rectangles on a page turned straight, each array [N]; `height` is the median of the lines'."""

    left: Array
    top: Array
    right: Array
    bottom: Array
    height: float

    @classmethod
    def of(cls, corners: Array) -> Boxes:
        """Those of quadrilaterals [N, 4, 2]."""
        angle = skew(corners)
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        straight = corners @ turn
        (left, top), (right, bottom) = straight.min(axis=1).T, straight.max(axis=1).T
        high = bottom - top
        upright = high < UPRIGHT * (right - left)
        height = float(np.median(high[upright] if upright.any() else (right - left)))
        cut = SHRINK * np.minimum(high, right - left)
        return cls(left, top + cut, right, bottom - cut, max(height, 1e-6))

    @property
    def middle(self) -> Array:
        """The middles of the lines, from above."""
        return (self.top + self.bottom) / 2


# -- columns -----------------------------------------------------------------------------------------------------------
def columns(boxes: Boxes, region: Array) -> list[Array]:
    """A region (numbers of lines) cut at gutters, in reading order: what is above a gutter, left, right and below it,
    each cut again."""
    cut = _gutter(boxes, region)
    if cut is None:
        return [region]
    return [part for side in cut if len(side) for part in columns(boxes, side)]


def _gutter(boxes: Boxes, region: Array) -> tuple[Array, Array, Array, Array] | None:
    """The lines above, left, right and below of the tallest gutter; of about equally tall ones of that with the most
    lines beside it, then of the leftmost. None where there is none."""
    if len(region) < 2 * ROWS:
        return None
    best, found = (0, 0), None
    for x in _candidates(boxes, region):
        across = (boxes.left[region] < x) & (boxes.right[region] > x)
        edges = np.sort(boxes.middle[region[across]])
        for top, bottom in zip([-np.inf, *edges], [*edges, np.inf], strict=True):
            inside = ~across & (boxes.middle[region] > top) & (boxes.middle[region] < bottom)
            band = region[inside]
            left, right = band[boxes.right[band] <= x], band[boxes.left[band] >= x]
            size = round(_height_of(boxes, left, right) / boxes.height), len(band)
            if size[0] and size > best:
                rest = region[~inside]
                upper = boxes.middle[rest] <= top
                best, found = size, (rest[upper], left, right, rest[~upper])
    return found


def _candidates(boxes: Boxes, region: Array) -> Array:
    """Places x behind which gutters may begin: the right ends of lines, nearly equal ones once."""
    ends = np.sort(boxes.right[region])
    last = np.append(np.diff(ends) > boxes.height / 4, False)
    return ends[last] + 1e-6


def _height_of(boxes: Boxes, left: Array, right: Array) -> float:
    """How tall the gutter between two groups of lines is, in pixels; 0 where it is none."""
    if min(len(left), len(right)) < ROWS:
        return 0.0
    if boxes.left[right].min() - boxes.right[left].max() < GUTTER * boxes.height:
        return 0.0
    if not (_runs(boxes, left) and _runs(boxes, right)):
        return 0.0
    (a, b), (c, d) = ((boxes.top[side].min(), boxes.bottom[side].max()) for side in (left, right))
    beside = float(min(b, d) - max(a, c))
    return beside if beside >= BESIDE * min(b - a, d - c) else 0.0


def _runs(boxes: Boxes, side: Array) -> bool:
    """Whether lines look like a column of running text: it is wide, so are they, and most rows fill it."""
    width = boxes.right[side].max() - boxes.left[side].min()
    if width < COLUMN * boxes.height or np.median(boxes.right[side] - boxes.left[side]) < WIDE * boxes.height:
        return False
    rows = in_rows(boxes, side)
    filled = [sum(boxes.right[row] - boxes.left[row]) >= FILLED * width for row in rows]
    return len(rows) >= ROWS and sum(filled) >= RUNNING * len(rows)


# -- rows, blocks, paragraphs ------------------------------------------------------------------------------------------
def in_rows(boxes: Boxes, region: Array) -> list[list[int]]:
    """Lines as rows from above, each from the left: a line joins the row whose mean middle is nearest, within half of
    the lower height of both, unless it would lie over a line of that row."""
    rows: list[list[int]] = []
    for i in sorted(region.tolist(), key=lambda i: (boxes.middle[i], boxes.left[i])):
        if rows and _joins(boxes, rows[-1], i):
            rows[-1].append(i)
        else:
            rows.append([i])
    return [sorted(row, key=lambda i: float(boxes.left[i])) for row in rows]


def _joins(boxes: Boxes, row: list[int], i: int) -> bool:
    high = boxes.bottom - boxes.top
    if boxes.middle[i] - np.mean(boxes.middle[row]) >= 0.5 * min(high[i], *high[row]) / (1 - 2 * SHRINK):
        return False
    over = np.minimum(boxes.right[i], boxes.right[row]) - np.maximum(boxes.left[i], boxes.left[row])
    return bool((over < 0.5 * np.minimum(boxes.right[i] - boxes.left[i], boxes.right[row] - boxes.left[row])).all())


def blocks(boxes: Boxes, rows: list[list[int]]) -> list[list[list[int]]]:
    """The rows of a region in blocks with `BLOCK` heights of white between them."""
    found = [rows[:1]]
    for above, row in pairwise(rows):
        white = boxes.top[row].min() - boxes.bottom[above].max()
        if white > BLOCK * boxes.height:
            found.append([])
        found[-1].append(row)
    return found


def paragraphs(boxes: Boxes, rows: list[list[int]]) -> list[list[list[int]]]:
    """The rows of a block in paragraphs: one begins where the distance of rows is larger than usual, the height of
    letters is another, or a row is indented that does not continue indented ones."""
    middle = np.array([boxes.middle[row].mean() for row in rows])
    left = np.array([boxes.left[row].min() for row in rows])
    high = np.array([(boxes.bottom[row] - boxes.top[row]).mean() for row in rows])
    step = np.diff(middle)
    usual = float(np.median(step)) if len(step) else 0.0
    found = [rows[:1]]
    for k in range(1, len(rows)):
        apart = step[k - 1] > PARAGRAPH * usual
        other = max(high[k], high[k - 1]) > TALLER * min(high[k], high[k - 1])
        if apart or other or _indented(left, k, boxes.height):
            found.append([])
        found[-1].append(rows[k])
    return found


def _indented(left: Array, k: int, height: float) -> bool:
    """Whether row k begins further right than the rows around it, by `INDENT` to three heights."""
    around = left[k - 1] if k + 1 == len(left) else max(left[k - 1], left[k + 1])
    return bool(INDENT * height <= left[k] - around <= 3 * height)
