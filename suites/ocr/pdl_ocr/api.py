"""The names of pdl_ocr: `pdl_ocr` exports all of them and imports this module on first use."""

from __future__ import annotations

from pdl_ocr.reading import Reader

__all__ = ["Reader"]
