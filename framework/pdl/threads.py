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


def available_cores() -> int:
    """Cores this process may use, at least 1."""
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _cgroup_quota()
    return max(1, affinity if quota is None else min(affinity, math.ceil(quota)))


def _cgroup_quota() -> float | None:
    """The CPU quota in cores (cgroup v2, then v1), or None where there is none."""
    try:
        quota, period = (_CGROUP / "cpu.max").read_text().split()
        return None if quota == "max" else int(quota) / int(period)
    except (OSError, ValueError):
        pass
    try:
        quota_us = int((_CGROUP / "cpu/cpu.cfs_quota_us").read_text())
        period_us = int((_CGROUP / "cpu/cpu.cfs_period_us").read_text())
    except (OSError, ValueError):
        return None
    return quota_us / period_us if quota_us > 0 and period_us > 0 else None


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
