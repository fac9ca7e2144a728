"""Answers for pages as documents: text, Markdown, JSON, hOCR, ALTO and searchable PDF. Light modules, as those of steps
are: they need NumPy, `pdl.runtime`, and OpenCV to pack the images of a PDF.

A page is an answer of `pdl_ocr.Reader`: {"lines": [{"text", "score", "polygon", ...}], "width", "height"}. Lines that
do not say their block, paragraph and row are put in order first.
"""

from pdl_ocr.documents.alto import to_alto
from pdl_ocr.documents.hocr import to_hocr
from pdl_ocr.documents.markdown import to_markdown, to_text
from pdl_ocr.documents.pdf import PdfWriter

__all__ = ["PdfWriter", "to_alto", "to_hocr", "to_markdown", "to_text"]
