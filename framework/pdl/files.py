"""Files that appear whole or not at all: a kill or a power cut at any moment leaves the old content or the new one.

And files that somebody names, which are opened here: a pipe that nobody writes to or a device without an end is an
error at once, and a file larger than what reads it can take is one before it is read.
"""

from __future__ import annotations

import bz2
import errno
import gzip
import io
import lzma
import mmap
import os
import secrets
import stat
import sys
import tarfile
import threading
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

MOST = 1 << 30
"""Bytes of a file that is read as a whole, unless its reader says less."""

MOST_TEXT = 64 << 20
"""Bytes of a file of text that is read as a whole."""

DAMAGED = (
    zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, gzip.BadGzipFile, EOFError, KeyError,
    NotImplementedError, RuntimeError,
)  # fmt: skip
"""What readers of archives and of packed files raise for those that are damaged, encrypted or packed another way."""

PACKED = (".gz", ".bz2", ".xz")
"""Ends of the names of packed files, which are read as what is in them."""

MEMORY = 192 << 20
"""Bytes that the window of an .xz file may take: `xz -9` takes 64 MiB, and a file may ask for gigabytes."""

_BLOCK, _MAGIC = 1 << 16, b"\xfd7zXZ\0"
_READ = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)
_KINDS = {
    stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device",
}  # fmt: skip


_thread = threading.local()


@contextmanager
def sealed(but: str | Path | None = None) -> Iterator[None]:
    """Inside the block this thread opens no file that is named here, but those of the folder `but`: whoever asks a
    server names no files of its machine."""
    before = getattr(_thread, "sealed", None)
    _thread.sealed = os.path.realpath(but) + os.sep if but is not None else "\0"
    try:
        yield
    finally:
        _thread.sealed = before


def open_file(path: str | Path, most: int | None = None) -> io.BufferedReader:
    """A regular file open for reading, of at most `most` bytes (None: of any size).

    Whatever is wrong is an OSError whose `strerror` says it: no such file, a folder, a pipe, socket or device or a
    link to one, too many bytes, a path with a zero byte.
    """
    _regular(path, most)
    descriptor = os.open(path, _READ)
    try:
        _regular(descriptor, most, path)  # it may be another one by now
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def _regular(file: str | Path | int, most: int | None, path: str | Path = "") -> None:
    path = path if isinstance(file, int) else file
    within = getattr(_thread, "sealed", None)
    if within is not None and not (isinstance(file, int) or os.path.realpath(file).startswith(within)):
        raise OSError(errno.EACCES, "a name of a file where its content belongs", str(path))
    try:
        found = os.stat(file)
    except ValueError:
        raise OSError(errno.EINVAL, "a path with a zero byte", str(path).replace("\0", "\\0")) from None
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(found.st_mode):
        kind = _KINDS.get(stat.S_IFMT(found.st_mode), "something else")
        raise OSError(errno.EINVAL, f"{kind}, not a regular file", str(path))
    if most is not None and found.st_size > most:
        raise OSError(errno.EINVAL, f"{found.st_size} bytes, more than the limit of {most}", str(path))


def read_bytes(path: str | Path, most: int | None = None) -> bytes:
    """All bytes of a file, at most `most` (None: `MOST`); OSError as `open_file` has it."""
    most = MOST if most is None else most
    with open_file(path, most) as file:
        data = file.read(os.fstat(file.fileno()).st_size + 1)
        while len(data) <= most and (more := file.read(1 << 20)):  # it grows, or its size is not known (/proc)
            data += more
    if len(data) > most:
        raise OSError(errno.EINVAL, f"more than the limit of {most} bytes", str(path))
    return data


def read_text(path: str | Path, most: int | None = None, encoding: str = "utf-8") -> str:
    """The text of a file, line ends as \\n; OSError as `open_file` has it, UnicodeDecodeError where it is no text."""
    data = read_bytes(path, MOST_TEXT if most is None else most)
    return io.TextIOWrapper(io.BytesIO(data), encoding).read()


