"""Data sets."""

from pdl_newsuite.data.dots import Dots

__all__ = ["Dots"]
