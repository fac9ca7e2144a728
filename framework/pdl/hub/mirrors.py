"""Mirrors: folders or addresses with files as in the cache, <sha256>/<file>. PDL_HUB names those to look into."""

from __future__ import annotations

import os
import re
from pathlib import Path

from pdl.hub.cache import place
from pdl.hub.entries import Entry

_MORE = re.compile(r"(\d+|[^/@]*@[^/]*)(/.*)?")  # of an address, behind a colon: a port, or a password


def folders() -> list[Path]:
    """The folders in PDL_HUB."""
    return [Path(each).expanduser() for each in named() if not is_address(each)]


def addresses() -> list[str]:
    """The addresses in PDL_HUB."""
    return [each.rstrip("/") for each in named() if is_address(each)]


def named() -> list[str]:
    """What PDL_HUB names: folders and http(s) addresses (https://name:password@host/path where the server wants to know
    who asks), separated like the folders of PATH.
    """
    found: list[str] = []
    for piece in os.environ.get("PDL_HUB", "").split(os.pathsep):
        before = found[-1] if found else ""
        path = before.lower() in ("http", "https") and piece.startswith("//")
        more = is_address(before) and before.count("/") == 2 and _MORE.fullmatch(piece)
        if path or more:  # where folders are separated by colons, those of an address are none
            found[-1] += f":{piece}"
        else:
            found.append(piece)
    return [piece.strip() for piece in found if piece.strip()]


def is_address(text: str) -> bool:
    """http://... or https://..., and no folder."""
    return text.lower().startswith(("http://", "https://"))


def candidates(folder: Path, entry: Entry) -> list[Path]:
    """Where a folder may have a file: as in the cache, or put there by hand."""
    return [place(folder, entry), folder / entry.file]


def shown(url: str) -> str:
    """An address for messages, without name and password."""
    scheme, slashes, rest = url.partition("//")
    host, slash, path = rest.partition("/")
    return f"{scheme}{slashes}{host.rpartition('@')[2]}{slash}{path}"


def address(base: str, entry: Entry) -> str:
    """Where an address has a file."""
    return f"{base}/{entry.sha256}/{entry.file}"
