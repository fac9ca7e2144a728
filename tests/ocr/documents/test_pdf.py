"""Searchable PDF: read again by another program, it shows the image and holds the words at their places."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

from pdl_ocr.documents.page import bounds, words
from pdl_ocr.documents.pdf import PdfWriter
from tests.ocr.documents.answers import ARTICLE, HOSTILE, line, page, turned

pdfium = pytest.importorskip("pypdfium2")
DPI = 200
#: without hyphens, at which programs join words again
PLAIN = page(*({**row, "text": row["text"].removesuffix("-")} for row in ARTICLE["lines"]))


def image(width: int = 800, height: int = 1000, colour: bool = True) -> np.ndarray:
    """A page with a block of a colour, or gray."""
    x = np.full((height, width, 3), 255, np.uint8)
    x[100:300, 200:600] = (200, 40, 90) if colour else 90
    return x


def pdf(*pages: dict[str, Any], title: str = "") -> bytes:
    file = io.BytesIO()
    writer = PdfWriter(file, title)
    for each in pages:
        writer.add(image(each["width"], each["height"]), each, DPI)
    writer.close()
    return file.getvalue()


def found(data: bytes, number: int = 0, height: float | None = None) -> dict[str, list[tuple[float, ...]]]:
    """The words that a page holds, with the boxes of their letters together, in pixels of its image; `height` of that,
    where it is shown turned."""
    document = pdfium.PdfDocument(data)
    sheet = document[number]
    text, height = sheet.get_textpage(), sheet.get_height() if height is None else height * 72 / DPI
    made: dict[str, list[tuple[float, ...]]] = {}
    begin, content = 0, text.get_text_range()
    for word in content.split():
        begin = content.index(word, begin)
        boxes = np.array([text.get_charbox(i, loose=True) for i in range(begin, begin + len(word))]) * DPI / 72
        (left, low), (right, high) = boxes[:, :2].min(axis=0), boxes[:, 2:].max(axis=0)
        made.setdefault(word, []).append((left, height * DPI / 72 - high, right, height * DPI / 72 - low))
        begin += len(word)
    return made


def overlap(a: Any, b: Any) -> float:
    """Intersection over union of two boxes."""
    w, h = (max(0.0, min(a[i + 2], b[i + 2]) - max(a[i], b[i])) for i in (0, 1))
    area = sum((x[2] - x[0]) * (x[3] - x[1]) for x in (a, b)) - w * h
    return w * h / area


def test_words_are_found_at_their_places() -> None:
    mixed = page(line("first", 60, 20, 150), line("Zürich 你好 Ελλάδα привет 😀", 60, 80, 500))
    data = pdf(PLAIN, mixed)
    for number, each in enumerate((PLAIN, mixed)):
        held = found(data, number)
        for word in (word for row in each["lines"] for word in words(row)):
            if word.text != "😀":  # two code units, of which PDFium counts each as a letter
                assert max(overlap(bounds([word.corners]), box) for box in held[word.text]) > 0.9
    assert "😀" in pdfium.PdfDocument(data)[1].get_textpage().get_text_range()


def test_the_text_is_read_in_order_and_not_drawn() -> None:
    data = pdf(PLAIN)
    document = pdfium.PdfDocument(data)
    said = document[0].get_textpage().get_text_range().split()
    assert said == [word.text for row in PLAIN["lines"] for word in words(row)]
    assert document[0].get_size() == (288, 360)
    drawn = document[0].render(scale=DPI / 72, rev_byteorder=True).to_numpy()[:, :, :3]
    assert np.abs(drawn.astype(int) - image()).mean() < 1


def test_slanted_and_downward_words() -> None:
    slanted, down = line("slanted", 100, 300, 400, degrees=10), line("down", 700, 100, 300, degrees=90)
    held = found(pdf(page(slanted, down)))
    assert overlap(bounds([down["polygon"]]), held["down"][0]) > 0.9
    assert overlap(bounds([slanted["polygon"]]), held["slanted"][0]) > 0.8


@pytest.mark.parametrize("degrees", [90, 180, 270])
def test_a_turned_page_is_shown_upright_and_has_its_words_in_place(degrees: int) -> None:
    answer = turned(PLAIN, degrees)
    data = pdf(answer)
    sheet = pdfium.PdfDocument(data)[0]
    assert sheet.get_rotation() == (360 - degrees) % 360
    assert sheet.get_size() == (288, 360)
    assert sheet.get_textpage().get_text_range().split() == [w.text for row in PLAIN["lines"] for w in words(row)]
    held = found(data, height=answer["height"])
    for word in (word for row in answer["lines"] for word in words(row)):
        assert max(overlap(bounds([word.corners]), box) for box in held[word.text]) > 0.9


def test_more_characters_than_a_font_has() -> None:
    letters = [chr(0x4E00 + i) for i in range(600)]
    rows = [line("".join(letters[i : i + 20]), 20, 20 + 32 * i / 20, 760, 28) for i in range(0, 600, 20)]
    text = pdfium.PdfDocument(pdf(page(*rows)))[0].get_textpage().get_text_range()
    assert text.split() == [row["text"] for row in rows]


def test_hostile_texts_titles_and_empty_pages() -> None:
    data = pdf(HOSTILE, page(), title="a (b\\ ü\ud800")
    document = pdfium.PdfDocument(data)
    assert document[0].get_textpage().get_text_range().split() == ["a", "<", "b", "&", '"c"', ">"]
    assert document[1].get_textpage().count_chars() == 0
    assert document.get_metadata_value("Title").startswith("a (b\\ ü")
    pikepdf = pytest.importorskip("pikepdf")
    with pikepdf.open(io.BytesIO(data)) as opened:
        assert opened.check_pdf_syntax() == []


def test_gray_pages_have_one_channel() -> None:
    files = []
    for colour in (True, False):
        file = io.BytesIO()
        writer = PdfWriter(file)
        writer.add(image(colour=colour), page(), DPI)
        writer.close()
        files.append(file.getvalue())
    assert b"/DeviceRGB" in files[0]
    assert b"/DeviceGray" in files[1]
    assert len(files[1]) < len(files[0])
