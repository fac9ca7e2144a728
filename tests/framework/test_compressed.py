"""Compressed sparse rows against plain NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdl import threads
from pdl.compressed import from_coo, group, rows_of, transpose
from pdl.errors import UsageError

sizes = st.tuples(st.integers(0, 2**31), st.integers(1, 12), st.integers(0, 60))


def edges_of(seed: int, n: int, e: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.integers(0, n, e), rng.integers(0, n, e)


@given(sizes, st.booleans(), st.sampled_from([np.int32, np.int64]))
def test_pairs_to_rows(size: tuple[int, int, int], ascending: bool, dtype: Any) -> None:
    row, column = (a.astype(dtype) for a in edges_of(*size))
    n = size[1]
    indptr, indices, order = from_coo(row, column, (n, n), ascending=ascending)
    wanted = np.lexsort((column, row)) if ascending else np.argsort(row, kind="stable")
    np.testing.assert_array_equal(order, wanted)
    np.testing.assert_array_equal(indices, column[wanted])
    np.testing.assert_array_equal(np.diff(indptr), np.bincount(row, minlength=n))


@given(sizes)
def test_transpose_twice_is_the_same(size: tuple[int, int, int]) -> None:
    n = size[1]
    indptr, indices, _ = from_coo(*edges_of(*size), (n, n), ascending=True)
    t_indptr, t_indices, t_edges = transpose(indptr, indices, n)
    np.testing.assert_array_equal(t_indices, rows_of(indptr)[t_edges])
    np.testing.assert_array_equal(indices[t_edges], rows_of(t_indptr))
    for got, want in zip(transpose(t_indptr, t_indices, n)[:2], (indptr, indices), strict=True):
        np.testing.assert_array_equal(got, want)


def test_many_pairs_on_any_number_of_threads() -> None:
    row, column = edges_of(0, 1000, 400_000)
    found = []
    for count in (1, 2):
        with threads.limit(count):
            found.append(from_coo(row, column, (1000, 1000), ascending=True))
    np.testing.assert_array_equal(found[0][2], np.lexsort((column, row)))
    for one, two in zip(*found, strict=True):
        np.testing.assert_array_equal(one, two)


def test_ids_out_of_range_are_named() -> None:
    with pytest.raises(UsageError, match="id 7 at place 1 is outside"):
        group(np.array([0, 7, 2]), 5)
    with pytest.raises(UsageError, match="id -1 at place 0"):
        from_coo(np.array([0, 1]), np.array([-1, 1]), (2, 2))
