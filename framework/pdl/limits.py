"""Limits of what the calling thread runs: bytes of arrays and plans, steps of loops, time.

    with limited("model.pdl", nbytes=1 << 30, seconds=2.0): ...

Programs and graphs look at them between their nodes, so a run ends within one node of its deadline. Limits inside
limits: the stricter one counts.
"""

from __future__ import annotations

import gc
import math
import os
import re
import resource
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from threading import local
from time import monotonic
from typing import Any

from pdl.errors import MemoryLimitError, StepLimitError, TimeLimitError, UsageError
from pdl.threads import cgroup_folders

MOST_STEPS = 1 << 16  # of all loops of a run together
MOST_KEPT = 1 << 33  # bytes of the states that the gradient of a loop keeps
SMALL = 1 << 20  # bytes that are never over a limit, so that small ops need not ask
OPENING = 300.0  # seconds that reading and preparing a model may take where nobody says otherwise
SHARE = 0.75  # of the memory of the machine that one run may take, where nobody says otherwise


class Limits:
    """What a thread is held to; None is no limit.

    what      has the limits, for messages
    nbytes    of one array, or of one plan
    steps     of all loops together
    seconds   there are until the deadline, which is of `time.monotonic`
    """

    __slots__ = ("deadline", "nbytes", "seconds", "steps", "what")

    def __init__(self, what: str = "", nbytes: int | None = None, steps: int | None = None) -> None:
        self.what, self.nbytes, self.steps = what, nbytes, steps
        self.seconds: float | None = None
        self.deadline: float | None = None

    def within(self, outer: Limits | None, seconds: float | None) -> Limits:
        """These and those around them, from now on for so many seconds."""
        made = Limits(self.what, self.nbytes, self.steps)
        if seconds is not None:
            made.seconds, made.deadline = seconds, monotonic() + seconds
        if outer is None:
            return made
        if outer.nbytes is not None:
            made.nbytes = outer.nbytes if made.nbytes is None else min(made.nbytes, outer.nbytes)
        if outer.deadline is not None and (made.deadline is None or outer.deadline < made.deadline):
            made.seconds, made.deadline = outer.seconds, outer.deadline
        made.steps = outer.steps if made.steps is None else made.steps
        made.what = made.what or outer.what
        return made


class _Thread(local):
    held: Limits | None = None
    steps = 0  # that loops have taken


_thread = _Thread()


@contextmanager
def limited(
    what: str = "", *, nbytes: int | None = None, steps: int | None = None, seconds: float | None = None
) -> Iterator[None]:
    """Inside the block this thread is held to these limits.

    what      for messages: a file, a program
    nbytes    of one output of an op and of the memory of one program: one with more raises MemoryLimitError before it
              is allocated; a limit is 1 MiB at least
    steps     of all loops together; one more raises StepLimitError
    seconds   after which the next node of a program or graph raises TimeLimitError
    """
    before = enter(Limits(what, nbytes, steps), seconds)
    try:
        yield
    finally:
        leave(before)


def enter(limits: Limits, seconds: float | None = None) -> Limits | None:
    """`limited` without the microsecond that a context manager takes: what to give `leave`."""
    before = _thread.held
    if limits.steps is not None:
        _thread.steps = 0
    _thread.held = limits if before is None and seconds is None else limits.within(before, seconds)
    return before


def leave(before: Limits | None) -> None:
    """The end of `enter`."""
    _thread.held = before


