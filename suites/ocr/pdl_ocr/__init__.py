"""pdl-ocr: text in pictures. Its models are used by name: `pdl predict ocr/ppocr_v4_rec line.png`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pdl.lazy import names_of

if TYPE_CHECKING:
    from pdl_ocr.api import *

__version__ = "0.1.0"

MOVED: dict[str, str] = {}
"""Import paths that moved: {"pdl_ocr.OldName": "pdl_ocr.NewName"}; recipes with the old ones keep working."""

__getattr__, __dir__ = names_of("pdl_ocr.api")
