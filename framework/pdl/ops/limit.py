"""Limits for programs from files that are not trusted: how large an output may be, how many steps loops may take."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import local
from typing import Any

from pdl.errors import DataError, ShapeError

MOST_STEPS = 1 << 16  # of all loops of a run together
MOST_KEPT = 1 << 33  # bytes of the states that the gradient of a loop keeps
SMALL = 1 << 20  # bytes that are never over a limit, so that small ops need not ask


class _Limit(local):
    nbytes: int | None = None
    steps: int | None = None  # that loops may still take


_limit = _Limit()


@contextmanager
def allocation_limit(nbytes: int) -> Iterator[None]:
    """Inside the block an op of this thread whose output has more bytes (a limit is 1 MiB at least) raises ShapeError
    before it is run."""
    before, _limit.nbytes = _limit.nbytes, nbytes
    try:
        yield
    finally:
        _limit.nbytes = before


@contextmanager
def step_limit(steps: int = MOST_STEPS) -> Iterator[None]:
    """Inside the block all loops of programs in this thread take so many steps together; one more raises DataError."""
    before, _limit.steps = _limit.steps, steps
    try:
        yield
    finally:
        _limit.steps = before


def take_steps(count: int = 1, kept: int = 0) -> None:
    """Count steps of a loop, each of which keeps so many bytes; DataError where they are over the limit."""
    if _limit.steps is None:
        return
    _limit.steps -= count
    if _limit.steps < 0 or count * kept > MOST_KEPT:
        raise DataError(
            f"the loops of this program take more than {MOST_STEPS} steps in one run, or keep over {MOST_KEPT >> 30} "
            "GiB; a loop that does not end, or a model to be traced with fewer"
        )


def check_size(op: str, specs: Sequence[Any], largest: int) -> None:
    """ShapeError where outputs of these specs, the largest of `largest` bytes, are over the limit of this thread."""
    if _limit.nbytes is not None and largest > _limit.nbytes:
        shape = max(specs, key=lambda spec: math.prod(spec.shape) * spec.dtype.itemsize).shape
        raise ShapeError(f"{op} would make an array of shape {shape}, over {_limit.nbytes / 2**30:.2g} GiB")


__all__ = ["MOST_STEPS", "SMALL", "allocation_limit", "check_size", "step_limit", "take_steps"]