@contextmanager
def uncollected() -> Iterator[None]:
    """Inside the block Python does not look for cycles of objects that nobody reads. Reading a model and planning a run
    make many objects that stay; the collector would walk over all of the process for them, again and again."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


# -- what is held to them ----------------------------------------------------------------------------------------------
def timed() -> bool:
    """Whether this thread has a deadline."""
    return _thread.held is not None and _thread.held.deadline is not None


def check_time() -> None:
    """TimeLimitError where this thread is beyond its deadline."""
    held = _thread.held
    if held is not None and held.deadline is not None and monotonic() > held.deadline:
        assert held.seconds is not None
        raise TimeLimitError(late(held.what, held.seconds))


def late(what: str, seconds: float) -> str:
    """What is said of `what` beyond its deadline."""
    return (
        f"{what or 'this run'}: not done after {seconds:g} seconds, its time limit; "
        "give it more (timeout=, --timeout), or fewer or smaller inputs"
    )


def take_steps(count: int = 1, kept: int = 0) -> None:
    """Count steps of a loop, each of which keeps so many bytes; StepLimitError where they are over the limit."""
    held = _thread.held
    if held is None or held.steps is None:
        return
    _thread.steps += count
    if _thread.steps > held.steps or count * kept > MOST_KEPT:
        raise StepLimitError(
            f"{held.what or 'this run'}: its loops take more than {held.steps:,} steps in one run, or keep over "
            f"{MOST_KEPT >> 30} GiB: a loop that does not end, or a model to be traced with fewer"
        )


def check_output(op: str, specs: Sequence[Any], largest: int) -> None:
    """MemoryLimitError where outputs of these specs, the largest of `largest` bytes, are over the limit of this thread;
    TimeLimitError where it is late."""
    held = _thread.held
    if held is None:
        return
    check_time()
    if held.nbytes is not None and largest > held.nbytes:
        shape = max(specs, key=lambda spec: math.prod(spec.shape) * spec.dtype.itemsize).shape
        raise MemoryLimitError(_over(held, f"{op} would make an array of shape {tuple(map(int, shape))},", largest))


def check_memory(nbytes: int) -> None:
    """MemoryLimitError where the memory of a program, of so many bytes, is over the limit of this thread."""
    held = _thread.held
    if held is not None and held.nbytes is not None and nbytes > max(held.nbytes, SMALL):
        raise MemoryLimitError(_over(held, "a run takes", nbytes))


def _over(held: Limits, what: str, nbytes: int) -> str:
    assert held.nbytes is not None
    return (
        f"{held.what or 'this run'}: {what} {_gib(nbytes)}, more than its limit of {_gib(held.nbytes)}; "
        "give it fewer or smaller inputs, or more memory (max_memory=, --max-memory)"
    )


def _gib(nbytes: int) -> str:
    return f"{nbytes / 2**30:.3g} GiB" if nbytes >= 2**30 else f"{nbytes / 2**20:.3g} MiB"


# -- what they are -----------------------------------------------------------------------------------------------------
def require_seconds(timeout: float | None) -> float | None:
    """A time limit as users give it; UsageError for one that is no time."""
    if timeout is not None and not 0 < timeout < math.inf:
        raise UsageError(f"timeout={timeout} must be above 0 seconds, or None for no limit")
    return timeout


def bytes_in(text: str) -> int:
    """A size as users write it: "512M", "1.5 GiB", "65536"; K, M, G and T are powers of 1024. UsageError for others."""
    found = re.fullmatch(r"([0-9]{1,18}(?:\.[0-9]{1,9})?) ?(?:([KMGT])(?:i?B)?|B)?", text.strip(), re.IGNORECASE)
    count = 0 if found is None else int(float(found[1]) * 1024 ** " KMGT".index((found[2] or " ").upper()))
    if count < 1:
        raise UsageError(f"{text!r} is no size in bytes; write 512M, 1.5G or 65536")
    return count


@cache
def default_memory() -> int:
    """Bytes that one run may take where nobody says otherwise: three quarters of what this process can have, which is
    the memory of the machine, of its cgroup (version 2 or 1) and of `ulimit -v`, whichever is least."""
    return int(SHARE * min(_memory_limits()))


def _memory_limits() -> Iterator[int]:
    yield os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    soft = resource.getrlimit(resource.RLIMIT_AS)[0]
    if soft != resource.RLIM_INFINITY:
        yield soft
    for folder in cgroup_folders("memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            try:
                with open(os.path.join(folder, name)) as file:
                    yield int(file.read())
            except (OSError, ValueError):  # no such limit, or "max"
                continue
