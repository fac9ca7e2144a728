"""The block allocator: aligned, reused, bounded."""

from __future__ import annotations

import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

from pdl.kernels import memory


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.complex128, ml_dtypes.bfloat16, np.bool_])
@pytest.mark.parametrize("shape", [(), (0,), (3, 5), (1000, 7), (2, 0, 4)])
def test_arrays_are_aligned_and_writable(shape: tuple[int, ...], dtype: type) -> None:
    x = memory.empty(shape, np.dtype(dtype))
    assert (x.shape, x.dtype) == (shape, np.dtype(dtype))
    assert x.ctypes.data % 64 == 0
    assert x.flags.c_contiguous
    x[...] = 1
    assert (x == 1).all()


def test_live_blocks_never_overlap() -> None:
    rng = np.random.default_rng(0)
    live: list[tuple[np.ndarray, int]] = []
    for number in range(3000):
        x = memory.empty((int(2 ** rng.uniform(0, 14)),), np.dtype(np.int32))
        x[...] = number
        live.append((x, number))
        if len(live) > 50:
            y, mark = live.pop(int(rng.integers(50)))
            assert (y == mark).all()
        if number % 500 == 0:
            memory.release_cached()
    assert all((y == mark).all() for y, mark in live)


def test_a_freed_block_is_used_again() -> None:
    x = memory.empty((12345,), np.dtype(np.float32))
    where = x.ctypes.data
    view = x[5:]
    del x
    assert memory.empty((12345,), np.dtype(np.float32)).ctypes.data != where, "a view keeps the block alive"
    del view
    assert memory.empty((12300,), np.dtype(np.float32)).ctypes.data == where


def test_the_cache_is_bounded() -> None:
    memory.set_cache_limit(1 << 20)
    try:
        del (big := [memory.empty((1 << 18,), np.dtype(np.float32)) for _ in range(8)])[:]
        assert big == []
        assert memory.cached_bytes() <= 1 << 20
    finally:
        memory.set_cache_limit(4 << 30)


def test_free_blocks_do_not_gather() -> None:
    """Sizes that never come again, as those of pages: in a process of its own, as what arrays have held counts."""
    code = """
import numpy as np
from pdl.kernels import memory
most = 0
for megabytes in range(20, 60):
    x = [memory.empty((megabytes << 18,), np.dtype(np.float32)) for _ in range(2)]
    del x
    most = max(most, memory.cached_bytes())
print(most >> 20)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 59 < int(done.stdout) < 300
