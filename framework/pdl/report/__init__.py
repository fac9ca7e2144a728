"""Reports: one static HTML file, with charts as SVG and embedded images. It requests nothing; its only script, which
copies commands, is named by its hash in a policy that forbids all others."""

from pdl.report.card import Card
from pdl.report.chart import line_chart
from pdl.report.classes import class_sections
from pdl.report.curves import curve_sections, detection_sections, number_sections
from pdl.report.page import (
    Cell,
    Image,
    Section,
    charts,
    command,
    document,
    escape,
    facts,
    figure,
    figure_grid,
    folded,
    heat_table,
    image_table,
    number,
    picture,
    png,
    table,
)
from pdl.report.plots import bar_chart, named_bars, scatter_chart

__all__ = [
    "Card", "Cell", "Image", "Section", "bar_chart", "charts", "class_sections", "command", "curve_sections",
    "detection_sections", "document", "escape", "facts", "figure", "figure_grid", "folded", "heat_table", "image_table",
    "line_chart", "named_bars", "number", "number_sections", "picture", "png", "scatter_chart", "table",
]  # fmt: skip
