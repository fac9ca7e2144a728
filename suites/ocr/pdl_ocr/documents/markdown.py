"""Pages as plain text and as Markdown."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from itertools import pairwise
from statistics import median
from typing import Any

from pdl_ocr.documents.page import Block, Paragraph, Row, around, as_read, grouped, height_of, lines_of

HEADINGS = ((1.7, "# "), (1.3, "## "))
"""Marks of headings by the height of their letters, as a part of the page's median."""
HEADING = 3  # rows of a heading, at most
FULL = 0.75  # of the width of its block a row fills that goes on in the next one
APART = 2.0  # heights between two lines of a row that are cells

_SPECIAL = re.compile(r"([\\`*_\[\]<|])")
_MARKS = re.compile(r"^(#{1,6}(?= |$)|>|=+$|-+$|~~~)")
_BULLET = re.compile(r"^[•▪●◦]\s*")


def to_text(page: Mapping[str, Any]) -> str:
    """A page as text, a row a line, blocks and paragraphs with an empty line between them; a tab between cells."""
    paragraphs = (paragraph for block in grouped(as_read(page)) for paragraph in block)
    made = ("\n".join(row_text(row, "\t") for row in paragraph) for paragraph in paragraphs)
    return "\n\n".join(made) + "\n"


def to_markdown(page: Mapping[str, Any]) -> str:
    """A page as Markdown (CommonMark): the rows of a paragraph as one line, joined again where a word was divided; rows
    that do not fill their block stay lines of their own; few rows of taller letters are headings."""
    blocks = grouped(as_read(page))
    usual = median([height_of(line) for block in blocks for line in lines_of(block)] or [1.0])
    made = [_paragraph(paragraph, block, usual) for block in blocks for paragraph in block]
    return "\n\n".join(made) + "\n"


def row_text(row: Row, between: str = " ") -> str:
    """The lines of a row as one text; `between` stands where they are far apart."""
    made = row[0]["text"]
    for before, line in pairwise(row):
        white = around([line])[0] - around([before])[2]
        made += (between if white > APART * height_of(line) else " ") + line["text"]
    return str(made)


def _paragraph(paragraph: Paragraph, block: Block, usual: float) -> str:
    left, _, right, _ = around(lines_of(block))
    rows = [escaped(row_text(row)) for row in paragraph]
    heading = _heading(paragraph, usual)
    if heading:
        return heading + " ".join(rows)
    made = rows[0]
    for before, row in zip(paragraph, rows[1:], strict=False):
        full = around(before)[2] - left >= FULL * (right - left) and len(before) == 1
        made = joined(made, row) if full else f"{made}  \n{row}"
    return made


def _heading(paragraph: Paragraph, usual: float) -> str:
    if len(paragraph) > HEADING:
        return ""
    height = median(height_of(line) for row in paragraph for line in row)
    return next((mark for ratio, mark in HEADINGS if height >= ratio * usual), "")


def joined(before: str, after: str) -> str:
    """Two rows of running text as one: without the hyphen of a divided word, and without a space between Chinese or
    Japanese characters."""
    if re.search(r"[^\W\d_]-$", before) and after[:1].islower():
        return before[:-1] + after
    wide = bool(before and after) and all(unicodedata.east_asian_width(c) in "WF" for c in (before[-1], after[0]))
    return before + after if wide else f"{before} {after}"


def escaped(row: str) -> str:
    """A row whose characters mean themselves in Markdown; bullets become those of lists."""
    return _MARKS.sub(r"\\\1", _SPECIAL.sub(r"\\\1", _BULLET.sub("- ", row.strip())))
