"""Row kernels: every width, threads, empty inputs, errors."""

from __future__ import annotations

import numpy as np
import pytest

import pdl
from pdl import threads
from pdl.errors import DtypeError, ShapeError, UsageError
from pdl.kernels import rows
from pdl.ops.segment import segment_sum

RNG = np.random.default_rng(5)
WIDTHS = [1, 2, 3, 7, 16, 33, 64, 65, 300]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "uint8", "bool"])
def test_take(width: int, dtype: str) -> None:
    table = RNG.integers(0, 2, (11, width)).astype(dtype)
    index = RNG.integers(0, 11, 50)
    out = np.empty((50, width), dtype)
    rows.take(out, table, index)
    np.testing.assert_array_equal(out, table[index])
    rows.take(out, table, index - 3, drop=True)
    np.testing.assert_array_equal(out, np.where((index < 3)[:, None], 0, table[index - 3]))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_add_and_extremum(width: int, dtype: str) -> None:
    x = RNG.standard_normal((500, width)).astype(dtype)
    index = RNG.integers(-1, 9, 500)  # row 9 has no members
    table, want = np.ones((10, width), dtype), np.ones((10, width), dtype)
    np.add.at(want, index[index >= 0], x[index >= 0])
    rows.add(table, index, x, drop=True)
    np.testing.assert_array_equal(table, want)  # the same order of sums: the same bits
    for largest in (True, False):
        winner = np.empty((10, width), np.int32)
        rows.extremum(table, winner, x, index, largest)
        for r in range(9):
            np.testing.assert_array_equal(table[r], (x[index == r].max if largest else x[index == r].min)(0))
            np.testing.assert_array_equal(x[winner[r], np.arange(width)], table[r])
        assert (table[9] == 0).all()
        assert (winner[9] == -1).all()


def test_the_number_of_threads_changes_no_bit() -> None:
    ids = pdl.Tensor(RNG.integers(0, 50, 20_000))
    for width in (3, 128):
        x = pdl.Tensor(RNG.standard_normal((20_000, width)).astype(np.float32))
        sums = []
        for count in (1, 2):
            with threads.num_threads(count):
                sums.append(segment_sum(x, ids, num_segments=50).data)
        np.testing.assert_array_equal(*sums)


@pytest.mark.parametrize("inner", [1, 3, 16, 37])
def test_mix(inner: int) -> None:
    x = RNG.random((3, 6, inner))
    matrix = np.where(RNG.random((5, 6)) < 0.5, RNG.random((5, 6)), 0)
    matrix[2] = 0
    row, column = np.nonzero(matrix)
    start = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=5))])
    y = np.empty((3, 5, inner))
    rows.mix(y, x, start, column.copy(), matrix[row, column])
    np.testing.assert_allclose(y, np.einsum("oi,aic->aoc", matrix, x), atol=1e-14)


def test_padding_row_gets_no_gradient() -> None:
    table = pdl.Tensor(RNG.random((4, 3)), requires_grad=True)
    pdl.embedding(table, pdl.Tensor(np.array([1, 0, 1, 2])), padding_idx=1).sum().backward()
    assert table.grad is not None
    np.testing.assert_array_equal(table.grad.data[:, 0], [1, 0, 1, 0])


def test_empty_inputs_pass() -> None:
    none = pdl.Tensor(np.zeros(0, np.int64))
    assert pdl.embedding(pdl.Tensor(np.ones((4, 3))), none).shape == (0, 3)
    assert (segment_sum(pdl.Tensor(np.ones((0, 3))), none, num_segments=2).data == 0).all()
    assert (pdl.segment_max(pdl.Tensor(np.ones((0, 3))), none, num_segments=2).data == 0).all()


TABLE, IDS = pdl.Tensor(np.ones((4, 3))), pdl.Tensor(np.array([0, 4]))


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: pdl.embedding(TABLE, IDS), ShapeError, "embedding: index 4 at flat position 1 is outside the 4 rows"),
        (lambda: pdl.embedding(TABLE, IDS - 1), ShapeError, "embedding: index -1 at flat position 0"),
        (lambda: pdl.embedding(TABLE, TABLE), DtypeError, "embedding: index is float64"),
        (lambda: pdl.embedding(TABLE, IDS, padding_idx=4), ShapeError, "padding_idx 4 is outside the 4 rows"),
        (lambda: pdl.embedding_bag(TABLE, IDS), ShapeError, r"index \(2,\) must be \[bags, entries\]"),
        (lambda: pdl.embedding_bag(TABLE, IDS, IDS, mode="median"), UsageError, "mode 'median' must be one of sum"),
        (lambda: segment_sum(TABLE, IDS, num_segments=5), ShapeError, r"ids \(2,\) must hold .* row of x \(4, 3\)"),
        (lambda: pdl.segment_mean(TABLE[:2], IDS, num_segments=3), ShapeError, "id 4 is outside the 3 segments"),
        (lambda: pdl.resize(TABLE, 3), ShapeError, r"does not fit|do not fit"),
        (lambda: pdl.resize(TABLE[None, :, :], 3, mode="magic"), UsageError, "mode 'magic' must be one of nearest"),
    ],
)  # fmt: skip
def test_errors_say_both_numbers(call, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        call()
