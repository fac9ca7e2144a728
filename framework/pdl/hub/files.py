"""From a name to a file that is surely the right one."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from pdl.errors import DataError, UsageError
from pdl.hub.index import Entry, entry, incompatible


def resolve(name: str | Path) -> Path:
    """The local file behind a name such as `cv/resnet18`; a path to a file is returned as it is.

    Looked into are the cache, the package that lists the name, and the folders in PDL_HUB; a file counts only when
    its sha256 is the published one. Opens no socket. Raises UsageError for a name nobody knows, DataError when the
    file is not there or is not the published one.
    """
    if Path(name).is_file():
        return Path(name)
    wanted = entry(str(name))
    problem = incompatible(wanted)
    if problem:
        raise UsageError(problem)
    looked = _places(wanted)
    wrong = []
    for path in (path for path in looked if path.is_file()):
        digest = sha256(path)
        if digest == wanted.sha256:
            return path
        wrong.append(f"{path} has sha256 {digest} ({path.stat().st_size} bytes)")
    raise DataError(_damaged(wanted, wrong) if wrong else _absent(wanted, looked))


def folders() -> list[Path]:
    """Where files of any name are looked for: the cache, and the folders in PDL_HUB."""
    own = [Path(part).expanduser() for part in os.environ.get("PDL_HUB", "").split(os.pathsep) if part]
    return [cache_dir(), *own]


def cache_dir() -> Path:
    """Where fetched files are kept: $XDG_CACHE_HOME/pdl/hub, by default ~/.cache/pdl/hub."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "pdl" / "hub"


def sha256(path: Path) -> str:
    """64 hex digits of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _places(entry: Entry) -> list[Path]:
    packaged = [entry.inside(source.package) for source in entry.sources if source.package]
    cache, *own = folders()
    return [cache / entry.sha256 / entry.file, *packaged, *(folder / entry.file for folder in own)]


def _damaged(entry: Entry, wrong: list[str]) -> str:
    found = "; ".join(wrong)
    want = f"sha256 {entry.sha256} ({entry.bytes} bytes)"
    advice = "the file is damaged or another version: remove or replace it"
    return f"{entry.name}: {found}, but the published file has {want}; {advice}"


def _absent(entry: Entry, looked: list[Path]) -> str:
    places = ", ".join(map(str, looked))
    what = f"{entry.file} ({entry.bytes} bytes, sha256 {entry.sha256})"
    return f"{entry.name}: {what} is not on this machine; looked for {places}; name its folder in PDL_HUB"
