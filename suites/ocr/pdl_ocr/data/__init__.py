"""Data sets of lines of text, samples {"image": uint8 [H, W, 3], "text": str}, each of which knows `texts` and `widths`
without reading its images; and of pages with where their lines are; both also drawn, from fonts and words."""

from pdl_ocr.data.lines import TextLines
from pdl_ocr.data.pages import TextPages
from pdl_ocr.data.synthetic import SyntheticLines
from pdl_ocr.data.synthetic_pages import SyntheticPages

__all__ = ["SyntheticLines", "SyntheticPages", "TextLines", "TextPages"]
