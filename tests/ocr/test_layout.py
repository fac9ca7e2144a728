"""The order of the lines of a page, and what belongs together."""

from __future__ import annotations

import numpy as np
import pytest

from pdl_ocr.layout import Place, places, skew

HEIGHT = 20


def line(left: float, top: float, width: float, height: float = HEIGHT) -> list[list[float]]:
    return [[left, top], [left + width, top], [left + width, top + height], [left, top + height]]


def column(left: float, top: float, width: float, rows: int, rng: np.random.Generator, pitch: float = 28) -> list:
    """Running text: rows of nearly the whole width, the last one shorter."""
    widths = [*(width * rng.uniform(0.9, 1.0, rows - 1)), width * 0.4]
    return [line(left, top + pitch * i, w) for i, w in enumerate(widths)]


def turned(polygons: list, degrees: float) -> list:
    angle = np.radians(degrees)
    turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    return [(np.array(polygon) @ turn + 300).tolist() for polygon in polygons]


def shuffled(polygons: list, rng: np.random.Generator) -> tuple[list, list[int]]:
    """The polygons in another order, and where each of them now is."""
    order = rng.permutation(len(polygons))
    return [polygons[i] for i in order], np.argsort(order).tolist()


def article(rng: np.random.Generator) -> list:
    """A heading over both columns, two columns, a line below both, two columns again."""
    upper = [*column(50, 100, 340, 12, rng), *column(430, 100, 340, 12, rng)]
    lower = [*column(50, 520, 340, 6, rng), *column(430, 520, 340, 4, rng)]
    return [line(100, 40, 600, 36), *upper, line(50, 470, 700), *lower]


def three_columns(rng: np.random.Generator) -> list:
    return [part for left in (40, 320, 600) for part in column(left, 60, 250, 9, rng)]


def receipt(rng: np.random.Generator) -> list:
    """Items on the left, prices on the right, row by row."""
    rows = [[line(40, 200 + 28 * i, rng.uniform(120, 330)), line(440, 201 + 28 * i, 60)] for i in range(14)]
    head = [line(180, 40, 220), line(150, 70, 280), line(200, 100, 180)]
    return [*head, *(cell for row in rows for cell in row)]


def form(rng: np.random.Generator) -> list:
    """Keys and long values."""
    return [cell for i in range(8) for cell in (line(40, 50 + 30 * i, 110), line(200, 49 + 30 * i, 400))]


def table(rng: np.random.Generator) -> list:
    """Short cells in four columns."""
    lefts = (40, 240, 440, 640)
    return [line(left, 50 + 30 * i, rng.uniform(60, 130)) for i in range(10) for left in lefts]


@pytest.mark.parametrize("make", [article, three_columns, receipt, form, table])
@pytest.mark.parametrize("degrees", [0, 2.5, -4])
def test_pages_are_read_in_order(make, degrees: float) -> None:
    for seed in range(5):
        rng = np.random.default_rng(seed)
        polygons = turned(make(rng), degrees)
        mixed, where = shuffled(polygons, rng)
        assert [place.line for place in places(mixed)] == where


def test_blocks_paragraphs_and_rows() -> None:
    rng = np.random.default_rng(0)
    found = places([line(50, 20, 300, 40), *column(50, 80, 400, 5, rng), *column(50, 80 + 28 * 5 + 16, 400, 3, rng)])
    assert [place.paragraph for place in found] == [0, *[1] * 5, *[2] * 3]
    assert [place.row for place in found] == list(range(9))
    assert {place.block for place in found} == {0}
    far = places([line(50, 20, 300), line(50, 200, 300)])
    assert far == [Place(0, 0, 0, 0), Place(1, 1, 1, 1)]
    cells = places([line(300, 20, 60), line(50, 22, 200)])
    assert cells == [Place(1, 0, 0, 0), Place(0, 0, 0, 0)]


def test_an_indented_row_begins_a_paragraph() -> None:
    lefts = [80, 50, 50, 80, 50, 50]
    found = places([line(left, 30 * i, 500 - left) for i, left in enumerate(lefts)])
    assert [place.paragraph for place in found] == [0, 0, 0, 1, 1, 1]


def test_every_line_has_one_place_whatever_the_polygons() -> None:
    rng = np.random.default_rng(1)
    for count in (1, 2, 40, 300):
        polygons = rng.uniform(0, 1000, (count, 4, 2)).tolist()
        found = places(polygons)
        assert sorted(place.line for place in found) == list(range(count))
        for name in ("block", "paragraph", "row"):
            numbers = [getattr(place, name) for place in found]
            assert set(np.diff(numbers)) <= {0, 1}
            assert numbers[0] == 0
    assert places([]) == []
    assert [place.line for place in places([[[5, 5]] * 4] * 2)] == [0, 1]


@pytest.mark.parametrize("degrees", [0, 3, -8, 15])
def test_skew_is_found(degrees: float) -> None:
    polygons = turned([line(50, 30 * i, 400) for i in range(5)], degrees)
    tall = turned([line(50, 300, 20, 400)], degrees)
    assert np.degrees(skew(np.array(polygons + tall))) == pytest.approx(degrees, abs=0.01)
    assert skew(np.array(turned(polygons, 60 - degrees))) == 0
