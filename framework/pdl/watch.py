"""Receivers of progress and warnings, such as those of downloads; the command line sets them."""

from __future__ import annotations

import warnings
from collections.abc import Callable


def _silent(name: str, done: int, total: int) -> None:
    """Nothing."""


def _warn(line: str) -> None:
    warnings.warn(line, RuntimeWarning, stacklevel=3)


progress: Callable[[str, int, int], None] = _silent
"""Called with the name of a file, the bytes read so far, and those of the whole file."""

steps: Callable[[str, int, int], None] = _silent
"""Called with what is being done, how many steps of it are, and how many there are."""

note: Callable[[str], None] = _warn
"""Called with a warning: a source that failed although another one worked, a damaged file."""
