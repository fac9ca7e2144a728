"""The thread pool of the kernels: its size for the process, and limits for the calling thread.

The count is `PDL_NUM_THREADS`, or the cores this process may use: its affinity mask, cut to the CPU quota of its
cgroup.
"""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from threading import Thread
from typing import TypeVar

from pdl.errors import UsageError
from pdl.kernels import runtime

T = TypeVar("T")
_CGROUP = "/sys/fs/cgroup"
_MEMBERSHIP = "/proc/self/cgroup"


def available_cores() -> int:
    """Cores this process may use, at least 1."""
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _cgroup_quota()
    return max(1, affinity if quota is None else min(affinity, math.ceil(quota)))


def _cgroup_quota() -> float | None:
    """The CPU quota in cores, or None where there is none: the least of this process's cgroup (version 2 or 1) and all
    above it.
    """
    quotas = [q for folder in cgroup_folders("cpu") if (q := _quota_v2(folder) or _quota_v1(folder)) is not None]
    return min(quotas, default=None)


def cgroup_folders(controller: str) -> Iterator[str]:
    """The folders of the cgroups that this process is in, for "cpu" or "memory", where they are mounted; a container
    may not see all of them."""
    try:
        lines = _text(_MEMBERSHIP).splitlines()
    except OSError:
        lines = ["0::/"]
    for line in lines:
        number, controllers, path = line.split(":", 2)
        if number != "0" and controller not in controllers.split(","):
            continue
        mount = os.fspath(_CGROUP) if number == "0" else os.path.join(_CGROUP, controller)
        parts = path.strip("/").split("/") if path.strip("/") else []
        yield from (os.path.join(mount, *parts[:count]) for count in range(len(parts), -1, -1))


def _text(path: str) -> str:
    with open(path) as file:
        return file.read()


def _quota_v2(folder: str) -> float | None:
    try:
        quota, period = _text(os.path.join(folder, "cpu.max")).split()
        return None if quota == "max" else int(quota) / int(period)
    except (OSError, ValueError):
        return None


def _quota_v1(folder: str) -> float | None:
    try:
        quota, period = (int(_text(os.path.join(folder, f"cpu.cfs_{name}_us"))) for name in ("quota", "period"))
    except (OSError, ValueError):
        return None
    return quota / period if quota > 0 and period > 0 else None


def get_num_threads() -> int:
    """How many threads kernels use that are called from this thread."""
    return int(runtime.num_threads())


def set_num_threads(count: int) -> None:
    """Let kernels use `count` threads."""
    if count < 1:
        raise UsageError(f"the number of threads must be at least 1, not {count}")
    runtime.set_num_threads(count)


@contextmanager
def num_threads(count: int) -> Iterator[None]:
    """Let kernels use `count` threads inside the block."""
    if count < 1:
        raise UsageError(f"the number of threads must be at least 1, not {count}")
    before = runtime.set_num_threads(count)
    try:
        yield
    finally:
        runtime.set_num_threads(before)


@contextmanager
def limit(count: int) -> Iterator[None]:
    """Limit kernels that the calling thread starts to `count` threads inside the block; other threads are not affected:
    several callers with counts of their own may run at once.
    """
    if count < 1:
        raise UsageError(f"the number of threads must be at least 1, not {count}")
    before = runtime.limit_threads(count)
    try:
        yield
    finally:
        runtime.limit_threads(before)


def together(calls: Iterable[Callable[[], object]]) -> None:
    """Make the calls, of which none needs another, on as many threads as kernels use: for work that is long and holds
    no GIL. The first error is raised when no call is under way any more; calls after it are left out."""
    left, errors = deque(calls), list[BaseException]()

    def work() -> None:
        while not errors:
            try:
                call = left.popleft()
            except IndexError:  # none is left
                return
            try:
                call()
            except BaseException as error:
                errors.append(error)

    helpers = [Thread(target=work, daemon=True) for _ in range(min(get_num_threads(), len(left)) - 1)]
    for helper in helpers:
        helper.start()
    work()
    for helper in helpers:
        helper.join()
    if errors:
        raise errors[0]


def beside(call: Callable[[], T]) -> Callable[[], T]:
    """Make a call, which is long and holds no GIL, in a thread of its own; what is returned waits for it and gives its
    result, or raises its error."""
    made, errors = list[T](), list[BaseException]()

    def work() -> None:
        try:
            made.append(call())
        except BaseException as error:
            errors.append(error)

    thread = Thread(target=work, daemon=True)
    thread.start()

    def result() -> T:
        thread.join()
        if errors:
            raise errors[0]
        return made[0]

    return result


def _from_environment() -> int | None:
    """The count in PDL_NUM_THREADS; None if it is not a positive number."""
    text = os.environ.get("PDL_NUM_THREADS", "")
    if not text:
        return available_cores()
    return int(text) if text.isdecimal() and int(text) > 0 else None


def check_environment() -> None:
    """Raise UsageError if PDL_NUM_THREADS or PDL_CPU is invalid or names what this machine does not have.

    Not raised on import, so that the command line can say it in one line; the first op of a process calls it too.
    """
    if _from_environment() is None:
        text = os.environ["PDL_NUM_THREADS"]
        raise UsageError(f"PDL_NUM_THREADS={text!r} must be a whole number of at least 1; unset it to use all cores")
    problem, text = runtime.problem(), os.environ.get("PDL_CPU", "")
    if problem is not None:
        raise UsageError(f"PDL_CPU={text!r}: {problem}; leave it unset for the best one" if text else problem)


runtime.set_num_threads(_from_environment() or 1)
