"""Files that appear whole or not at all: a kill or a power cut at any moment leaves the old content or the new one."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """A path beside `path` to write to; at the end of the block that file, flushed to the disk, takes its place.

    Where the block raises, the file is removed and `path` stays as it was. The name ends as that of `path` does.
    """
    target = Path(path)
    part = target.with_name(f".{os.getpid()}.{secrets.token_hex(4)}.{target.name}")
    try:
        yield part
        with part.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(part, target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    _sync_folder(target.parent)


def write_atomic(path: str | Path, data: bytes | str | Iterable[bytes | memoryview]) -> None:
    """Put `data` (text as UTF-8), or its pieces, at `path`; see `replacing`."""
    pieces = [data.encode()] if isinstance(data, str) else [data] if isinstance(data, bytes) else data
    with replacing(path) as part, part.open("wb") as file:
        for piece in pieces:
            file.write(piece)


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


__all__ = ["is_part", "replacing", "write_atomic"]
