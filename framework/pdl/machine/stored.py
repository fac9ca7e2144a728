"""The figures that hold here: measured once and kept in the cache, or built in.

Files belong to one machine: they lie in a folder named by what identifies it, say so inside, and are not read
elsewhere. Where the cache takes no file, nothing is measured, and nothing is said about it.
"""

from __future__ import annotations

import json
import os
import platform
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

from pdl import threads, watch
from pdl.files import cache_root, read_text, write_atomic
from pdl.kernels import __file__ as kernels_file
from pdl.kernels import runtime
from pdl.machine.figures import BUILT_IN, Machine
from pdl.version import __version__

FIGURES, TIMES = "figures.json", "times.json"
MOST = 16 << 20  # bytes of such a file
T = TypeVar("T")
_lock = threading.RLock()
_held: dict[Path, tuple[int, Any]] = {}  # what files held when they were changed last


def calibrated() -> bool:
    """Whether measured figures and kept times are used: not with PDL_CALIBRATE=0."""
    return os.environ.get("PDL_CALIBRATE", "") != "0"


def current(measuring: bool = False) -> Machine:
    """The figures by which a plan chooses: those that were measured here, else, where `measuring` is allowed and the
    cache can keep them, those measured now (a fifth of a second), else the built-in ones."""
    with _lock:
        found = kept(FIGURES, lambda content: Machine.from_dict(content.get("figures")))
        if found is None and measuring and calibrated() and _writable():
            found = renewed()
    return BUILT_IN[runtime.isa()] if found is None else found


def renewed() -> Machine:
    """Measured now, and kept."""
    from pdl.machine.measure import measure

    made = measure()
    keep(FIGURES, {"figures": made.to_dict()})
    return made


def identity() -> dict[str, Any]:
    """What figures depend on: another CPU, number of cores or build of the kernels has others."""
    model, flags = _cpu()
    return {
        "cpu": model, "flags": flags, "isa": runtime.isa(), "cores": os.cpu_count() or 1,
        "available": _available(), "pdl": __version__, "kernels": _kernel_bytes(),
    }  # fmt: skip


@cache
def _cpu() -> tuple[str, str]:
    """Name and flags of the CPU."""
    found: dict[str, str] = {}
    with suppress(OSError, ValueError):
        for line in read_text("/proc/cpuinfo", MOST).splitlines():
            name, _, value = line.partition(":")
            found.setdefault(name.strip().lower(), value.strip())
    return found.get("model name", platform.machine()), found.get("flags", found.get("features", ""))


@cache
def _available() -> int:
    """Cores of this process when it began: reading quotas takes milliseconds."""
    return threads.available_cores()


@cache
def _kernel_bytes() -> int:
    """The size of the library of kernels, which another build changes."""
    return sum(path.stat().st_size for path in Path(kernels_file).parent.glob("libpdl_kernels*"))


def folder() -> Path | None:
    """The folder of this machine in the cache; None where there is no cache."""
    name = sha256(json.dumps(identity(), sort_keys=True).encode()).hexdigest()[:16]
    try:
        return cache_root() / "machine" / name
    except RuntimeError:  # no home
        return None


def _writable() -> bool:
    """Whether the folder is there, or can be made, and takes files."""
    place = folder()
    if place is None:
        return False
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(place, os.W_OK)


def keep(name: str, content: dict[str, Any]) -> bool:
    """Write a file of this machine, readable JSON; whether it could be written."""
    place = folder()
    if place is None or not calibrated():
        return False
    with suppress(OSError):
        write_atomic(place / name, json.dumps({"machine": identity(), **content}, indent=1) + "\n")
        return True
    return False


def kept(name: str, made: Callable[[dict[str, Any]], T]) -> T | None:
    """What `made` makes of the content of a file of this machine; None where there is none. A file that is damaged
    (ValueError of `made`, too) or another machine's is not used, which is said once."""
    place = folder() if calibrated() else None
    if place is None:
        return None
    path = place / name
    try:
        changed = path.stat().st_mtime_ns
    except OSError:
        return None
    with _lock:
        if path not in _held or _held[path][0] != changed:
            _held[path] = changed, None
            try:
                content = json.loads(read_text(path, MOST))
                if not isinstance(content, dict) or content.get("machine") != identity():
                    raise ValueError("it is of another machine")
                _held[path] = changed, made(content)
            except (OSError, ValueError, RecursionError) as error:
                watch.note(f"{path}: not used ({error}); it is made anew by pdl bench --machine and --tune")
    found: T | None = _held[path][1]
    return found
