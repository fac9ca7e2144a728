"""bfloat16 storage: every kernel equals its float32 self, rounded once; casts are those of ml_dtypes; every tail."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pdl
from pdl import threads
from pdl.dtype import bfloat16
from pdl.errors import DtypeError, ShapeError
from pdl.kernels import pointwise, softmax

Array = np.ndarray
RNG = np.random.default_rng(8)
SIZES = [*range(1, 40), 131, 70001]


def bf(*shape: int, scale: float = 2.0) -> Array:
    return np.asarray(RNG.standard_normal(shape) * scale).astype(bfloat16)


def f32(x: Array) -> Array:
    return x.astype(np.float32)


def equal(found: Array, wide: Array, *, exact: bool = True) -> None:
    """`found` is the float32 array `wide`, rounded to nearest even; subnormal numbers count as 0.

    Not `exact`: the compiler may contract products and sums otherwise, which turns a tie now and then.
    """
    with np.errstate(all="ignore"):
        want = wide.astype(bfloat16)
    one, two = f32(found), f32(want)
    two = np.where(np.abs(two) < np.finfo(np.float32).tiny, 0, two)
    one = np.where(np.abs(one) < np.finfo(np.float32).tiny, 0, one)
    np.testing.assert_array_equal(one, two) if exact else np.testing.assert_allclose(one, two, rtol=2**-7)


def test_casts() -> None:
    every = np.arange(1 << 16, dtype=np.uint16).view(bfloat16)
    wide = np.empty(every.shape, np.float32)
    pointwise.cast(wide, every)
    equal(every, wide)
    bits = RNG.integers(0, 1 << 32, 100_003, dtype=np.uint64).astype(np.uint32)
    ties = np.array([0x3F808000, 0x3F818000, 0x3F808001, 0x7F7FFFFF, 0x7F800000, 0xFF800000, 0x80000000, 0x7F800001])
    x = np.concatenate([bits, ties.astype(np.uint32)]).view(np.float32)
    for n in (x.size, *SIZES[:-1]):
        y = np.full(n + 2, 7, bfloat16)
        pointwise.cast(y[1:-1], x[-n:])
        equal(y[1:-1], x[-n:])
        assert y[0] == y[-1] == 7
    with pytest.raises(DtypeError, match="x is float64"):
        pointwise.cast(y, np.zeros(y.size))
    with pytest.raises(ShapeError, match="3 are expected"):
        pointwise.cast(y, np.zeros(3, np.float32))


PARAMETERS = {"clip": (-0.5, 1.5), "leaky_relu": (0.1,), "elu": (0.7, 1.2, 0.8), "softplus": (1.5,)}


@pytest.mark.parametrize("name", pointwise.UNARY)
def test_unary(name: str) -> None:
    x = bf(1003)
    x[:4] = np.nan, np.inf, -np.inf, 0
    y, wide = np.empty_like(x), np.empty(x.shape, np.float32)
    pointwise.unary(name, y, x, *PARAMETERS.get(name, ()))
    pointwise.unary(name, wide, f32(x), *PARAMETERS.get(name, ()))
    equal(y, wide)


@pytest.mark.parametrize("name", pointwise.GRADIENT_OF)
def test_unary_grad(name: str) -> None:
    g, ref = bf(1003), bf(1003)
    dx, wide = np.empty_like(g), np.empty(g.shape, np.float32)
    pointwise.unary_grad(name, dx, g, ref, *PARAMETERS.get(name, ()))
    pointwise.unary_grad(name, wide, f32(g), f32(ref), *PARAMETERS.get(name, ()))
    equal(dx, wide)


@pytest.mark.parametrize("name", pointwise.BINARY)
@pytest.mark.parametrize("shape", [(3, 5, 19), (19,), (), (3, 1, 19), (3, 5, 1), (3, 1, 1)], ids=str)
def test_binary(name: str, shape: tuple[int, ...]) -> None:
    a, b = bf(3, 5, 19), bf(*shape)
    out, wide = np.empty_like(a), np.empty(a.shape, np.float32)
    for p, q in ((a, b), (b, a)):
        assert pointwise.fits(out, p, q)
        pointwise.binary(name, out, p, q)
        pointwise.binary(name, wide, f32(p), f32(q))
        equal(out, wide)


def test_every_tail_and_thread_split() -> None:
    for n in SIZES:
        x, y = bf(n), np.full(n + 2, 7, bfloat16)
        pointwise.unary("square", y[1:-1], x)
        assert y[0] == y[-1] == 7
        equal(y[1:-1], f32(x) ** 2)


SUMS = [
    (1, 70001, 1),
    (1, 5, 1),
    (3, 1, 4),
    (1, 4099, 3),
    (1, 999, 64),
    (4, 49, 130),
    (20, 49, 10),
    (300, 7, 1),
    (2, 0, 3),
    (1, 40000, 7),
]


@pytest.mark.parametrize("sizes", SUMS, ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, bfloat16])
def test_sums(sizes: tuple[int, int, int], dtype: Any) -> None:
    x = RNG.standard_normal(sizes).astype(dtype)
    found = []
    for count in (1, 2, 3):
        y = np.empty((sizes[0], sizes[2]), dtype)
        with threads.num_threads(count):
            pointwise.sums(y, x, *sizes, 3.0)
        found.append(y)
    want = x.astype(np.float64).sum(1) / 3
    scale = {np.float32: 3e-7, np.float64: 1e-15, bfloat16: 5e-3}[dtype] * max(1, sizes[1]) ** 0.5
    np.testing.assert_allclose(found[0].astype(np.float64), want, rtol=1e-2 if dtype == bfloat16 else 1e-6, atol=scale)
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


@pytest.mark.parametrize("sizes", [sizes for sizes in SUMS if sizes[1]], ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, bfloat16])
def test_extremes(sizes: tuple[int, int, int], dtype: Any) -> None:
    """The same bits as NumPy's, with infinities and a NaN among the numbers."""
    x = RNG.standard_normal(sizes).astype(dtype)
    x.reshape(-1)[: 5 * (x.size // 5) : max(1, x.size // 5)] = np.inf, -np.inf, np.nan, 0, -1
    for count in (1, 3):
        for largest, ufunc in ((True, np.maximum), (False, np.minimum)):
            y = np.empty((sizes[0], sizes[2]), dtype)
            with threads.num_threads(count):
                pointwise.extremes(y, x, *sizes, largest)
            np.testing.assert_array_equal(y.astype(np.float64), ufunc.reduce(x.astype(np.float64), axis=1))


@pytest.mark.parametrize("size", [(1, 1), (5, 3), (7, 16), (9, 65), (2, 1000), (3000, 33)], ids=str)
def test_softmax_and_cross_entropy(size: tuple[int, int]) -> None:
    x, g = bf(*size, scale=5), bf(*size)
    y, wide = np.empty_like(x), np.empty(size, np.float32)
    for forward, backward in ((softmax.softmax, softmax.softmax_grad), (softmax.log_softmax, softmax.log_softmax_grad)):
        forward(y, x)
        forward(wide, f32(x))
        equal(y, wide, exact=False)
        backward(y, g, forward_of(forward, x))
        backward(wide, f32(g), f32(forward_of(forward, x)))
        equal(y, wide, exact=False)
    rows, classes = size
    labels, rest = RNG.integers(0, classes, rows), [np.empty(rows, np.float32) for _ in range(3)]
    again = [np.empty(rows, np.float32) for _ in range(3)]
    weight, slope = RNG.random(classes, np.float32), RNG.standard_normal(rows).astype(np.float32)
    for smoothing, w in ((0.0, None), (0.1, weight)):
        softmax.cross_entropy(rest[0], rest[1], x, labels, w, smoothing=smoothing)
        softmax.cross_entropy(again[0], again[1], f32(x), labels, w, smoothing=smoothing)
        np.testing.assert_allclose(rest[0], again[0], rtol=1e-6, atol=1e-6)
        softmax.cross_entropy_grad(y, slope, x, rest[1], labels, w, smoothing=smoothing)
        softmax.cross_entropy_grad(wide, slope, f32(x), rest[1], labels, w, smoothing=smoothing)
        equal(y, wide, exact=False)
        target = f32(forward_of(softmax.softmax, bf(*size)))
        softmax.soft_cross_entropy(*rest, x, target, w, smoothing=smoothing)
        softmax.soft_cross_entropy(*again, f32(x), target, w, smoothing=smoothing)
        np.testing.assert_allclose(rest, again, rtol=1e-5, atol=1e-6)
        softmax.soft_cross_entropy_grad(y, slope, x, *rest[1:], target, w, smoothing=smoothing)
        softmax.soft_cross_entropy_grad(wide, slope, f32(x), *rest[1:], target, w, smoothing=smoothing)
        equal(y, wide, exact=False)


def forward_of(function: Any, x: Array) -> Array:
    y = np.empty_like(x)
    function(y, x)
    return y


@pytest.mark.parametrize("channels", [1, 3, 4, 7, 8, 16, 33, 64, 70])
@pytest.mark.parametrize(("k", "s"), [(2, 2), (3, 2), (3, 1), (2, 3)])
def test_pooling(channels: int, k: int, s: int) -> None:
    x = bf(2, 9, 7, channels)
    for pool in (pdl.max_pool, pdl.avg_pool):
        one, two = pdl.Tensor(x, requires_grad=True), pdl.Tensor(f32(x), requires_grad=True)
        y, wide = pool(one, k, stride=s), pool(two, k, stride=s)
        assert y.dtype == bfloat16
        equal(y.data, wide.data)
        g = bf(*y.shape)
        y.backward(pdl.Tensor(g))
        wide.backward(pdl.Tensor(f32(g)))
        assert one.grad is not None
        assert two.grad is not None
        equal(one.grad.data, two.grad.data)
