"""The forms that `pdl predict --save DIR --format NAME` writes pages in."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from functools import partial
from typing import Any, BinaryIO

from pdl.runtime import images
from pdl.runtime.documents import DPI
from pdl.runtime.steps.outputs import Form
from pdl_ocr.documents import alto, hocr, markdown
from pdl_ocr.documents.pdf import PdfWriter
from pdl_ocr.tables import tables


class Texts:
    """Writes texts of pages into an open file, `between` them, a head before the first and a tail behind the last.

    page   the text of a prediction that is the n-th page
    """

    def __init__(
        self, file: BinaryIO, page: Callable[[Any, int], str], head: str = "", between: str = "", tail: str = ""
    ) -> None:
        self.file, self.page, self.between, self.tail, self.count = file, page, between, tail, 0
        self._write(head)

    def add(self, prediction: Any) -> None:
        """The next page."""
        self.count += 1
        number = self.count if prediction.page is None else prediction.page.number
        self._write((self.between if self.count > 1 else "") + self.page(prediction, number))

    def close(self) -> None:
        """Finish the document."""
        self._write(self.tail)

    def _write(self, text: str) -> None:
        self.file.write(text.encode("utf-8", "replace"))


class Searchable:
    """Writes predictions as the pages of a searchable PDF."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self.writer = PdfWriter(file, name)

    def add(self, prediction: Any) -> None:
        """The next page."""
        dpi = DPI if prediction.page is None else prediction.page.dpi
        self.writer.add(images.read(prediction.item, "rgb"), prediction.answer.value, dpi)

    def close(self) -> None:
        """Finish the document."""
        self.writer.close()


def _text(file: BinaryIO, name: str) -> Texts:
    return Texts(file, lambda each, number: markdown.to_text(each.answer.value), between="\f")


def _markdown(file: BinaryIO, name: str) -> Texts:
    return Texts(file, lambda each, number: markdown.to_markdown(each.answer.value), between="\n")


def _json(file: BinaryIO, name: str) -> Texts:
    return Texts(file, lambda each, number: json.dumps(each.to_dict(), ensure_ascii=False), "[\n", ",\n", "\n]\n")


def _tables(file: BinaryIO, name: str) -> Texts:
    return Texts(file, lambda each, number: _tables_of(each))


def _tables_of(prediction: Any) -> str:
    """The tables of a page, an empty line behind each."""
    made = io.StringIO(newline="")
    for table in tables(prediction.answer.value, images.read(prediction.item, "rgb")):
        csv.writer(made).writerows([*table, []])
    return made.getvalue()


def _hocr(file: BinaryIO, name: str) -> Texts:
    return Texts(file, partial(_hocr_page, name), hocr.head(name), tail=hocr.TAIL)


def _hocr_page(name: str, prediction: Any, number: int) -> str:
    dpi = None if prediction.page is None else prediction.page.dpi
    return hocr.page(prediction.answer.value, number, name, dpi)


def _alto(file: BinaryIO, name: str) -> Texts:
    return Texts(file, lambda each, number: alto.page(each.answer.value, number), alto.head(name), tail=alto.TAIL)


FORMS = (
    Form("pdf", ".pdf", "searchable PDF: the images, with text to find and copy", Searchable),
    Form("hocr", ".hocr", "hOCR 1.2: XHTML with the place of every word", _hocr),
    Form("alto", ".xml", "ALTO 4.4: XML with the place of every word", _alto),
    Form("md", ".md", "Markdown: headings, paragraphs, lists", _markdown),
    Form("csv", ".csv", "the tables, ruled or not, an empty line behind each", _tables),
    Form("txt", ".txt", "plain text, pages apart by form feeds", _text),
    Form("json", ".json", "the answers, a list with an object for each page", _json),
)
