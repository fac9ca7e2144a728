"""Circuits drawn: where each gate stands (`layout`), what is written on it (`labels`), and the drawing in characters
(`text`). The picture is `pdl_quantum.drawing.svg`."""

from pdl.circuits.drawing.text import text

__all__ = ["text"]
