"""Drawings: circuits in characters (`text`, also `print(circuit)`) and as pictures (`svg`); counts as columns
(`histogram`)."""

from pdl.circuits.drawing import text
from pdl_quantum.drawing.histogram import histogram
from pdl_quantum.drawing.svg import svg

__all__ = ["histogram", "svg", "text"]
