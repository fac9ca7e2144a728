"""Text detection: where lines of text are on a page."""

from pdl_ocr.detection.task import TextDetection

__all__ = ["TextDetection"]
