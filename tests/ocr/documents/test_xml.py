"""hOCR and ALTO: read again, they hold the words and their places."""

from __future__ import annotations

import re
from collections.abc import Callable
from xml.etree import ElementTree

import pytest

from pdl_ocr.documents import to_alto, to_hocr
from pdl_ocr.documents.alto import SPACE
from pdl_ocr.documents.page import words
from tests.ocr.documents.answers import ARTICLE, HOSTILE, line, page, turned

XHTML = "{http://www.w3.org/1999/xhtml}"
ALTO = f"{{{SPACE}}}"


def properties(element: ElementTree.Element) -> dict[str, list[str]]:
    """The properties in the title of an element of hOCR."""
    parts = (part.split() for part in element.get("title", "").split("; "))
    return {name: values for name, *values in parts}


def of_class(tree: ElementTree.Element, kind: str) -> list[ElementTree.Element]:
    return [each for each in tree.iter() if each.get("class") == kind]


def test_hocr_holds_words_with_places() -> None:
    tree = ElementTree.fromstring(to_hocr([ARTICLE, page(line("two words", 100, 200, 180))], "scan.pdf"))
    assert tree.tag == f"{XHTML}html"
    assert [each.get("id") for each in of_class(tree, "ocr_page")] == ["page_1", "page_2"]
    second = of_class(tree, "ocr_page")[1]
    assert second.get("title") == 'image "scan.pdf"; bbox 0 0 800 1000; ppageno 1'
    first, last = of_class(second, "ocrx_word")
    assert (first.text, last.text) == ("two", "words")
    assert properties(first)["x_wconf"] == ["88"]
    a, b = (list(map(int, properties(each)["bbox"])) for each in (first, last))
    assert a[:2] == [100, 200]
    assert b[2:] == [280, 230]
    assert a[0] < a[2] < b[0] < b[2]
    (row,) = of_class(second, "ocr_line")
    assert properties(row)["baseline"] == ["0.0000", "-6.0"]
    assert len(of_class(tree, "ocr_par")) == 4
    ids = [each.get("id") for each in tree.iter() if each.get("id")]
    assert len(ids) == len(set(ids))


def test_hocr_of_slanted_and_downward_lines() -> None:
    slanted, down = line("a slanted line", 100, 200, 400, degrees=-5), line("down", 700, 100, 300, degrees=90)
    tree = ElementTree.fromstring(to_hocr([page(slanted, down)]))
    rows = {
        re.sub(r"\s+", " ", "".join(each.itertext())).strip(): properties(each) for each in of_class(tree, "ocr_line")
    }
    slope, offset = map(float, rows["a slanted line"]["baseline"])
    assert slope == pytest.approx(-0.0875, abs=0.001)
    assert -9 < offset < 0
    assert rows["down"]["textangle"] == ["270"]


@pytest.mark.parametrize("degrees", [90, 180, 270])
def test_turned_pages_say_by_how_much(degrees: int) -> None:
    answer = turned(ARTICLE, degrees)
    rows = of_class(ElementTree.fromstring(to_hocr([answer])), "ocr_line")
    assert {properties(row)["textangle"][0] for row in rows} == {str(360 - degrees)}
    tree = ElementTree.fromstring(to_alto([answer]))
    assert {each.get("ROTATION") for each in tree.iter(f"{ALTO}TextBlock")} == {str(360 - degrees)}
    (first, *_), (page_element,) = tree.iter(f"{ALTO}String"), tree.iter(f"{ALTO}Page")
    assert (page_element.get("WIDTH"), page_element.get("HEIGHT")) == (str(answer["width"]), str(answer["height"]))
    upper, left = float(first.get("VPOS")), float(first.get("HPOS"))
    assert {90: left > 800, 180: upper > 800, 270: upper > 500}[degrees]  # the heading is at the upper end of the page


def test_alto_holds_words_with_places() -> None:
    tree = ElementTree.fromstring(to_alto([ARTICLE, page(line("two words", 100, 200, 180))], "scan.pdf"))
    assert tree.tag == f"{ALTO}alto"
    assert [each.tag.removeprefix(ALTO) for each in tree] == ["Description", "Layout"]
    _, second = tree.iter(f"{ALTO}Page")
    assert (second.get("WIDTH"), second.get("HEIGHT"), second.get("PHYSICAL_IMG_NR")) == ("800", "1000", "2")
    (row,) = second.iter(f"{ALTO}TextLine")
    assert [each.tag.removeprefix(ALTO) for each in row] == ["Shape", "String", "SP", "String"]
    assert row.get("BASELINE") == "100,224 280,224"
    first, space, last = list(row)[1:]
    assert (first.get("CONTENT"), last.get("CONTENT"), first.get("WC")) == ("two", "words", "0.8750")
    assert int(first.get("HPOS")) + int(first.get("WIDTH")) == int(space.get("HPOS"))
    assert int(last.get("HPOS")) + int(last.get("WIDTH")) == 280
    assert len(list(tree.iter(f"{ALTO}TextBlock"))) == 4
    ids = [each.get("ID") for each in tree.iter() if each.get("ID")]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("document", [to_hocr, to_alto])
def test_whatever_is_read_is_well_formed(document: Callable[..., str]) -> None:
    tree = ElementTree.fromstring(document([HOSTILE, page()], 'a "<&\x00>.pdf'))
    found = [each.get("CONTENT") or each.text for each in tree.iter() if each.get("class") == "ocrx_word"
             or each.tag == f"{ALTO}String"]  # fmt: skip
    assert found == ["a", "<", "b", "&", '"c"', ">"]


def test_words_share_the_length_of_a_line() -> None:
    found = words(line("iii mmm", 0, 0, 100))
    assert [word.text for word in found] == ["iii", "mmm"]
    assert found[0].corners[1][0] < 30 < found[1].corners[0][0]
    assert found[1].corners[1].tolist() == [100, 0]
    assert words(line("   ", 0, 0, 100)) == []
