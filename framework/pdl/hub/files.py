"""From a name to a file that is surely the right one."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

from pdl import suites
from pdl.errors import DataError, UsageError
from pdl.hub.tables import Entry, Weights, index


def resolve(name: str | Path) -> Path:
    """The local file behind a name such as `cv/resnet18`; a path to a file is returned as it is.

    Folders are searched in the order of `folders`; a file counts only when its sha256 is the published one. Opens
    no socket. Raises UsageError for a name nobody knows, DataError when the file is not there or is not the
    published one.
    """
    if Path(name).is_file():
        return Path(name)
    known = index()
    entry = known.get(str(name))
    if entry is None:
        raise UsageError(_unknown(str(name), known))
    looked = [folder / entry.weights.file for folder in folders(entry.suite)]
    wrong = []
    for path in (path for path in looked if path.is_file()):
        digest = sha256(path)
        if digest == entry.weights.sha256:
            return path
        wrong.append(f"{path} has sha256 {digest} ({path.stat().st_size} bytes)")
    raise DataError(_damaged(entry, wrong) if wrong else _absent(entry, looked))


def folders(suite: suites.Suite | None = None) -> list[Path]:
    """Where weights are looked for: the folders in PDL_HUB, the cache, and `weights/` inside the suite's package."""
    own = [Path(part).expanduser() for part in os.environ.get("PDL_HUB", "").split(os.pathsep) if part]
    return [*own, cache_dir(), *([suite.folder / "weights"] if suite else [])]


def cache_dir() -> Path:
    """Where fetched weights are kept: $XDG_CACHE_HOME/pdl/hub, by default ~/.cache/pdl/hub."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "pdl" / "hub"


def sha256(path: Path) -> str:
    """64 hex digits of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _unknown(name: str, known: Iterable[str]) -> str:
    names = sorted(known)
    if not names:
        return f"{name!r}: no file of that name, and the installed suites list no weights; give the path of a file"
    hint = suites.suggest(name, names)
    return f"{name!r}: no file and no published weights of that name{hint} (known: {', '.join(names)})"


def _damaged(entry: Entry, wrong: list[str]) -> str:
    found = "; ".join(wrong)
    want = f"sha256 {entry.weights.sha256} ({entry.weights.bytes} bytes)"
    advice = "the file is damaged or another version: remove or replace it"
    return f"{entry.name}: {found}, but the published file has {want}; {advice}"


def _absent(entry: Entry, looked: list[Path]) -> str:
    weights: Weights = entry.weights
    places = ", ".join(str(path.parent) for path in looked)
    what = f"{weights.file} ({weights.bytes} bytes, sha256 {weights.sha256})"
    advice = "put it into one of these folders, or name its folder in PDL_HUB"
    return f"{entry.name}: {what} is not on this machine; looked in {places}; {advice}"
