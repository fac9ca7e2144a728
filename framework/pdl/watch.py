"""How the hub makes itself known while it fetches: silent but for warnings; the command line puts its own ways here."""

from __future__ import annotations

import warnings
from collections.abc import Callable


def _silent(name: str, done: int, total: int) -> None:
    """Nothing."""


def _warn(line: str) -> None:
    warnings.warn(line, RuntimeWarning, stacklevel=3)


progress: Callable[[str, int, int], None] = _silent
"""Called with the name that is fetched, the bytes that are there, and those of the whole file."""

note: Callable[[str], None] = _warn
"""Called with a sentence: a source that had to be passed over although another one helped, a damaged file."""
