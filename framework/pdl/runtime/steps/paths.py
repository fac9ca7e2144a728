"""The files that a path on the command line stands for."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from pathlib import Path

from pdl.errors import DataError


def files_of(name: str, extensions: Sequence[str], what: str) -> list[Path]:
    """The file itself, all files with these extensions in a folder at any depth, or those of a pattern, sorted;
    DataError where there are none of `what` they are ("images")."""
    path = Path(name).expanduser()
    if path.is_file():
        return [path]
    if path.is_dir():
        found = sorted(p for p in path.rglob("*") if p.suffix.lower() in extensions and p.is_file())
        where = f"in this folder are no {what} ({', '.join(extensions)})"
    else:
        found = sorted(Path(p) for p in glob.glob(str(path), recursive=True) if Path(p).is_file())
        where = "no file matches this pattern" if glob.has_magic(name) else "no such file"
    if not found:
        raise DataError(f"{name}: {where}")
    return found
