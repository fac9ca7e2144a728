"""Kernels on sparse matrices: any pattern against SciPy, any number of threads the same bits, faults told."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import pdl
from pdl import threads
from pdl.errors import DtypeError, ShapeError, UsageError
from pdl.ops.csr import CSR

RNG = np.random.default_rng(8)


def random_pattern(rows: int, columns: int, edges: int, seed: int) -> CSR:
    """Nonzeros anywhere, repeated ones too; most of them in the first rows."""
    rng = np.random.default_rng(seed)
    row = (rows * rng.random(edges) ** 3).astype(np.int64) if rows else np.zeros(0, np.int64)
    return CSR.from_coo(row, rng.integers(0, max(columns, 1), len(row)), (rows, columns))[0]


def matrix(a: CSR, value: np.ndarray) -> sparse.csr_matrix:
    return sparse.csr_matrix((value, a.indices, a.indptr), shape=a.shape)


@settings(max_examples=60)
@given(
    rows=st.integers(0, 30),
    columns=st.integers(1, 30),
    edges=st.integers(0, 400),
    channels=st.sampled_from([1, 2, 3, 8, 16, 17, 33, 64, 129, 200]),
    dtype=st.sampled_from([np.float32, np.float64]),
    seed=st.integers(0, 99),
)
def test_products_are_those_of_scipy(
    rows: int, columns: int, edges: int, channels: int, dtype: type, seed: int
) -> None:
    a, rng = random_pattern(rows, columns, edges if rows else 0, seed), np.random.default_rng(seed)
    x, value = rng.standard_normal((columns, channels)).astype(dtype), rng.standard_normal(a.nonzeros).astype(dtype)
    g = rng.standard_normal((rows, channels)).astype(dtype)
    given_x, given_value = pdl.Tensor(x, requires_grad=True), pdl.Tensor(value, requires_grad=True)
    y = pdl.spmm(a, given_x, given_value)
    y.backward(pdl.Tensor(g))
    assert given_x.grad is not None
    assert given_value.grad is not None
    near = {"rtol": 1e-4, "atol": 1e-3} if dtype == np.float32 else {"rtol": 1e-9, "atol": 1e-9}
    np.testing.assert_allclose(y.detach().numpy(), matrix(a, value) @ x, **near)
    np.testing.assert_allclose(given_x.grad.data, matrix(a, value).T @ g, **near)
    np.testing.assert_allclose(given_value.grad.data, (g[a.row] * x[a.indices]).sum(-1), **near)


@pytest.mark.parametrize(
    ("columns", "shape", "heads"), [(4000, (64,), 1), (4000, (8, 8), 8), (30, (16,), 1), (9, (1,), 1)]
)
def test_the_number_of_threads_changes_no_bit(columns: int, shape: tuple[int, ...], heads: int) -> None:
    a = random_pattern(3000, columns, 40_000, 1)
    value = RNG.standard_normal((a.nonzeros, heads) if heads > 1 else a.nonzeros).astype(np.float32)
    x, g = (RNG.standard_normal((n, *shape)).astype(np.float32) for n in (columns, 3000))
    found = []
    for count in (1, 2, 5):
        with threads.num_threads(count):
            given = [pdl.Tensor(x, requires_grad=True), pdl.Tensor(value, requires_grad=True)]
            own = pdl.at_columns(a, given[0].sum(axis=-1) if heads > 1 else given[0][:, 0])
            own = own + pdl.at_rows(a, pdl.Tensor(g).sum(axis=-1) if heads > 1 else pdl.Tensor(g)[:, 0])
            y = pdl.spmm(a, given[0], pdl.edge_softmax(a, given[1] + own))
            y.backward(pdl.Tensor(g))
            found.append([y.detach().numpy(), *(t.grad.data for t in given)])
    for other in found[1:]:
        for one, two in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(one, two)


def test_extrema_take_the_first_of_equals_and_nan() -> None:
    a, _ = CSR.from_coo(np.array([0, 0, 0]), np.array([1, 0, 1]), (2, 2))
    x = pdl.Tensor(np.array([[1.0, np.nan], [1.0, 2.0]]), requires_grad=True)
    y = pdl.spmm(a, x, reduce="max")
    np.testing.assert_array_equal(y.detach().numpy(), [[1, np.nan], [0, 0]])
    y.sum().backward()
    assert x.grad is not None
    np.testing.assert_array_equal(x.grad.data, [[0, 1], [1, 0]])


def test_softmax_of_large_scores() -> None:
    a, _ = CSR.from_coo(np.array([0, 0, 1]), np.array([0, 1, 1]), (3, 2))
    score = pdl.Tensor(np.array([[1e4, -1e4], [0, -1e4], [-1e4, 1e4]], np.float32))
    np.testing.assert_allclose(pdl.edge_softmax(a, score).numpy(), [[1, 0.5], [0, 0.5], [1, 1]], atol=1e-30)


def test_patterns_are_arguments_of_programs() -> None:
    """What a compiled step makes of two graphs of one size, and that it runs without Python."""
    from pdl.program import Executable, trace

    def step(a: CSR, x: pdl.Tensor) -> pdl.Tensor:
        return pdl.spmm(a, x, pdl.edge_softmax(a, pdl.sddmm(a, x, x)), reduce="mean")

    patterns = [random_pattern(6, 6, 15, seed) for seed in (1, 2)]
    x = RNG.standard_normal((6, 3)).astype(np.float32)
    made = Executable(trace(step, patterns[0], x))
    assert not made.python_nodes
    for a in patterns:
        arrays = [getattr(a, n) for n in ("indptr", "indices", "row", "t_indptr", "t_indices", "t_edges")]
        (y,) = made(*arrays, x)
        np.testing.assert_allclose(y, step(a, pdl.Tensor(x)).numpy(), rtol=1e-6)
    with pytest.raises(ShapeError, match="nonzero 3 is in column 6, outside the 6 columns"):
        made(arrays[0], np.where(np.arange(15) == 3, 6, arrays[1]).astype(np.int32), *arrays[2:], x)


A, _ = CSR.from_coo(np.array([0, 0, 2]), np.array([1, 0, 1]), (3, 2))
X, VALUE = pdl.Tensor(np.ones((2, 4))), pdl.Tensor(np.ones(3))


def broken(**arrays: list[int]) -> CSR:
    return replace(A, **{k: np.array(v, getattr(A, k).dtype) for k, v in arrays.items()})


def gradient(a: CSR) -> None:
    pdl.spmm(a, pdl.Tensor(np.ones((2, 4)), requires_grad=True), VALUE).sum().backward()


def at_columns_gradient(a: CSR) -> None:
    pdl.at_columns(a, pdl.Tensor(np.ones((2, 4)), requires_grad=True)).sum().backward()


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: pdl.spmm(A, X, VALUE[:2]), ShapeError, r"spmm: value \(2,\) must be \(3,\)"),
        (lambda: pdl.spmm(A, X, pdl.Tensor(np.ones((3, 2)))), ShapeError, r"first sizes behind the rows of x \(2, 4\)"),
        (lambda: pdl.spmm(A, X, reduce="median"), UsageError, "reduce 'median' is none of sum, mean, max, min"),
        (lambda: gradient(broken(t_indptr=[0, 1, 3, 3])), ShapeError, r"x \(2, 4\) must have 3 rows"),
        (lambda: pdl.spmm(replace(A, indices=A.indices.astype(np.int64)), X), DtypeError, "indices is int64"),
        (lambda: pdl.spmm(broken(indices=[1, 5, 1]), X), ShapeError, "nonzero 1 is in column 5, outside the 2"),
        (lambda: pdl.spmm(broken(indices=[1, -1, 1]), X, VALUE, reduce="max"), ShapeError, "in column -1"),
        (lambda: pdl.spmm(broken(indptr=[0, 3, 2, 3]), X), ShapeError, "start 2 of the rows is 2; starts must rise"),
        (lambda: pdl.spmm(broken(indptr=[1, 2, 2, 3]), X), ShapeError, "start 0 of the rows is 1"),
        (lambda: pdl.edge_softmax(broken(indptr=[0, 2, 2, 4]), VALUE), ShapeError, "start 3 of the rows is 4"),
        (lambda: gradient(broken(t_edges=[1, 0, 3])), ShapeError, "value of nonzero 2 stands at 3, outside the 3"),
        (lambda: pdl.sddmm(A, X, X), ShapeError, r"q \(2, 4\) must be \[3 rows, ...\]"),
        (lambda: pdl.sddmm(A, VALUE, VALUE), ShapeError, "at least two dimensions"),
        (lambda: pdl.at_rows(A, X), ShapeError, r"at_rows: x \(2, 4\) must be \[3, ...\], as the matrix has 3 rows"),
        (lambda: at_columns_gradient(broken(t_edges=[1, 0, 3])), ShapeError, "nonzero 2 is in column 3, outside the 3"),
        (lambda: pdl.edge_softmax(A, VALUE[:2]), ShapeError, r"score \(2,\) must have a row for each nonzero"),
    ],
)  # fmt: skip
def test_faults_are_told(call, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        call()
