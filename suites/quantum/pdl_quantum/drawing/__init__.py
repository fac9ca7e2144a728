"""Drawings: circuits in characters (`text`, also `print(circuit)`) and as images (`svg`); counts as columns
(`histogram`).

`layout` says where each gate stands, `labels` what is written on it.
"""

from pdl_quantum.drawing.histogram import histogram
from pdl_quantum.drawing.svg import svg
from pdl_quantum.drawing.text import text
