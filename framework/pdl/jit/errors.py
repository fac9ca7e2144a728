"""What jit says of code that a program cannot hold: file, line, the line itself and the reason."""

from __future__ import annotations

import linecache
from typing import NamedTuple

from pdl.errors import TraceError


class Place(NamedTuple):
    """A line of the user's code."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"

    @property
    def text(self) -> str:
        """The source line, without its indentation; empty where the file cannot be read."""
        return linecache.getline(self.file, self.line).strip()


class ConversionError(TraceError):
    """Code that `to_static` refuses, with the place and the reason."""

    def __init__(self, reason: str, place: Place) -> None:
        super().__init__(f"{reason}\n    {place.text}" if place.text else reason, str(place))
