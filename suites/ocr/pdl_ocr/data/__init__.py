"""Data sets of lines of text: samples {"image": uint8 [H, W, 3], "text": str}. Each knows `texts` and `widths` without
reading its images."""

from pdl_ocr.data.lines import TextLines
from pdl_ocr.data.synthetic import SyntheticLines

__all__ = ["SyntheticLines", "TextLines"]
