"""Reports: one static HTML file, with charts as SVG and embedded images; no scripts, no requests."""

from pdl.report.card import Card
from pdl.report.chart import line_chart
from pdl.report.classes import class_sections
from pdl.report.page import Section, document, escape, figure_grid, heat_table, picture, png, table

__all__ = [
    "Card", "Section", "class_sections", "document", "escape", "figure_grid", "heat_table", "line_chart", "picture",
    "png", "table",
]  # fmt: skip
