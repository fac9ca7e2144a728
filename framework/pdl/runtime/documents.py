"""Pages of documents, one at a time: PDF files through pypdfium2, TIFF files of several pages through OpenCV."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from pdl.dtype import Array
from pdl.errors import DataError, UsageError
from pdl.files import open_file, read_bytes
from pdl.runtime import headers
from pdl.runtime.images import opencv

DPI = 200  # of pages of a PDF, and of images that do not say theirs
DPIS = (20, 1200)
MOST_PIXELS = 40_000_000  # of a page of a PDF, nearly A2 at 300 dpi
AT_ONCE = 32  # pages after which a PDF is opened anew: PDFium keeps what it has read of it
PDF = ".pdf"
TIFFS = (".tif", ".tiff")
_SIGN = b"%PDF-"
_HEAD = 1024  # bytes in which the sign of a PDF may begin (ISO 32000-1, annex H, note 13)

_lock = Lock()
"""PDFium keeps state of its own, and runs in one thread at a time."""


@dataclass(frozen=True)
class Page:
    """What an image is a page of: the name of the document, its number from 1 on, and pixels an inch."""

    document: str
    number: int
    dpi: float = DPI

    @property
    def name(self) -> str:
        """Of its answer: scan.pdf#1."""
        return f"{self.document}#{self.number}"


def is_document(content: str | Path | bytes) -> bool:
    """Whether it is the content or the name of a PDF, or of a TIFF of several pages. DataError for a TIFF that cannot
    be read."""
    if isinstance(content, bytes):
        return _SIGN in content[:_HEAD] or headers.tiff_pages(content) > 1
    suffix = Path(content).suffix.lower()
    return suffix == PDF or (suffix in TIFFS and headers.tiff_pages(_read(str(content), content)) > 1)


def pages(content: str | Path | bytes, name: str, dpi: int = DPI) -> Iterator[tuple[Page, Array]]:
    """(page, image uint8 [H, W, 3] RGB) of each page of a document, drawn or decoded when it is taken.

    content  a path, or the bytes of a file
    dpi      at which pages of a PDF are drawn; one that would have more than `MOST_PIXELS` is drawn at as many as give
             that. A TIFF has its own pixels.

    UsageError where what reads it is not installed; DataError for a document that is damaged, locked, or has no pages.
    """
    if not DPIS[0] <= dpi <= DPIS[1]:
        raise UsageError(f"dpi={dpi} must be from {DPIS[0]} to {DPIS[1]}")
    is_pdf = _SIGN in content[:_HEAD] if isinstance(content, bytes) else Path(content).suffix.lower() == PDF
    return _pdf(content, name, dpi) if is_pdf else _tiff(_read(name, content), name)


def _read(name: str, content: str | Path | bytes) -> bytes:
    try:
        return content if isinstance(content, bytes) else read_bytes(Path(content).expanduser())
    except OSError as error:
        raise DataError(f"{name}: cannot be read ({error.strerror}); name a document") from None


# -- PDF ---------------------------------------------------------------------------------------------------------------
def _pdf(content: str | Path | bytes, name: str, dpi: int) -> Iterator[tuple[Page, Array]]:
    pdfium = _pypdfium2(name)
    with _opened(content, name) as file:
        begin, count = 0, 1
        while begin < count:
            with _loaded(pdfium, file, name) as document:
                count = len(document)
                if count == 0:
                    raise DataError(f"{name}: a PDF without pages; give one that has some")
                for number in range(begin, min(begin + AT_ONCE, count)):
                    yield _drawn(pdfium, document, name, number, dpi)
            begin += AT_ONCE


def _pypdfium2(name: str) -> Any:
    try:
        import pypdfium2
    except ImportError:
        raise UsageError(
            f"{name}: pages of PDF files are drawn by pypdfium2, which is not installed; pip install 'pdl-core[pdf]'"
        ) from None
    return pypdfium2


@contextmanager
def _opened(content: str | Path | bytes, name: str) -> Iterator[Any]:
    """An open file, of which PDFium reads what it needs."""
    if isinstance(content, bytes):
        yield io.BytesIO(content)
        return
    try:
        file = open_file(Path(content).expanduser())
    except OSError as error:
        raise DataError(f"{name}: cannot be read ({error.strerror}); name a document") from None
    with file:
        yield file


@contextmanager
def _loaded(pdfium: Any, file: Any, name: str) -> Iterator[Any]:
    with _lock:
        try:
            document = pdfium.PdfDocument(file)
            if document.get_formtype():
                document.init_forms()  # what was filled in is drawn, too
        except pdfium.PdfiumError as error:
            if error.err_code == pdfium.raw.FPDF_ERR_PASSWORD:
                raise DataError(f"{name}: a PDF that asks for a password; save it without one") from None
            raise DataError(f"{name}: not a PDF that can be read ({error}); give a whole one") from None
    try:
        yield document
    finally:
        with _lock:
            document.close()


def _drawn(pdfium: Any, document: Any, name: str, number: int, dpi: int) -> tuple[Page, Array]:
    with _lock:
        try:
            page = document[number]
            width, height = page.get_size()
            area = width * height / 72**2
            if not (area > 0 and math.isfinite(area)):
                raise DataError(f"{name}#{number + 1}: a page of {width:g} x {height:g} points; it cannot be drawn")
            real = min(dpi, math.sqrt(MOST_PIXELS / area))
            with closing(page.render(scale=real / 72, rev_byteorder=True, prefer_bgrx=False)) as bitmap:
                image: Array = np.array(bitmap.to_numpy()[:, :, :3])
            page.close()
        except pdfium.PdfiumError as error:
            raise DataError(f"{name}#{number + 1}: the page cannot be drawn ({error}); save the PDF again") from None
    return Page(name, number + 1, real), image


# -- TIFF --------------------------------------------------------------------------------------------------------------
def _tiff(data: bytes, name: str) -> Iterator[tuple[Page, Array]]:
    cv2 = opencv(f"{name}: images in files are decoded")
    if damage := headers.trouble(data):
        raise DataError(f"{name}: {damage}; give a whole image")
    content = np.frombuffer(data, np.uint8)
    for number in range(headers.tiff_pages(data)):
        page = Page(name, number + 1)
        try:
            there, images = cv2.imdecodemulti(content, cv2.IMREAD_COLOR, None, (number, number + 1))
        except cv2.error as error:
            raise DataError(f"{page.name}: cannot be decoded ({error.err or error}); give a whole image") from None
        if not there or len(images) != 1:
            raise DataError(f"{page.name}: not a page that can be decoded; give a whole image")
        yield page, cv2.cvtColor(images[0], cv2.COLOR_BGR2RGB)
