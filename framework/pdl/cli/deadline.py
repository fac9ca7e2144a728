"""Deadlines of commands that read files of strangers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer

from pdl.cli import style
from pdl.errors import TimeLimitError
from pdl.limits import late, limited, require_seconds

GRACE = 5.0
"""Seconds that one step may go on beyond the deadline."""


@contextmanager
def ends_within(what: str, seconds: float) -> Iterator[None]:
    """TimeLimitError where the block takes longer than so many seconds, at its next step (`pdl.limits`). A step that
    does not end by itself, such as a product of huge arrays, ends the process, with the same line and exit code."""
    require_seconds(seconds)
    timer = Timer(seconds + GRACE, _end, (what, seconds))
    timer.daemon = True
    timer.start()
    try:
        with limited(what, seconds=seconds):
            yield
    finally:
        timer.cancel()


def _end(what: str, seconds: float) -> None:
    style.error(late(what, seconds))
    os._exit(TimeLimitError.exit_code)
