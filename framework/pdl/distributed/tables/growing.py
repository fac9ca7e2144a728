"""`Growing`: arrays that become longer where they lie."""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from pdl.dtype import Array

_PAGE = 1 << 21  # a huge page: larger memory is whole ones, which move as they are


class Growing:
    """`array` [rows, *shape], zeros where nobody has written; rows that nobody has touched cost nothing. A longer one
    takes the memory with it (mremap), and nothing is copied, unless someone else has a view of it."""

    def __init__(self, shape: Sequence[int], dtype: Any, rows: int = 0) -> None:
        self._map: mmap.mmap | None = None
        self.array: Array = np.zeros((0, *shape), dtype)
        self.grow(rows)

    def grow(self, rows: int) -> None:
        """Another `array`, with so many rows."""
        kind, shape, before = self.array.dtype, (rows, *self.array.shape[1:]), self.array.shape
        size = int(np.prod(shape)) * kind.itemsize
        if size < _PAGE or not hasattr(mmap, "MAP_ANONYMOUS"):
            self.array, old = np.zeros(shape, kind), self.array
            self.array[: len(old)] = old
            return
        size = -(-size // _PAGE) * _PAGE
        if self._map is None:
            old = self.array
        else:
            self.array = np.empty(0, kind)  # else there is a view
            with suppress(BufferError, SystemError, OSError):
                self._map.resize(size)
                self.array = _view(self._map, kind, shape)
                return
            old = _view(self._map, kind, before)
        self._map = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            with suppress(OSError):
                self._map.madvise(mmap.MADV_HUGEPAGE)
        self.array = _view(self._map, kind, shape)
        self.array[: len(old)] = old


def _view(memory: mmap.mmap, kind: Any, shape: Sequence[int]) -> Array:
    return np.frombuffer(memory, kind, int(np.prod(shape))).reshape(shape)


__all__ = ["Growing"]
