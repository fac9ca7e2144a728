"""Files that appear whole or not at all: a kill or a power cut at any moment leaves the old content or the new one."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """A path beside `path` to write to; at the end of the block that file, flushed to the disk, takes its place.
    Missing folders are made. What the system refuses is an OSError that names `path`.

    Where the block raises, the file is removed and `path` stays as it was. The name ends as that of `path` does.
    """
    target = Path(path)
    part = target.with_name(f".{os.getpid()}.{secrets.token_hex(4)}.{target.name}")
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        yield part
        with part.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(part, target)
    except BaseException as error:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename in (None, str(part)):
            error.filename = str(target)  # the system names the part, or nothing
        raise
    _sync_folder(target.parent)


def write_atomic(path: str | Path, data: bytes | str | Iterable[bytes | memoryview]) -> None:
    """Put `data` (text as UTF-8), or its pieces, at `path`; see `replacing`."""
    pieces = [data.encode()] if isinstance(data, str) else [data] if isinstance(data, bytes) else data
    with replacing(path) as part, part.open("wb") as file:
        for piece in pieces:
            file.write(piece)


@contextmanager
def locked(path: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold the lock that the file `path` stands for, one of all processes and threads. Its folder is made if need be,
    and the file is removed at the end; the system frees the lock of a process that died.

    `waiting` is called where somebody else holds it; unless that raises, the lock is waited for.
    """
    handle = _locked(path, waiting)
    try:
        yield
    finally:
        with suppress(OSError):  # Windows keeps an open file; it does no harm
            path.unlink()
        handle.close()


def _locked(path: Path, waiting: Callable[[], None]) -> BinaryIO:
    """The lock file, open and locked. Whoever had it before removed it, so what was locked may be no file any more."""
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = path.open("ab")
        try:
            _acquire(handle, waiting)
            if path.exists() and os.path.samestat(os.fstat(handle.fileno()), path.stat()):
                return handle
        except FileNotFoundError:  # removed between the two looks at it
            pass
        except BaseException:
            handle.close()
            raise
        handle.close()


if sys.platform == "win32":
    import msvcrt
    import time

    def _acquire(handle: BinaryIO, waiting: Callable[[], None]) -> None:
        announced = False
        while True:
            try:
                handle.seek(0)
                msvcrt.locking(handle.fileno(), msvcrt.LK_NBLCK, 1)
                return
            except PermissionError:
                if not announced:
                    waiting()
                announced = True
                time.sleep(0.1)

else:
    import fcntl

    def _acquire(handle: BinaryIO, waiting: Callable[[], None]) -> None:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(handle, fcntl.LOCK_EX)


def is_part(path: Path) -> bool:
    """Whether a file is a leftover of `replacing` that was killed before its end."""
    process, token, rest = [*path.name[1:].split(".", 2), "", ""][:3] if path.name.startswith(".") else ("", "", "")
    return process.isdigit() and len(token) == 8 and bool(rest)


def _sync_folder(folder: Path) -> None:
    """Make a rename inside the folder last; systems that cannot open folders do without."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError:  # some network file systems refuse; the rename itself was atomic
        pass
    finally:
        os.close(descriptor)
