"""Matrix products against NumPy, over drawn sizes, layouts and batches."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pdl import threads
from pdl.dtype import bfloat16
from pdl.kernels import gemm

BATCHES = [(), (3,), (2, 3), (9,)]


def lay(x: np.ndarray, layout: str) -> np.ndarray:
    """The same values in another memory layout."""
    if layout == "transposed":
        return np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2)
    if layout == "strided":
        return np.repeat(x, 2, axis=-1)[..., ::2]
    if layout == "broadcast" and x.ndim > 2:
        return np.broadcast_to(x[:1], x.shape)
    return x


layouts = st.sampled_from(["rows", "transposed", "strided", "broadcast"])
dims = st.one_of(st.integers(0, 70), st.sampled_from([1, 14, 15, 32, 33, 511, 513, 1100]))


@settings(max_examples=150)
@given(m=dims, n=dims, k=dims, batch=st.sampled_from(BATCHES), a_layout=layouts, b_layout=layouts, bias=st.booleans(),
       dtype=st.sampled_from([np.float32, np.float64]))  # fmt: skip
def test_matmul(
    m: int, n: int, k: int, batch: tuple[int, ...], a_layout: str, b_layout: str, bias: bool, dtype: type
) -> None:
    rng = np.random.default_rng(m + n)
    m, n = (min(m, 40), min(n, 40)) if batch else (m, n)
    a = lay(rng.standard_normal((*batch, m, k)).astype(dtype), a_layout)
    b = lay(rng.standard_normal((*batch, k, n)).astype(dtype), b_layout)
    added = rng.standard_normal(n).astype(dtype) if bias else None
    out = np.full((*batch, m, n), np.nan, dtype)
    gemm.matmul(out, a, b, added)
    expected = a.astype(np.float64) @ b.astype(np.float64) + (0 if added is None else added)
    np.testing.assert_allclose(out, expected, atol=(1e-5 if dtype == np.float32 else 1e-13) * (k + 10))


@settings(max_examples=100)
@given(m=dims, n=dims, k=dims, b_layout=layouts, dtype=st.sampled_from([np.float32, np.float64]))
def test_a_row_has_the_same_bits_at_every_place(m: int, n: int, k: int, b_layout: str, dtype: type) -> None:
    """So equal rows are exact ties."""
    rng = np.random.default_rng(m + n)
    row, b = rng.standard_normal((1, k)).astype(dtype), lay(rng.standard_normal((k, n)).astype(dtype), b_layout)
    out = np.full((m, n), np.nan, dtype)
    gemm.matmul(out, np.repeat(row, m, axis=0), b, None)
    np.testing.assert_array_equal(out, np.repeat(out[:1], m, axis=0))


@settings(max_examples=150)
@given(m=dims, n=dims, k=dims, batch=st.sampled_from(BATCHES), a_layout=layouts, b_layout=layouts, bias=st.booleans(),
       wide=st.booleans())  # fmt: skip
def test_bf16_is_summed_in_float(
    m: int, n: int, k: int, batch: tuple[int, ...], a_layout: str, b_layout: str, bias: bool, wide: bool
) -> None:
    rng = np.random.default_rng(m + n)
    m, n = (min(m, 40), min(n, 40)) if batch else (m, n)
    a = lay(rng.standard_normal((*batch, m, k)).astype(bfloat16), a_layout)
    b = lay(rng.standard_normal((*batch, k, n)).astype(bfloat16), b_layout)
    added = rng.standard_normal(n).astype(bfloat16) if bias else None
    out = np.full((*batch, m, n), np.nan, np.float32 if wide else bfloat16)
    gemm.matmul(out, a, b, added)
    expected = a.astype(np.float64) @ b.astype(np.float64) + (0 if added is None else added.astype(np.float64))
    rounding = 0 if wide else 2**-8 * np.abs(expected)
    assert (np.abs(out.astype(np.float64) - expected) <= 1e-5 * (k + 10) + rounding).all()


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize(("m", "n", "k"), [(61, 67, 4101), (530, 40, 1025), (40, 530, 3001), (300, 65, 2048)])
@pytest.mark.parametrize("b_layout", ["rows", "transposed"])
@pytest.mark.parametrize("kind", ["float32", "float64", "bfloat16", "wide"])
def test_sums_over_a_long_k(kind: str, b_layout: str, m: int, n: int, k: int, count: int) -> None:
    """Gradients of weights, in blocks of k; with several threads in slices, added up in one order."""
    rng = np.random.default_rng(k)
    dtype = bfloat16 if kind in ("bfloat16", "wide") else np.dtype(kind)
    a = lay(rng.standard_normal((m, k)).astype(dtype), "transposed")
    b = lay(rng.standard_normal((k, n)).astype(dtype), b_layout)
    out, again = (np.full((m, n), np.nan, np.float32 if kind == "wide" else dtype) for _ in range(2))
    with threads.num_threads(count):
        gemm.matmul(out, a, b)
        gemm.matmul(again, a, b)
    expected = a.astype(np.float64) @ b.astype(np.float64)
    rounding = 2**-8 * np.abs(expected) if kind == "bfloat16" else 0
    assert (np.abs(out.astype(np.float64) - expected) <= (1e-11 if kind == "float64" else 1e-3) + rounding).all()
    np.testing.assert_array_equal(out, again)


def test_bf16_products_keep_nan_and_infinity() -> None:
    a, b = np.ones((3, 5), bfloat16), np.ones((5, 4), bfloat16)
    a[0, 4], a[1, 1], b[2, 3] = np.nan, np.inf, -np.inf
    out = np.empty((3, 4), bfloat16)
    gemm.matmul(out, a, b)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(out.astype(np.float32), a.astype(np.float32) @ b.astype(np.float32))


@pytest.mark.parametrize(("shape", "message"), [((4, 3), "does not fit"), ((2, 4), "does not fit")])
def test_what_does_not_fit_is_refused(shape: tuple[int, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        gemm.matmul(np.empty((2, 3)), np.ones((2, 5)), np.ones(shape))


@pytest.mark.parametrize(("a", "b", "batch"), [
    ((3, 2, 0), (0, 4), (3,)), ((1, 2, 5), (5, 4), (3,)), ((2, 5), (3, 5, 4), (3,)),
    ((2, 1, 2, 5), (40, 5, 4), (2, 40)),
    ((1, 700), (700, 9), ()), ((9, 700), (700, 1), ()), ((4, 33), (33, 5), ()),
])  # fmt: skip
@pytest.mark.parametrize("transposed", [False, True])
def test_batches_that_broadcast_and_skinny_products(
    a: tuple[int, ...], b: tuple[int, ...], batch: tuple[int, ...], transposed: bool
) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal(a), lay(rng.standard_normal(b), "transposed" if transposed else "rows")
    out = np.full((*batch, a[-2], b[-1]), np.nan)
    gemm.matmul(out, x, y)
    np.testing.assert_allclose(out, np.broadcast_to(x @ y, out.shape), atol=1e-11)


@pytest.mark.parametrize(("a", "b", "out"), [((3, 2, 2), (2, 2), (2, 2, 2)), ((1, 2, 2), (2, 2), (2, 2))])
def test_a_batch_that_does_not_broadcast_is_refused(
    a: tuple[int, ...], b: tuple[int, ...], out: tuple[int, ...]
) -> None:
    with pytest.raises(ValueError, match=r"does not (fit|broadcast)"):
        gemm.matmul(np.empty(out), np.ones(a), np.ones(b))


@pytest.mark.parametrize("batch", BATCHES, ids=str)
@pytest.mark.parametrize(("m", "n", "k"), [(1, 40, 9), (5, 3, 1100), (33, 34, 17), (3, 1, 8)])
def test_residual_and_activation(m: int, n: int, k: int, batch: tuple[int, ...]) -> None:
    rng = np.random.default_rng(m)
    a, b, residual = (rng.standard_normal((*batch, *s)) for s in ((m, k), (k, n), (m, n)))
    bias = rng.standard_normal(n)
    for activation in (None, "relu"):
        out, before = np.full((*batch, m, n), np.nan), np.full((*batch, m, n), np.nan)
        gemm.matmul(out, a, b, bias, activation, (), None if activation is None else before, residual)
        expected = a @ b + bias + residual
        np.testing.assert_allclose(out, expected if activation is None else np.maximum(expected, 0), atol=1e-11)
        if activation is not None:
            np.testing.assert_allclose(before, expected, atol=1e-11)


def test_residual_is_like_the_output() -> None:
    x = np.zeros((4, 4), np.float32)
    for wrong in (np.zeros((4, 3), np.float32), np.zeros((4, 4)), np.zeros((8, 8), np.float32)[::2, ::2]):
        with pytest.raises(ValueError, match="residual"):
            gemm.matmul(np.empty((4, 4), np.float32), x, x, residual=wrong)
    narrow = x.astype(bfloat16)
    with pytest.raises(TypeError, match="residual"):
        gemm.matmul(np.empty((4, 4), np.float32), narrow, narrow, residual=x)


@pytest.mark.parametrize("batch", [(2,), (2, 3)])
@pytest.mark.parametrize("cut", [np.s_[..., :-1, :], np.s_[..., ::2, :], np.s_[..., :, :-1]])
def test_an_output_that_is_not_contiguous_is_refused_and_left_alone(
    batch: tuple[int, ...], cut: tuple[object, ...]
) -> None:
    whole = np.full((*batch, 5, 7), 7, np.float32)
    out = whole[cut]
    a, b = np.ones((*out.shape[:-1], 4), np.float32), np.ones((4, out.shape[-1]), np.float32)
    with pytest.raises(ValueError, match="out and bias must be C-contiguous"):
        gemm.matmul(out, a, b)
    assert (whole == 7).all()
