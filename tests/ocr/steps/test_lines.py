"""Pages as inputs, and their lines as documents, from the command line to files."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import cv2
import numpy as np
import pytest

from pdl.errors import UsageError
from pdl.runtime.predict import pipeline_of
from pdl.workflow.prediction import options_of, predict, predict_words
from tests.ocr.synthetic import bars, session

TEXTS = [["abc"], ["cab", "bb"], []]


@pytest.fixture
def reader() -> object:
    from pdl_ocr import Reader

    return Reader(session("det"), session("rec"), session("cls"))


@pytest.fixture
def scan(tmp_path: Path) -> Path:
    """A TIFF of three pages with these texts."""
    pages = []
    for rows in TEXTS:
        pages.append(np.full((600, 800, 3), 255, np.uint8))
        for number, row in enumerate(rows):
            part = bars(row)
            pages[-1][100 + 200 * number :, 60:][: part.shape[0], : part.shape[1]] = part[:, :, ::-1]
    path = tmp_path / "scan.tif"
    assert cv2.imwritemulti(str(path), pages)
    return path


def saved(reader: object, scan: Path, form: str) -> Path:
    found = predict(reader, [str(scan)], save=scan.parent / "out", form=form)
    (path,) = {each["saved"] for each in found}
    return Path(path)


def test_text_markdown_and_json(reader, scan: Path) -> None:
    assert saved(reader, scan, "txt").read_text().split("\f") == ["abc\n", "cab\n\nbb\n", "\n"]
    assert saved(reader, scan, "md").read_text().split() == ["abc", "cab", "bb"]
    pages = json.loads(saved(reader, scan, "json").read_text())
    assert [page["input"] for page in pages] == [f"{scan}#{number}" for number in (1, 2, 3)]
    assert [[line["text"] for line in page["lines"]] for page in pages] == TEXTS
    assert [line["block"] for line in pages[1]["lines"]] == [0, 1]


@pytest.mark.parametrize("form", ["hocr", "alto"])
def test_xml_has_all_pages(reader, scan: Path, form: str) -> None:
    path = saved(reader, scan, form)
    said = [each.get("CONTENT") or each.text for each in ElementTree.parse(path).iter()
            if each.get("class") == "ocrx_word" or each.get("CONTENT")]  # fmt: skip
    assert said == [text for texts in TEXTS for text in texts]


def test_a_pdf_has_all_pages(reader, scan: Path) -> None:
    pdfium = pytest.importorskip("pypdfium2")
    document = pdfium.PdfDocument(saved(reader, scan, "pdf"))
    assert [page.get_textpage().get_text_range().split() for page in document] == TEXTS
    again = predict(reader, [str(scan.parent / "out" / "scan.pdf")])
    assert [[line["text"] for line in page["lines"]] for page in again] == TEXTS


def test_pages_of_a_pdf_are_drawn_as_the_option_says(reader, scan: Path) -> None:
    pytest.importorskip("pypdfium2")
    path = str(saved(reader, scan, "pdf"))
    sizes = {
        dpi: [
            each.answer.value["width"]
            for each in predict_words(reader, [path], {} if dpi is None else {"--dpi": [dpi]})
        ]
        for dpi in (None, "100")
    }
    assert sizes == {None: [800] * 3, "100": [400] * 3}
    for wrong in ("0", "x", "9999"):
        with pytest.raises(UsageError, match=f"--dpi {wrong}: expected a whole number from 20 to 1200"):
            list(predict_words(reader, [path], {"--dpi": [wrong]}))


def test_what_the_command_line_offers(reader) -> None:
    pipeline = pipeline_of(reader)
    assert [flag.name for flag in options_of(pipeline)] == ["--dpi"]
    assert [form.name for form in pipeline.forms] == ["pdf", "hocr", "alto", "md", "csv", "txt", "json"]
    assert pipeline.input.batch_size == 1
