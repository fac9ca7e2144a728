"""What drawn pages look like: articles in columns, forms and receipts, signs."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np

from pdl.data.randomness import SampleRandom
from pdl_ocr.data.typesetting import ACCENT, REVERSED, Align, Layout, Line, Rule, Sheet, Style

COLUMN = 9  # times the size of the letters a column has at least
TRIES = 30  # places that are tried for words of a sign
STEEP = 25.0  # degrees by which words of a sign climb or fall, at most

#: height / width of pages, from a least to a most, and the share of a layout's pages with this or one before it
SHAPES: dict[str, tuple[tuple[float, float, float], ...]] = {
    "article": ((1.2, 1.5, 0.8), (0.65, 1.0, 1.0)),
    "form": ((1.4, 2.8, 0.6), (1.0, 1.5, 1.0)),
    "sign": ((0.55, 1.4, 1.0),),
}


def shape_of(layout: str, side: tuple[int, int], rng: SampleRandom) -> tuple[int, int]:
    """(height, width) of a page whose longer side is from a least to a most number of pixels."""
    u, longer = rng.uniform(), rng.integers(side[0], side[1] + 1)
    low, high = next((low, high) for low, high, share in SHAPES[layout] if u < share)
    ratio = rng.uniform(low, high)
    return (longer, max(1, round(longer / ratio))) if ratio >= 1 else (max(1, round(longer * ratio)), longer)


def article(sheet: Sheet, sizes: tuple[int, int]) -> None:
    """A heading, and one to three columns of paragraphs with headings of their own."""
    rng = sheet.rng
    body = _body(sheet, sizes)
    head = _heading(sheet, body)
    start, end = (sheet.width * rng.uniform(0.03, 0.12) for _ in range(2))
    top, bottom = sheet.height * rng.uniform(0.02, 0.1), sheet.height * rng.uniform(0.9, 0.98)
    span = (start, sheet.width - end)
    pitch = rng.uniform(1.0, 1.5)
    align: Align = ("start", "justified", "justified")[rng.integers(0, 3)]
    if rng.chance(0.3):  # what is repeated on each page
        _ends(sheet, replace(body, size=max(8, body.size - 2)), span, top)
        top += 2 * sheet.line_height(body)
    if rng.chance(0.7):
        title = sheet.style(head.path, head.size * rng.uniform(1.2, 2), head.tone)
        where: Align = ("start", "middle")[rng.integers(0, 2)]
        top = sheet.block(title, span, top, bottom, rows=rng.integers(1, 3), pitch=1.1, align=where) + 0.5 * body.size
    space = body.size * rng.uniform(1, 3)
    most = max(1, min(3, int((span[1] - span[0] + space) // (COLUMN * body.size + space))))
    columns = rng.integers(1, most + 1)
    width = (span[1] - span[0] - space * (columns - 1)) / columns
    indent, apart = body.size * rng.uniform(0, 2) * rng.chance(0.5), body.size * rng.uniform(0, 1.5)
    for column in range(columns):
        left = span[0] + column * (width + space)
        _column(sheet, body, head, (left, left + width), (top, bottom), pitch, align, indent, apart)


def _column(
    sheet: Sheet,
    body: Style,
    head: Style,
    span: tuple[float, float],
    ends: tuple[float, float],
    pitch: float,
    align: Align,
    indent: float,
    apart: float,
) -> None:
    """Paragraphs below each other, some with a heading, until the column is full."""
    rng, (y, bottom) = sheet.rng, ends
    while y + 2 * sheet.line_height(body) < bottom:
        before = y
        if rng.chance(0.2):
            words = sheet.filled(head, span[1] - span[0], rng.integers(1, 6))
            if rng.chance(0.15):
                thick = round(1.1 * sheet.line_height(head))
                if sheet.row(words, replace(head, tone=REVERSED), (span[0] + 4, span[1]), y):
                    sheet.stroke(span, y, thick)
            else:
                sheet.row(words, head, span, y)
            y += 1.2 * sheet.line_height(head)
        y = sheet.block(
            body, span, y, bottom, rows=rng.integers(2, 10), pitch=pitch, align=align, indent=indent
        ) + apart  # fmt: skip
        if y <= before:
            return


def form(sheet: Sheet, sizes: tuple[int, int]) -> None:
    """A receipt or a form: a heading, labels with values or rows of a table, rules, sums, a few words at the end."""
    rng = sheet.rng
    body = _body(sheet, (sizes[0], max(sizes[0], min(sizes[1], sheet.width // 16))))
    head = _heading(sheet, body)
    start, end = (sheet.width * rng.uniform(0.02, 0.1) for _ in range(2))
    span, y = (start, sheet.width - end), sheet.height * rng.uniform(0.02, 0.08)
    bottom, pitch = sheet.height * rng.uniform(0.8, 0.97), rng.uniform(1.0, 1.6)
    step = pitch * sheet.line_height(body)
    where: Align = "middle" if rng.chance(0.7) else "start"
    for row in range(rng.integers(1, 6)):
        style = head if row == 0 else body
        y = sheet.block(style, span, y, bottom, rows=1, pitch=pitch, align=where)
    while y + 3 * step < bottom:
        y = (_table if rng.chance(0.25) else _items)(sheet, body, head, span, (y + step / 2, bottom), step)
        if rng.chance(0.4):
            y += step * rng.uniform(0, 1.5)
            sheet.stroke(span, y, rng.integers(1, 4), rng.integers(4, 14) * rng.chance(0.5))
        if rng.chance(0.3):
            y = sheet.block(body, span, y + 4, bottom, rows=rng.integers(1, 4), pitch=pitch, align=where)
    for _ in range(rng.integers(0, 3)):
        y = sheet.block(body, span, y, sheet.height * 0.99, rows=1, pitch=pitch, align=where)


def _items(
    sheet: Sheet, body: Style, head: Style, span: tuple[float, float], ends: tuple[float, float], step: float
) -> float:
    """Labels at the beginning of lines and values at their end, now and then a sum; where the next part begins."""
    rng, (y, bottom) = sheet.rng, ends
    width = span[1] - span[0]
    colon, middle, dots = rng.chance(0.3), rng.chance(0.3), rng.chance(0.15)
    near = rng.chance(0.3)  # values stand behind labels, in a column of their own
    for _ in range(rng.integers(2, 14)):
        if y + step > bottom:
            break
        style = head if rng.chance(0.12) and 1.2 * head.size < step else body
        label = sheet.filled(style, width * rng.uniform(0.2, 0.42 if middle or near else 0.6), rng.integers(1, 6))
        label[-1] += ":" if colon and sheet.source.writes(style.path, ":") else ""
        value = sheet.source.number(style.path, rng).split(" ")
        left = sheet.row(label, style, span, y)
        if middle:
            sheet.row([sheet.source.number(body.path, rng)], body, (span[0] + 0.5 * width, span[0] + 0.68 * width), y)
        place = (span[0] + (0.5 if near and not middle else 0.72) * width, span[1])
        right = sheet.row(value, style, place, y, "start" if near and not middle else "end")
        if dots and left and right and not middle and not sheet.right_to_left:
            foot = left.box[3] - 0.25 * style.size
            sheet.stroke((left.box[2] + style.size / 2, right.box[0] - style.size / 2), foot, 2, style.size // 2)
        y += step
    return y


def _table(
    sheet: Sheet, body: Style, head: Style, span: tuple[float, float], ends: tuple[float, float], step: float
) -> float:
    """Rows of cells, words in the first column and numbers in the others, ruled or not; where the next part begins."""
    rng, (y, bottom), width = sheet.rng, ends, span[1] - span[0]
    most = max(2, min(6, int(width // (5 * body.size))))
    columns = rng.integers(2, most + 1)
    first = rng.uniform(0.25, 0.5)
    edges = [0.0, *(first + (1 - first) * k / (columns - 1) for k in range(columns))]
    cells = [(span[0] + a * width, span[0] + b * width) for a, b in pairwise(edges)]
    pad, ruled, thick = 0.3 * body.size, rng.chance(0.5), rng.integers(1, 3)
    step *= 1.25 if ruled else 1
    rows = min(rng.integers(3, 12), int((bottom - y) // step))
    top, words = y, rng.chance(0.2)
    aligned: Align = "end" if rng.chance(0.7) else "start"
    for row in range(rows):
        style = replace(body, path=head.path) if row == 0 else body
        for column, (left, right) in enumerate(cells):
            inner = (left + pad, right - pad)
            title = row == 0 or column == 0 or words
            said = sheet.filled(style, inner[1] - inner[0], 3) if title else [sheet.source.number(style.path, rng)]
            sheet.row(said, style, inner, y + (0.12 * step if ruled else 0), "start" if column == 0 else aligned)
        y += step
    if ruled and rows > 0:
        for row in range(rows + 1):
            sheet.stroke(span, top + row * step, thick)
        for x in (*(left for left, _ in cells), span[1]):
            at = sheet.width - x if sheet.right_to_left else x
            sheet.rules.append(Rule((round(at), round(top), round(at) + thick, round(top + rows * step))))
    return y


def sign(sheet: Sheet, sizes: tuple[int, int]) -> None:
    """A few words of large sizes, turned, each at a place of its own; read from the top to the bottom."""
    rng = sheet.rng
    steep = rng.uniform(0, STEEP)
    path = sheet.source.font(rng)
    taken = list[np.ndarray]()
    for _ in range(rng.integers(1, 9)):
        path = sheet.source.font(rng) if rng.chance(0.3) else path
        largest = max(float(sizes[1]), 0.2 * min(sheet.height, sheet.width))
        size = math.exp(rng.uniform(math.log(max(12, sizes[0])), math.log(largest)))
        style = sheet.style(path, size, ACCENT if rng.chance(0.3) else 0)
        words = sheet.filled(style, 0.8 * sheet.width, rng.integers(1, 4))
        line = sheet.laid(words, style, (0.0, float(sheet.width)), 0.0)
        if line is not None:
            _hang(sheet, replace(line, angle=math.radians(steep * rng.uniform(-1, 1) * rng.chance(0.7))), taken)
    sheet.lines.sort(key=lambda each: (each.middle[1], each.middle[0]))


def _hang(sheet: Sheet, line: Line, taken: list[np.ndarray]) -> None:
    """Set a line anywhere that none of the `taken` boxes (float64 [2, 2]: from, to) is, if there is such a place."""
    polygon = line.polygon()
    low, high = polygon.min(axis=0), polygon.max(axis=0)
    free = np.array([sheet.width, sheet.height]) - (high - low)
    for _ in range(TRIES if (free >= 0).all() else 0):
        move = np.floor([sheet.rng.uniform(0, each) for each in free] - low).astype(int)
        box = np.stack([low, high]) + move
        moved = line.moved(*move.tolist())
        if all((box[0] >= other[1]).any() or (box[1] <= other[0]).any() for other in taken) and sheet.holds(moved):
            taken.append(box)
            sheet.lines.append(moved)
            return


def _ends(sheet: Sheet, style: Style, span: tuple[float, float], top: float) -> None:
    """A few words at the beginning of a line, and a number at its end."""
    width = span[1] - span[0]
    sheet.row(sheet.filled(style, 0.6 * width, 6), style, (span[0], span[0] + 0.7 * width), top)
    sheet.row([sheet.source.number(style.path, sheet.rng)], style, (span[0] + 0.75 * width, span[1]), top, "end")


def _body(sheet: Sheet, sizes: tuple[int, int]) -> Style:
    return sheet.style(sheet.source.font(sheet.rng), sheet.rng.integers(sizes[0], sizes[1] + 1))


def _heading(sheet: Sheet, body: Style) -> Style:
    """A style for headings of a page: another font or the same, larger, now and then of another colour."""
    rng = sheet.rng
    path = sheet.source.font(rng) if rng.chance(0.7) else body.path
    return sheet.style(path, body.size * rng.uniform(1, 1.6), ACCENT if rng.chance(0.3) else body.tone)


LAYOUTS: dict[str, Layout] = {"article": article, "form": form, "sign": sign}
