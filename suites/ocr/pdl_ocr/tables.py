"""Tables on a page that was read: ruled ones by their rules, others by cells that stand in rows and columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from pdl.dtype import Array
from pdl.runtime.images import opencv
from pdl_ocr.documents.page import Line, as_read, bounds, grouped, lines_of
from pdl_ocr.rectify import Rectified

Table: TypeAlias = list[list[str]]

RULE = 30  # a rule is at least so many of them the page's width or height long: 1 / RULE
INK = 15  # grey levels that a rule is darker than what is around it
NEAR = 0.5  # of the median height of the lines: rules so close are one
ROWS, CELLS = 2, 2  # the fewest rows and columns of a table
CROSSED = 0.2  # of the rows may have a cell across the space between two columns
SPACE = 0.6  # of the median height of the lines is the least space between columns
SKIPPED = 1  # rows of one cell that a table goes on behind


class Ruled(NamedTuple):
    """The rules of a table: x of those that run down, y of those that run across."""

    across: list[float]
    down: list[float]


def tables(answer: Mapping[str, Any], image: Array | None = None) -> list[Table]:
    """The tables of a page from above, each rows of texts; an empty text where a cell is empty.

    answer  of `pdl_ocr.Reader`
    image   uint8 [H, W, 3] or [H, W] of the page, on which rules are looked for; None: there are none

    A cell that spans several stands in the first one. What is not in a table is left out.
    """
    if image is not None and "rectified" in answer:
        image = Rectified.read(answer["rectified"]).image(image)
    answer = as_read(answer)
    lines = [line for block in grouped(answer) for line in lines_of(block)]
    if not lines:
        return []
    height = float(np.median([_box(line)[3] - _box(line)[1] for line in lines]))
    found: list[tuple[float, Table]] = []
    for ruled in [] if image is None else rules(image, NEAR * height):
        inside = [line for line in lines if _within(line, ruled)]
        if inside:
            found.append((ruled.down[0], _of_rules(inside, ruled)))
            lines = [line for line in lines if not _within(line, ruled)]
    found += _unruled(lines, height)
    return [table for _, table in sorted(found, key=lambda each: each[0])]


# -- with rules --------------------------------------------------------------------------------------------------------
def rules(image: Array, near: float) -> list[Ruled]:
    """The tables whose rules are on an image: connected rules with two cells or more; positions in pixels, those nearer
    than `near` once."""
    cv2 = opencv("rules of tables are found")
    gray = image if image.ndim == 2 else cv2.cvtColor(np.ascontiguousarray(image), cv2.COLOR_RGB2GRAY)
    around = 2 * (max(gray.shape) // 100) + 11
    ink = cv2.adaptiveThreshold(gray, 1, cv2.ADAPTIVE_THRESH_MEAN_C, cv2.THRESH_BINARY_INV, around, INK)
    height, width = gray.shape
    flat = cv2.morphologyEx(ink, cv2.MORPH_OPEN, np.ones((1, max(10, width // RULE)), np.uint8))
    steep = cv2.morphologyEx(ink, cv2.MORPH_OPEN, np.ones((max(10, height // RULE), 1), np.uint8))
    joined = cv2.dilate(flat | steep, np.ones((5, 5), np.uint8))
    count, labels, stats, _ = cv2.connectedComponentsWithStats(joined)
    found = []
    for number in range(1, count):
        x, y, w, h, _ = stats[number].tolist()
        part = np.s_[y : y + h, x : x + w]
        own = labels[part] == number
        down = _positions((flat[part] * own).sum(axis=1) >= 0.5 * w, y, near)
        across = _positions((steep[part] * own).sum(axis=0) >= 0.5 * h, x, near)
        if len(down) > 1 and len(across) > 1 and (len(down) - 1) * (len(across) - 1) >= CELLS:
            found.append(Ruled(across, down))
    return found


def _positions(there: Array, offset: int, near: float) -> list[float]:
    """The middles of runs of True, those nearer than `near` to the one before as one."""
    places: list[list[float]] = []
    for place in np.flatnonzero(there).tolist():
        if places and place - places[-1][-1] <= max(near, 1.0):
            places[-1].append(place)
        else:
            places.append([place])
    return [offset + (each[0] + each[-1]) / 2 for each in places]


def _within(line: Line, ruled: Ruled) -> bool:
    x, y = _middle(line)
    return ruled.across[0] <= x <= ruled.across[-1] and ruled.down[0] <= y <= ruled.down[-1]


def _of_rules(lines: Sequence[Line], ruled: Ruled) -> Table:
    cells: list[list[list[str]]] = [[[] for _ in ruled.across[1:]] for _ in ruled.down[1:]]
    for line in lines:
        left, top, _, bottom = _box(line)
        row = int(np.searchsorted(ruled.down[1:-1], (top + bottom) / 2))
        column = int(np.searchsorted(ruled.across[1:-1], left + 0.25 * (bottom - top)))
        cells[row][column].append(line["text"])
    return [[" ".join(cell) for cell in row] for row in cells]


# -- without -----------------------------------------------------------------------------------------------------------
def _unruled(lines: Sequence[Line], height: float) -> list[tuple[float, Table]]:
    """Runs of rows with two cells or more, each with the y of its first row."""
    rows = [list(some) for _, some in groupby(lines, key=lambda line: line["row"])]
    found, run, single = list[tuple[float, Table]](), list[list[Line]](), 0
    for row in [*rows, []]:
        if len(row) >= CELLS:
            run.append(row)
            single = 0
            continue
        single += 1
        if row and run and single <= SKIPPED:
            run.append(row)
            continue
        while run and len(run[-1]) < CELLS:
            run.pop()
        if len(run) >= ROWS and (table := _aligned(run, height)) is not None:
            found.append((min(_box(line)[1] for line in run[0]), table))
        run, single = [], 0
    return found


def _aligned(rows: Sequence[Sequence[Line]], height: float) -> Table | None:
    """The rows as a table, its columns apart by spaces that hardly a row has a cell across; None where there are
    none."""
    spaces = _spaces([_box(line) for row in rows for line in row], CROSSED * len(rows), SPACE * height)
    if not spaces:
        return None
    made: Table = []
    for row in rows:
        cells = [""] * (len(spaces) + 1)
        for line in row:
            column = int(np.searchsorted(spaces, _middle(line)[0]))
            cells[column] = f"{cells[column]} {line['text']}".strip()
        made.append(cells)
    return made


def _spaces(boxes: Sequence[tuple[int, int, int, int]], crossed: float, least: float) -> list[float]:
    """The middles of spaces at least `least` wide that at most `crossed` boxes lie across, inside of all boxes."""
    left, right = min(box[0] for box in boxes), max(box[2] for box in boxes)
    covered = np.zeros(right - left + 2, np.int64)
    for box in boxes:
        covered[box[0] - left] += 1
        covered[box[2] - left] -= 1
    free = np.cumsum(covered)[: right - left] <= crossed
    edges = np.flatnonzero(np.diff(np.concatenate([[False], free, [False]]).astype(np.int8)))
    spans = [(a, b) for a, b in zip(edges[::2], edges[1::2], strict=True) if a > 0 and b < right - left]
    return [left + (a + b) / 2 for a, b in spans if b - a >= least]


def _box(line: Line) -> tuple[int, int, int, int]:
    return bounds([line["polygon"]])


def _middle(line: Line) -> tuple[float, float]:
    left, top, right, bottom = _box(line)
    return (left + right) / 2, (top + bottom) / 2
