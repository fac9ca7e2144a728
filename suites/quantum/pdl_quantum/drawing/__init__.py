"""Drawings: circuits in characters (`text`, also `print(circuit)`) and as pictures (`svg`)."""

from pdl.circuits.drawing import text
from pdl_quantum.drawing.svg import svg

__all__ = ["svg", "text"]
