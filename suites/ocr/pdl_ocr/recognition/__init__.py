"""Text recognition: what a line of text says."""

from pdl_ocr.recognition.task import TextRecognition

__all__ = ["TextRecognition"]
