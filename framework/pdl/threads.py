"""The one owner of threads: how many there are, for kernels and for everyone who asks.

The count is `PDL_NUM_THREADS`, or the cores this process may use: its affinity mask, cut to the CPU quota of its
cgroup.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pdl.errors import UsageError
from pdl.kernels import runtime

_CGROUP = Path("/sys/fs/cgroup")
_MEMBERSHIP = Path("/proc/self/cgroup")


def available_cores() -> int:
    """Cores this process may use, at least 1."""
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _cgroup_quota()
    return max(1, affinity if quota is None else min(affinity, math.ceil(quota)))


def _cgroup_quota() -> float | None:
    """The CPU quota in cores, or None where there is none: the least of this process's cgroup (version 2 or 1) and all
    above it.
    """
    quotas = [q for folder in _cgroup_folders() if (q := _quota_v2(folder) or _quota_v1(folder)) is not None]
    return min(quotas, default=None)


def _cgroup_folders() -> Iterator[Path]:
    """The folders of the cgroups this process is in, where they are mounted; a container may not see all of them."""
    try:
        lines = _MEMBERSHIP.read_text().splitlines()
    except OSError:
        lines = ["0::/"]
    for line in lines:
        number, controllers, path = line.split(":", 2)
        if number != "0" and "cpu" not in controllers.split(","):
            continue
        mount = _CGROUP if number == "0" else _CGROUP / "cpu"
        own = mount / path.lstrip("/")
        yield from (folder for folder in (own, *own.parents) if folder.is_relative_to(mount))


def _quota_v2(folder: Path) -> float | None:
    try:
        quota, period = (folder / "cpu.max").read_text().split()
        return None if quota == "max" else int(quota) / int(period)
    except (OSError, ValueError):
        return None


def _quota_v1(folder: Path) -> float | None:
    try:
        quota, period = (int((folder / f"cpu.cfs_{name}_us").read_text()) for name in ("quota", "period"))
    except (OSError, ValueError):
        return None
    return quota / period if quota > 0 and period > 0 else None


def get_num_threads() -> int:
    """Threads that kernels use."""
    return int(runtime.num_threads())


def set_num_threads(count: int) -> None:
    """Let kernels use `count` threads."""
    if count < 1:
        raise UsageError(f"the number of threads must be at least 1, not {count}")
    runtime.set_num_threads(count)


@contextmanager
def num_threads(count: int) -> Iterator[None]:
    """Let kernels use `count` threads inside the block."""
    before = get_num_threads()
    set_num_threads(count)
    try:
        yield
    finally:
        set_num_threads(before)


def _from_environment() -> int | None:
    """The count that PDL_NUM_THREADS asks for; None where it is no count."""
    text = os.environ.get("PDL_NUM_THREADS", "")
    if not text:
        return available_cores()
    return int(text) if text.isdecimal() and int(text) > 0 else None


def demand_environment() -> None:
    """Raise UsageError where PDL_NUM_THREADS or PDL_CPU asked for what cannot be had.

    Not raised on import, so that the command line can say it in one line; the first op of a process calls it too.
    """
    if _from_environment() is None:
        text = os.environ["PDL_NUM_THREADS"]
        raise UsageError(f"PDL_NUM_THREADS={text!r} must be a whole number of at least 1; unset it to use all cores")
    if runtime.problem() is not None:
        text = os.environ.get("PDL_CPU", "")
        raise UsageError(f"PDL_CPU={text!r}: {runtime.problem()}; leave it unset for the best one")


runtime.set_num_threads(_from_environment() or 1)
