"""pdl-ocr: text in pictures. Models of others are used by name (`pdl predict ocr/ppocr_v4_rec line.png`); recipes
name its parts as `pdl_ocr.TextRecognition`, `pdl_ocr.DB`, `pdl_ocr.data.TextLines`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pdl.lazy import names_of

if TYPE_CHECKING:
    from pdl_ocr.api import *

__version__ = "0.1.0"

MOVED: dict[str, str] = {}
"""Import paths that moved: {"pdl_ocr.OldName": "pdl_ocr.NewName"}; recipes with the old ones keep working."""

INIT = {task: f"pdl_ocr.{task}.init:write_recipe" for task in ("detection", "extraction", "recognition")}
"""What `pdl init ocr.<task>` calls."""

__getattr__, __dir__ = names_of("pdl_ocr.api")
