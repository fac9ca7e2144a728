"""Data sets in other formats: suites know how they are read and written.

A suite lists the formats that it writes in `CONVERT = {"coco": "pdl_cv.data.boxes.convert:convert"}`. A converter is
called as `converter(source: Path, folder: Path, to: str, *, given: str | None, copy: bool, on_error: str) -> dict`: it
writes what is in `source`, of the format `given` (None: which it recognises), into an empty folder, and returns facts
for people, that JSON can hold: `from` and `to` in words, `classes`, `splits` (each with counts by name), `lost`, what
the new format cannot hold, and `left_out`, what is wrong with each sample that on_error="skip" left out. It raises
DataError for data that cannot be used, and UsageError for other arguments.
"""

from __future__ import annotations

import importlib
import os
import secrets
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from pdl import suites
from pdl.config.tree import shown
from pdl.errors import UsageError

Converter = Callable[..., dict[str, Any]]


def converters() -> dict[str, str]:
    """`coco` -> `module:function`, for every format that an installed suite writes; `cv.coco` where several suites have
    one of the name."""
    found: dict[str, list[tuple[str, str]]] = {}
    for suite, module in suites.modules():
        for name, where in getattr(module, "CONVERT", {}).items():
            found.setdefault(name, []).append((suite.name, where))
    several = {f"{suite}.{name}": where for name, each in found.items() for suite, where in each if len(each) > 1}
    return {name: each[0][1] for name, each in found.items() if len(each) == 1} | several


def convert(
    source: str | Path,
    folder: str | Path,
    *,
    to: str,
    given: str | None = None,
    copy: bool = False,
    on_error: Literal["error", "skip"] = "error",
) -> dict[str, Any]:
    """Write the data set in `source` in the format `to` into a new `folder`, which appears whole or not at all. Returns
    facts: what it was and is, its classes and splits, and what the new format cannot hold.

    given     the format of the source; None: it is recognised
    copy      copy images and the like; else they are linked to (hard links), which takes no space
    on_error  what a sample does whose file or annotation is broken: end it with a DataError, or be left out
    """
    place, target, known = Path(source), Path(folder), converters()
    if to not in known:
        have = ", ".join(sorted(known)) or "none; no suite is installed"
        raise UsageError(f"there is no format {to!r}{suites.suggest(to, known)} (known: {have})")
    if not place.exists():
        raise UsageError(f"{shown(place)}: no such file or folder")
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise UsageError(f"{shown(target)} exists; name a folder that does not, or an empty one")
    module, _, function = known[to].partition(":")
    converter: Converter = getattr(importlib.import_module(module), function)
    part = target.absolute().with_name(f".{os.getpid()}.{secrets.token_hex(4)}.{target.name}")
    part.mkdir(parents=True)
    try:
        facts = converter(place, part, to.rpartition(".")[2], given=given, copy=copy, on_error=on_error)
        os.replace(part, target)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    return facts
