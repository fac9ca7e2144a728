"""A page as writers take it: blocks of paragraphs of rows of lines, and where words and baselines of a line are."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, TypeAlias

import numpy as np

from pdl.dtype import Array
from pdl_ocr.layout import UPRIGHT, places
from pdl_ocr.rectify import Rectified, rectangle

Line: TypeAlias = Mapping[str, Any]
Row: TypeAlias = list[Line]
Paragraph: TypeAlias = list[Row]
Block: TypeAlias = list[Paragraph]
Bounds: TypeAlias = tuple[int, int, int, int]

DESCENT = 0.2
"""The part of a line's height below its baseline, which detectors do not find."""

_WORD = re.compile(r"\S+")
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NARROW, _BROAD = frozenset("iljtfrI.,:;'|!()[]{}`\"-"), frozenset("mwMW@%&—")


@dataclass(frozen=True)
class Word:
    """A part of a line without spaces; `corners` [4, 2] begin where its first letter has its upper left one."""

    text: str
    score: float
    corners: Array


def grouped(page: Mapping[str, Any]) -> list[Block]:
    """The lines of a page in reading order: blocks of paragraphs of rows."""
    lines: Sequence[Line] = page["lines"]
    if not all("row" in line for line in lines):
        order = places([line["polygon"] for line in as_read(page)["lines"]])
        lines = [{**lines[at.line], "block": at.block, "paragraph": at.paragraph, "row": at.row} for at in order]
    return [[_by(rows, "row") for rows in _by(paragraphs, "paragraph")] for paragraphs in _by(lines, "block")]


def as_read(page: Mapping[str, Any]) -> Mapping[str, Any]:
    """The page with its lines where they were when it was read: flat and upright, where it was made so."""
    if "rectified" not in page:
        return page
    made = Rectified.read(page["rectified"])
    lines = [{**line, "polygon": made.forth(line["polygon"])} for line in page["lines"]]
    return {"lines": lines, "width": made.width, "height": made.height}


def shown(page: Mapping[str, Any]) -> int:
    """By how many degrees the image of a page is turned clockwise so that it stands upright: 0, 90, 180 or 270."""
    if "rectified" not in page:
        return 0
    made = Rectified.read(page["rectified"])
    return rotation(made.back(rectangle(made.width, made.height)))


def _by(lines: Sequence[Line], key: str) -> list[list[Line]]:
    return [list(some) for _, some in groupby(lines, key=lambda line: line[key])]


def lines_of(block: Block) -> list[Line]:
    """All lines of a block."""
    return [line for paragraph in block for row in paragraph for line in row]


def is_upright(corners: Array) -> bool:
    """Whether a line runs across the page, and not downwards."""
    width, height = (float(np.hypot(*(corners[i] - corners[0]))) for i in (1, 3))
    return height < UPRIGHT * width


def corners_of(line: Line) -> Array:
    """The corners [4, 2] of a line, clockwise, from the upper left one of its first letter on: of a line that runs
    downwards that is the upper right one."""
    corners: Array = np.asarray(line["polygon"], np.float64)
    return corners if is_upright(corners) else np.roll(corners, -1, axis=0)


def rotation(corners: Array) -> int:
    """How a line or word with these corners is turned: 0, 90, 180 or 270 degrees counterclockwise, whatever is
    nearest."""
    x, y = corners[1] - corners[0]
    return round(np.degrees(np.arctan2(-y, x)) / 90) % 4 * 90


def baseline(corners: Array) -> Array:
    """The two ends [2, 2] of the baseline of a line or word with these corners."""
    return np.stack(
        [corners[3] + DESCENT * (corners[0] - corners[3]), corners[2] + DESCENT * (corners[1] - corners[2])]
    )


def words(line: Line) -> list[Word]:
    """The words of a line. Recognisers tell no places of letters: words share the line's length by the usual widths of
    their letters."""
    text, corners = clean(line["text"]), corners_of(line)
    ends = np.cumsum([0.0, *map(advance, text)])
    ends /= max(ends[-1], 1e-9)
    upper, lower = corners[1] - corners[0], corners[2] - corners[3]
    found = []
    for each in _WORD.finditer(text):
        a, b = ends[each.start()], ends[each.end()]
        part = (corners[0] + a * upper, corners[0] + b * upper, corners[3] + b * lower, corners[3] + a * lower)
        found.append(Word(each[0], float(line["score"]), np.stack(part)))
    return found


def advance(letter: str) -> float:
    """The usual width of a character, as a part of that of a small Latin letter."""
    if unicodedata.category(letter) in ("Mn", "Me", "Cf"):
        return 0.0
    if unicodedata.east_asian_width(letter) in "WF":
        return 1.9
    if letter in _NARROW or letter.isspace():
        return 0.6
    return 1.5 if letter in _BROAD else 1.25 if letter.isupper() else 1.0


def bounds(polygons: Sequence[Any]) -> Bounds:
    """Left, top, right and bottom of what lies around polygons, whole pixels."""
    points = np.concatenate([np.asarray(polygon, np.float64).reshape(-1, 2) for polygon in polygons])
    (left, top), (right, bottom) = np.floor(points.min(axis=0)), np.ceil(points.max(axis=0))
    return max(0, int(left)), max(0, int(top)), max(0, int(right)), max(0, int(bottom))


def around(lines: Sequence[Line]) -> Bounds:
    """The bounds of lines."""
    return bounds([line["polygon"] for line in lines])


def height_of(line: Line) -> float:
    """The height of a line across its direction, in pixels."""
    corners = corners_of(line)
    return float(np.hypot(*(corners[3] - corners[0])))


def clean(text: str) -> str:
    """The text without what XML forbids (XML 1.0, section 2.2): control characters, halves of surrogates."""
    return _FORBIDDEN.sub("", text)
