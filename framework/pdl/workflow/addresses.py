"""Inputs of a model that are addresses: an image, or a file of many inputs, fetched within limits."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from pdl.hub import web
from pdl.hub.fetch import Patience
from pdl.runtime.steps import InputStep
from pdl.runtime.steps.inputs import Input
from pdl.runtime.tables import names_many

MOST = 64 << 20
"""Bytes of an input."""
SECONDS = 60.0
"""That one may take."""


def is_address(word: str, step: InputStep) -> bool:
    """Whether a word of the command line is the http or https address of something that this model reads: the content
    of a file, or a file of many inputs. (For other models it is a text.)"""
    address = word.lower().startswith(("http://", "https://"))
    return address and (step.takes_content or names_many(_name(word)))


def fetched(word: str, step: InputStep, folder: Path) -> Any:
    """What to give `predict` for an address; a file of many inputs is put into the folder. DataError where it cannot be
    had within `MOST` bytes and `SECONDS`, UsageError with PDL_OFFLINE."""
    data = web.content(word, MOST, patience=Patience(stall=10.0, attempts=2), deadline=SECONDS)
    name = _name(word)
    if not names_many(name):
        return Input(word, data)
    path = folder / f"{len(list(folder.iterdir()))}-{name}"
    path.write_bytes(data)
    return path


def _name(url: str) -> str:
    """The name of the file that an address leads to."""
    return PurePosixPath(unquote(urlsplit(url).path)).name
