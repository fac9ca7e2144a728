"""Pages as hOCR 1.2 (https://kba.github.io/hocr-spec/1.2/): XHTML whose classes say what elements are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count
from typing import Any
from xml.etree.ElementTree import Element, SubElement, tostring
from xml.sax.saxutils import escape

from pdl_ocr import __version__
from pdl_ocr.documents.page import (
    Bounds,
    Line,
    around,
    baseline,
    bounds,
    clean,
    corners_of,
    grouped,
    height_of,
    lines_of,
    rotation,
    words,
)  # fmt: skip

TAIL = " </body>\n</html>\n"
_KINDS = "ocr_page ocr_carea ocr_par ocr_line ocrx_word"


def head(title: str) -> str:
    """What stands before the pages."""
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        '<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Transitional//EN" '
        '"http://www.w3.org/TR/xhtml1/DTD/xhtml1-transitional.dtd">\n'
        f'<html xmlns="http://www.w3.org/1999/xhtml">\n <head>\n  <title>{escape(clean(title))}</title>\n'
        '  <meta http-equiv="Content-Type" content="text/html; charset=utf-8"/>\n'
        f'  <meta name="ocr-system" content="pdl-ocr {__version__}"/>\n'
        f'  <meta name="ocr-capabilities" content="{_KINDS}"/>\n </head>\n <body>\n'
    )


def page(answer: Mapping[str, Any], number: int, source: str, dpi: float | None = None) -> str:
    """A page as an element: its number in the document from 1 on, the name of what it was read from."""
    name = clean(source).replace('"', "'")
    scan = "" if dpi is None else f"; scan_res {dpi:.0f} {dpi:.0f}"
    title = f'image "{name}"; {_bbox((0, 0, answer["width"], answer["height"]))}; ppageno {number - 1}{scan}'
    made = Element("div", {"class": "ocr_page", "id": f"page_{number}", "title": title})
    numbers: dict[str, Any] = {}

    def add(parent: Element, tag: str, kind: str, name: str, title: str) -> Element:
        at = next(numbers.setdefault(name, count(1)))
        return SubElement(parent, tag, {"class": kind, "id": f"{name}_{number}_{at}", "title": title})

    for block in grouped(answer):
        area = add(made, "div", "ocr_carea", "block", _bbox(around(lines_of(block))))
        for paragraph in block:
            part = add(area, "p", "ocr_par", "par", _bbox(around(lines_of([paragraph]))))
            for line in (line for row in paragraph for line in row):
                span = add(part, "span", "ocr_line", "line", _line(line))
                span.tail = "\n"
                for word in words(line):
                    title = f"{_bbox(bounds([word.corners]))}; x_wconf {round(100 * word.score)}"
                    each = add(span, "span", "ocrx_word", "word", title)
                    each.text, each.tail = word.text, " "
    return "  " + tostring(made, encoding="unicode", short_empty_elements=False) + "\n"


def to_hocr(pages: Iterable[Mapping[str, Any]], source: str = "") -> str:
    """Pages as one document."""
    return head(source) + "".join(page(each, number, source) for number, each in enumerate(pages, 1)) + TAIL


def _bbox(found: Bounds) -> str:
    return f"bbox {' '.join(map(str, found))}"


def _line(line: Line) -> str:
    """The properties of a line. Its baseline is y = slope x + offset from the lower left corner of its box."""
    left, top, right, bottom = around([line])
    title = f"{_bbox((left, top, right, bottom))}; x_size {height_of(line):.1f}"
    corners = corners_of(line)
    if turned := rotation(corners):
        return f"{title}; textangle {turned}"
    (x0, y0), (x1, y1) = baseline(corners)
    slope = (y1 - y0) / (x1 - x0) if x1 != x0 else 0.0
    return f"{title}; baseline {slope:.4f} {y0 + slope * (left - x0) - bottom:.1f}"
