"""The folder of fetched files: <sha256>/<file>, the layout of mirrors too. A file appears in it whole or not at all."""

from __future__ import annotations

import errno
import hashlib
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO

from pdl.errors import DataError
from pdl.files import cache_root, locked
from pdl.hub.entries import Entry

PART = ".part"  # what the name of a file ends with until all of it is there
ABSENT = "not there"
CHUNK = 1 << 16
BUILT = "built"  # the folder of bundles that were made here of fetched files
_LOCK = ".lock"


def cache_dir() -> Path:
    """Where fetched files are kept: the folder hub of `pdl.files.cache_root()`."""
    return cache_root() / "hub"


def place(folder: Path, entry: Entry) -> Path:
    """The path of a file in a cache, or in a mirror that is a folder."""
    return folder / entry.sha256 / entry.file


def fault(path: Path, entry: Entry) -> str | None:
    """What is wrong with a file that should be the published one, or None. The whole file is read, every time."""
    try:
        size = path.stat().st_size
        if not path.is_file():
            return "is no file"
        if size != entry.bytes:
            return f"has {size} bytes, the published file {entry.bytes}"
        digest = sha256(path)
    except (FileNotFoundError, NotADirectoryError):
        return ABSENT
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    if digest != entry.sha256:
        return f"has sha256 {digest}, the published file {entry.sha256}"
    return None


def sha256(path: Path) -> str:
    """64 hex digits of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def publish(part: Path, target: Path, entry: Entry) -> str | None:
    """Give a complete partial file its name, if it is the published one; else remove it and say what is wrong."""
    problem = fault(part, entry)
    with writing(target, entry.bytes):
        if problem:
            part.unlink(missing_ok=True)
        else:
            part.replace(target)
    return problem


def copy(source: IO[bytes], part: Path, entry: Entry) -> None:
    """A stream into a new partial file; not more of it than the published file has."""
    with writing(part, entry.bytes):
        file = part.open("wb", buffering=0)
    with file:
        left = entry.bytes
        while left and (chunk := source.read(min(CHUNK, left))):
            left -= len(chunk)
            write(file, chunk, part, entry)


def write(file: IO[bytes], data: bytes, part: Path, entry: Entry) -> None:
    """All of `data` to an unbuffered file, which may take only some of it at a time: the last bytes of a disk, say."""
    view = memoryview(data)
    with writing(part, entry.bytes):
        while view:
            view = view[file.write(view) :]


class CannotWrite(DataError):
    """The folder takes no file, so no other source would help."""


@contextmanager
def writing(path: Path, size: int) -> Iterator[None]:
    """Explains what goes wrong with the disk inside."""
    try:
        yield
    except OSError as error:
        raise CannotWrite(_explained(path, size, error)) from error


def _explained(path: Path, size: int, error: OSError) -> str:
    said = f"{error.filename or path}: cannot be written: {error.strerror or error}"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        free = ""
        with suppress(OSError):
            free = f", {shutil.disk_usage(path.parent).free / 1e6:.1f} MB are free there"
        needed = f"{size / 1e6:.1f} MB are needed{free}"
        return f"{said}; {needed}; make room, or choose another disk (PDL_CACHE is for the cache)"
    return f"{said}; choose a folder that you may write to (PDL_CACHE is for the cache)"


@contextmanager
def lock(folder: Path, key: str, name: str, waiting: Callable[[str], None]) -> Iterator[None]:
    """One at a time, of all processes and threads, makes what lies under a key. The system frees the lock of a process
    that died. `waiting` is told, once, if somebody else is at it.
    """
    path = folder / f"{key}{_LOCK}"
    announced: list[str] = []

    def tell() -> None:  # a lock that is won may be of a file that is gone, so one may wait several times
        if not announced:
            announced.append(f"{name}: another process is fetching it; waiting")
            waiting(announced[0])

    with ExitStack() as held:
        with writing(path, 0):
            held.enter_context(locked(path, tell))
        yield
