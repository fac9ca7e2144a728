"""Tables of pages that were read: with rules and without, and what is none."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import pytest

from pdl_ocr.tables import rules, tables
from tests.ocr.documents.answers import turned

ROWS = [["item", "count", "price"], ["a long name of it", "2", "12.50"], ["b", "", "3.00"], ["c", "14", "0.75"]]
LEFT, TOP, HIGH = 60, 80, 40
EDGES = (60, 320, 420, 540)


def line(text: str, x: float, y: float, width: float | None = None, height: float = 18) -> dict[str, Any]:
    wide = 10 * len(text) if width is None else width
    points = [[x, y], [x + wide, y], [x + wide, y + height], [x, y + height]]
    return {"text": text, "score": 0.9, "polygon": points}


def cells(rows: list[list[str]], *, right: bool = False) -> list[dict[str, Any]]:
    found = []
    for number, row in enumerate(rows):
        for text, left, end in zip(row, EDGES, EDGES[1:], strict=False):
            x = end - 10 - 10 * len(text) if right and left > LEFT else left + 10
            found += [line(text, x, TOP + number * HIGH + 11)] if text else []
    return found


def answer(*lines: dict[str, Any]) -> dict[str, Any]:
    return {"lines": list(lines), "width": 640, "height": 480}


def paper(rows: int, *, ink: int = 40, shade: int = 0) -> np.ndarray:
    """A page with the rules of a table; `shade` makes it darker towards the right."""
    image = np.full((480, 640, 3), 235, np.uint8)
    image -= np.linspace(0, shade, 640).astype(np.uint8)[None, :, None]
    for y in range(TOP, TOP + rows * HIGH + 1, HIGH):
        cv2.line(image, (EDGES[0], y), (EDGES[-1], y), (ink,) * 3, 2)
    for x in EDGES:
        cv2.line(image, (x, TOP), (x, TOP + rows * HIGH), (ink,) * 3, 2)
    return image


@pytest.mark.parametrize("shade", [0, 120])
def test_a_ruled_table(shade: int) -> None:
    image = paper(len(ROWS), shade=shade)
    (found,) = rules(image, 9)
    assert [round(x) for x in found.across] == pytest.approx(EDGES, abs=2)
    title = line("A title above", 60, 20)
    assert tables(answer(title, *cells(ROWS)), image) == [ROWS]


def test_a_ruled_table_of_a_turned_page() -> None:
    image = np.rot90(paper(len(ROWS)), -1)
    assert tables(turned(answer(*cells(ROWS)), 90), image) == [ROWS]


def test_a_cell_of_two_lines_and_one_that_spans_columns() -> None:
    image = paper(2)
    two = [line("first", 70, 84, height=14), line("second", 70, 101, height=14), line("wide as two cells", 330, 91)]
    below = cells([["x", "y", "z"]])
    moved = [{**each, "polygon": [[x, y + HIGH] for x, y in each["polygon"]]} for each in below]
    assert tables(answer(*two, *moved), image) == [[["first second", "wide as two cells", ""], ["x", "y", "z"]]]


@pytest.mark.parametrize("right", [False, True])
def test_a_table_without_rules(right: bool) -> None:
    title, below = line("A title above the table", 60, 20), line("and a text that goes on below it", 60, 300)
    assert tables(answer(title, *cells(ROWS, right=right), below)) == [ROWS]


def test_a_row_of_one_cell_inside_stays() -> None:
    rows = [*ROWS[:2], ["(with sugar)", "", ""], *ROWS[2:]]
    assert tables(answer(*cells(rows))) == [rows]


def test_running_text_is_no_table() -> None:
    assert tables(answer(*(line("a row of running text that fills it", 40, y, 560) for y in range(40, 400, 24)))) == []
    assert tables(answer()) == []
    assert tables(answer(line("alone", 10, 10)), np.full((480, 640, 3), 255, np.uint8)) == []


def test_two_tables_from_above() -> None:
    upper = cells(ROWS[:2])
    lower = [{**each, "polygon": [[x, y + 220] for x, y in each["polygon"]]} for each in cells(ROWS[2:])]
    between = line("a line of text that stands between both of the tables", 60, 200, 500)
    more = line("and another one, as a title", 60, 224, 300)
    assert tables(answer(*upper, between, more, *lower)) == [ROWS[:2], ROWS[2:]]
