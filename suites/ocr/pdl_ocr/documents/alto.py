"""Pages as ALTO 4.4 (https://www.loc.gov/standards/alto/): the XML of libraries for text with places, in pixels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import Any
from xml.etree.ElementTree import Element, SubElement, tostring
from xml.sax.saxutils import escape

from pdl_ocr import __version__
from pdl_ocr.documents.page import (
    Bounds,
    Word,
    around,
    baseline,
    bounds,
    clean,
    corners_of,
    grouped,
    lines_of,
    rotation,
    words,
)  # fmt: skip

SPACE = "http://www.loc.gov/standards/alto/ns-v4#"
SCHEMA = "https://www.loc.gov/standards/alto/v4/alto-4-4.xsd"
TAIL = " </Layout>\n</alto>\n"


def head(source: str) -> str:
    """What stands before the pages."""
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<alto xmlns="{SPACE}" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" '
        f'xsi:schemaLocation="{SPACE} {SCHEMA}" SCHEMAVERSION="4.4">\n <Description>\n'
        "  <MeasurementUnit>pixel</MeasurementUnit>\n"
        f"  <sourceImageInformation><fileName>{escape(clean(source))}</fileName></sourceImageInformation>\n"
        '  <Processing ID="processing"><processingSoftware><softwareName>pdl-ocr</softwareName>'
        f"<softwareVersion>{__version__}</softwareVersion></processingSoftware></Processing>\n"
        " </Description>\n <Layout>\n"
    )


def page(answer: Mapping[str, Any], number: int) -> str:
    """A page as an element: its number in the document from 1 on. Blocks are ComposedBlocks of paragraphs, which are
    TextBlocks."""
    whole = (0, 0, answer["width"], answer["height"])
    size = {"WIDTH": str(answer["width"]), "HEIGHT": str(answer["height"])}
    made = Element("Page", {"ID": f"page_{number}", "PHYSICAL_IMG_NR": str(number), **size})
    space = SubElement(made, "PrintSpace", _place(whole))
    numbers = {name: count(1) for name in ("block", "paragraph", "line", "word")}

    def add(parent: Element, tag: str, name: str, where: Bounds, **more: str) -> Element:
        return SubElement(parent, tag, {"ID": f"{name}_{number}_{next(numbers[name])}", **_place(where), **more})

    for block in grouped(answer):
        outer = add(space, "ComposedBlock", "block", around(lines_of(block)))
        for paragraph in block:
            turned = rotation(corners_of(paragraph[0][0]))
            more = {"ROTATION": str(turned)} if turned else {}
            inner = add(outer, "TextBlock", "paragraph", around(lines_of([paragraph])), **more)
            for line in (line for row in paragraph for line in row):
                found = words(line)
                if not found:  # a TextLine has a String at least
                    continue
                ends = baseline(corners_of(line))
                each = add(inner, "TextLine", "line", around([line]), BASELINE=_points(ends))
                SubElement(SubElement(each, "Shape"), "Polygon", {"POINTS": _points(line["polygon"])})
                _strings(each, found, add)
            if len(inner) == 0:
                outer.remove(inner)
        if len(outer) == 0:
            space.remove(outer)
    return "  " + tostring(made, encoding="unicode") + "\n"


def to_alto(pages: Iterable[Mapping[str, Any]], source: str = "") -> str:
    """Pages as one document."""
    return head(source) + "".join(page(each, number) for number, each in enumerate(pages, 1)) + TAIL


def _strings(line: Element, found: Sequence[Word], add: Any) -> None:
    """The words of a line, and the spaces between them."""
    places = [bounds([word.corners]) for word in found]
    for word, where, after in zip(found, places, [*places[1:], None], strict=True):
        add(line, "String", "word", where, CONTENT=word.text, WC=f"{min(1.0, max(0.0, word.score)):.4f}")
        if after is not None:
            right = min(where[2], after[0])
            facts = {"HPOS": str(right), "VPOS": str(where[1]), "WIDTH": str(max(0, after[0] - right))}
            SubElement(line, "SP", facts)


def _place(where: Bounds) -> dict[str, str]:
    left, top, right, bottom = where
    return {"HPOS": str(left), "VPOS": str(top), "WIDTH": str(right - left), "HEIGHT": str(bottom - top)}


def _points(points: Any) -> str:
    return " ".join(f"{x:.0f},{y:.0f}" for x, y in points)