def read_plain(path: str | Path, most: int | None = None) -> bytes:
    """As `read_bytes`, and unpacked where the name ends in .gz, .bz2 or .xz; `most` then holds for what comes out.

    A damaged file raises what `gzip`, `bz2` and `lzma` do: OSError, EOFError, zlib.error or lzma.LZMAError.
    """
    most = MOST if most is None else most
    with open_file(path) as file, unpacked(file, path) as stream:
        data = io.BytesIO()
        while data.tell() <= most and (more := stream.read(1 << 20)):
            data.write(more)
    if data.tell() > most:
        raise OSError(errno.EINVAL, f"more than the limit of {most} bytes", str(path))
    return data.getvalue()


def unpacked(file: BinaryIO, path: str | Path) -> BinaryIO:
    """An open file, read through the unpacker that the ending of its name (`PACKED`) asks for."""
    ending = Path(path).suffix.lower()
    if ending == ".gz":
        return gzip.GzipFile(fileobj=file)  # type: ignore[return-value]
    if ending == ".bz2":
        return bz2.BZ2File(file)  # type: ignore[return-value]
    return io.BufferedReader(_Xz(file), _BLOCK) if ending == ".xz" else file


def plain_name(path: str | Path) -> str:
    """A path without the ending that says how its file is packed."""
    name = str(path)
    return name[: -len(Path(name).suffix)] if Path(name).suffix.lower() in PACKED else name


class _Xz(io.RawIOBase):
    """What is in an .xz file: `lzma.LZMAFile`, which takes no limit of memory, with one."""

    def __init__(self, file: BinaryIO) -> None:
        self.file, self.decoder = file, lzma.LZMADecompressor(memlimit=MEMORY)

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        found = b""
        while not found:
            given = b""
            if self.decoder.eof:  # another stream may follow
                given = self.decoder.unused_data + self.file.read(_BLOCK)
                if not given.startswith(_MAGIC):
                    return 0
                self.decoder = lzma.LZMADecompressor(memlimit=MEMORY)
            elif self.decoder.needs_input and not (given := self.file.read(_BLOCK)):
                raise EOFError("it ends before its end mark")
            found = self.decoder.decompress(given, len(target))
        target[: len(found)] = found
        return len(found)


def map_file(path: str | Path) -> memoryview:
    """The bytes of a file, read from the disk as they are used; OSError as `open_file` has it, also for an empty one.
    """
    with open_file(path) as file:
        if not os.fstat(file.fileno()).st_size:
            raise OSError(errno.EINVAL, "the file is empty", str(path))
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """A path beside `path` to write to; at the end of the block that file, flushed to the disk, takes its place.
    Missing folders are made. What the system refuses is an OSError that names `path`.

    Where the block raises, the file is removed and `path` stays as it was. The name ends as that of `path` does.
    A device, pipe or socket, or a link to one (/dev/null, /dev/stdout), is refused: a file would take its place.
    """
    target = Path(path)
    part = target.with_name(f".{os.getpid()}.{secrets.token_hex(4)}.{target.name}")
    target.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileNotFoundError):
        _regular(target, None)
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


def cache_root() -> Path:
    """The folder of everything that pdl fetches or makes once: $PDL_CACHE, else $XDG_CACHE_HOME/pdl, else ~/.cache/pdl.
    """
    own, base = os.environ.get("PDL_CACHE"), os.environ.get("XDG_CACHE_HOME")
    return Path(own).expanduser() if own else Path(base or Path.home() / ".cache") / "pdl"


def fetched_root() -> Path:
    """The folder of the data sets that `pdl data get` fetched: data in the cache (PDL_CACHE)."""
    return cache_root() / "data"


def data_root() -> Path:
    """The folder of all data sets: the environment variable PDL_DATA, or that of those that were fetched. It is read,
    and never written to.
    """
    own = os.environ.get("PDL_DATA")
    return Path(own).expanduser() if own else fetched_root()


def under_roots(path: str | Path) -> list[Path]:
    """Where a relative path may be: below PDL_DATA, and below the folder of fetched data sets; an absolute one is only
    itself.
    """
    return list(dict.fromkeys(root / path for root in (data_root(), fetched_root())))


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
