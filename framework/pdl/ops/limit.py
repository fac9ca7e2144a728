"""The allocation limit: how large an output may be, for graphs from files that are not trusted."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import local
from typing import Any

from pdl.errors import ShapeError

SMALL = 1 << 20  # bytes that are never over a limit, so that small ops need not ask


class _Limit(local):
    nbytes: int | None = None


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


def check_size(op: str, specs: Sequence[Any], largest: int) -> None:
    """ShapeError where outputs of these specs, the largest of `largest` bytes, are over the limit of this thread."""
    if _limit.nbytes is not None and largest > _limit.nbytes:
        shape = max(specs, key=lambda spec: math.prod(spec.shape) * spec.dtype.itemsize).shape
        raise ShapeError(f"{op} would make an array of shape {shape}, over {_limit.nbytes / 2**30:.2g} GiB")


__all__ = ["SMALL", "allocation_limit", "check_size"]
