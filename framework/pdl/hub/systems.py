"""Systems: several models of an index that answer together, such as `ocr/ppocr_v4`, which reads pages."""

from __future__ import annotations

import functools
from pathlib import Path

from pdl.errors import UsageError
from pdl.hub.entries import System
from pdl.hub.index import broken, offering
from pdl.hub.schema import FILE, read_systems
from pdl.packages import Package

__all__ = ["System", "system", "systems"]


def systems() -> dict[str, System]:
    """Every system by its full name; those of an index with faults are left out (see `hub.broken`)."""
    faulty = broken()
    found: dict[str, System] = {}
    for package in offering():
        if package.name not in faulty:
            found |= _read(package, (package.folder / FILE).stat().st_mtime_ns)
    return found


def system(name: str | Path) -> System | None:
    """The system of a full name, or of a short one that only one package has; None where there is none."""
    known, wanted = systems(), str(name)
    if wanted in known:
        return known[wanted]
    alike = [each for each in known.values() if each.short == wanted]
    if len(alike) > 1:
        raise UsageError(f"{wanted!r} is in several packages; write {' or '.join(each.name for each in alike)}")
    return alike[0] if alike else None


@functools.lru_cache(maxsize=64)
def _read(package: Package, changed: int) -> dict[str, System]:
    """One file, read again when it changes."""
    return read_systems(package)
