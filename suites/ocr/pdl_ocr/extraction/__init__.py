"""Key information extraction: what a page says of its fields."""

from pdl_ocr.extraction.task import InformationExtraction

__all__ = ["InformationExtraction"]
