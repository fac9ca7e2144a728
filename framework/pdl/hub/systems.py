"""Systems: several models of an index that answer together, such as `ocr/ppocr_v4`, which reads pages."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pdl import suites
from pdl.config.signature import TARGET
from pdl.errors import ConfigError, UsageError
from pdl.hub.entries import System
from pdl.hub.index import broken, incompatible, offering
from pdl.hub.schema import FILE, read_systems
from pdl.packages import Package

__all__ = ["System", "opened", "system", "systems"]


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


def opened(system: System, **options: Any) -> Any:
    """The predictor of a system, with a session for each part (fetched and built on first use); it has `batch`.

    options   those of `pdl.runtime.load`, for every part
    """
    from pdl.hub.build import bundle
    from pdl.runtime import load

    problem = incompatible(system)
    if problem:
        raise UsageError(problem)
    make = suites.locate(system.predictor[TARGET])
    arguments = {key: value for key, value in system.predictor.items() if key != TARGET}
    _demand_arguments(system, make, {**arguments, **system.parts})
    return make(**{argument: load(bundle(part), **options) for argument, part in system.parts.items()}, **arguments)


def _demand_arguments(system: System, make: Any, given: Mapping[str, Any]) -> None:
    """Before anything is fetched: the predictor takes what the index gives it."""
    try:
        inspect.signature(make).bind(**given)
    except TypeError as error:
        raise ConfigError(f"{system.origin_line}: {system.name}: {system.predictor[TARGET]}: {error}") from None


@functools.lru_cache(maxsize=64)
def _read(package: Package, changed: int) -> dict[str, System]:
    """One file, read again when it changes."""
    return read_systems(package)
