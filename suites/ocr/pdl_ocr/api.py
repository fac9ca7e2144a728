"""The names of pdl_ocr: `pdl_ocr` has them all, and imports this module when the first is asked for."""

from __future__ import annotations

from pdl_ocr.reading import Reader

__all__ = ["Reader"]
