"""Attention to a cache where rows are cut into parts, and prompts that go through whole tiles."""

from __future__ import annotations

import numpy as np
import pytest

import pdl
from pdl import Tensor, threads
from pdl.ops.cached import CachedAttention


def arrays(rows: int, steps: int, room: int, heads: int, kv_heads: int, e: int, d: int, dtype: str) -> list[Tensor]:
    rng = np.random.default_rng(0)
    shapes = [(rows, steps, heads * e), (rows, steps, kv_heads * e), (rows, steps, kv_heads * d)]
    shapes += [(rows, room, kv_heads * e), (rows, room, kv_heads * d)]
    return [Tensor(rng.normal(size=shape)).astype(dtype) for shape in shapes]


@pytest.mark.parametrize(("dtype", "close"), [("float32", 2e-6), ("float64", 1e-13), ("bfloat16", 2e-2)])
@pytest.mark.parametrize(
    ("steps", "room", "lengths", "counts", "heads", "kv_heads", "e", "d"),
    [
        (1, 1400, [1300, 511, 512, 0], [1, 1, 1, 1], 8, 2, 64, 64),
        (3, 1100, [1000, 510, 30, 7], [3, 3, 0, 2], 6, 1, 20, 33),
        (20, 24, [0, 0, 0, 0], [20, 7, 1, 0], 4, 2, 24, 40),
        (20, 40, [0, 3, 0, 20], [20, 7, 1, 20], 4, 4, 16, 16),
    ],
)
def test_rows_of_any_length(dtype, close, steps, room, lengths, counts, heads, kv_heads, e, d) -> None:
    given = arrays(4, steps, room, heads, kv_heads, e, d, dtype)
    numbers = [Tensor(np.array(lengths)), Tensor(np.array(counts))]
    made = pdl.cached_attention(*given, *numbers, heads=heads, kv_heads=kv_heads)
    wide = [x.astype("float64") for x in given]
    wanted = CachedAttention(e**-0.5, heads, kv_heads).compose(*wide, *numbers)
    for y, want in zip(made, wanted, strict=True):
        np.testing.assert_allclose(y.astype("float64").data, want.data, atol=close)


def test_a_row_has_the_same_bits_in_any_batch_and_on_any_number_of_threads() -> None:
    given = arrays(3, 1, 2000, 4, 2, 32, 32, "float32")
    lengths, counts = np.array([1999, 700, 40]), np.array([1, 1, 1])
    before = threads.get_num_threads()
    try:
        threads.set_num_threads(1)
        whole = pdl.cached_attention(*given, Tensor(lengths), Tensor(counts), heads=4, kv_heads=2)[0].data
        threads.set_num_threads(4)
        more = pdl.cached_attention(*given, Tensor(lengths), Tensor(counts), heads=4, kv_heads=2)[0].data
        alone = [
            pdl.cached_attention(
                *(x[r : r + 1] for x in given), Tensor(lengths[r : r + 1]), Tensor(counts[:1]), heads=4, kv_heads=2
            )[0].data
            for r in range(3)
        ]
    finally:
        threads.set_num_threads(before)
    np.testing.assert_array_equal(whole, more)
    np.testing.assert_array_equal(whole, np.concatenate(alone))
