"""Data sets of lines of text, samples {"image": uint8 [H, W, 3], "text": str}, each of which knows `texts` and `widths`
without reading its images; and of pages with where their lines are; both also drawn, from fonts and words. Of pages
with what their lines say and the values of their fields, too."""

from pdl_ocr.data.fields import PageFields
from pdl_ocr.data.lines import TextLines
from pdl_ocr.data.pages import TextPages
from pdl_ocr.data.synthetic import SyntheticLines
from pdl_ocr.data.synthetic_pages import SyntheticPages
from pdl_ocr.data.turned import TurnedLines

__all__ = ["PageFields", "SyntheticLines", "SyntheticPages", "TextLines", "TextPages", "TurnedLines"]
