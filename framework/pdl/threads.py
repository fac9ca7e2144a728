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
    return runtime.num_threads()


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


def _from_environment() -> int:
    text = os.environ.get("PDL_NUM_THREADS", "")
    if not text:
        return available_cores()
    if not text.isdecimal() or int(text) < 1:
        raise UsageError(f"PDL_NUM_THREADS={text!r} must be a whole number of at least 1")
    return int(text)


runtime.set_num_threads(_from_environment())
if runtime.problem() is not None:
    raise UsageError(f"PDL_CPU={os.environ.get('PDL_CPU')!r}: {runtime.problem()}; leave it unset for the best one")
