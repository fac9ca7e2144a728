"""Elementwise kernels: errors in ulp, special values, gradients' slopes, every size of tail, broadcasting."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from pdl.errors import DtypeError, ShapeError
from pdl.kernels import pointwise

Array = np.ndarray
erf = np.frompyfunc(math.erf, 1, 1)
erfc = np.frompyfunc(math.erfc, 1, 1)


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def softplus(x: Array) -> Array:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def mish_gate(x: Array) -> Array:
    e = np.exp(np.minimum(x, 40))
    return e * (e + 2) / (e * (e + 2) + 2)


def normal(x: Array) -> Array:
    """The normal distribution function; math.erfc is good to an ulp, its argument is corrected to first order."""
    wide = x.astype(np.longdouble)
    t = -wide / np.sqrt(np.longdouble(2))
    near = t.astype(np.float64)
    tail = erfc(near).astype(np.longdouble) - (t - near) * 2 / np.sqrt(np.pi) * np.exp(-(t**2))
    return (tail / 2).astype(x.dtype)


def gelu_tanh_gate(x: Array) -> Array:
    return sigmoid(2 * np.sqrt(x.dtype.type(2) / x.dtype.type(np.pi)) * (x + x.dtype.type("0.044715") * x**3))


# name: (reference in a wider type, low, high, ulp of float32, ulp of float64)
ACCURACY: dict[str, tuple[Callable[[Array], Array], float, float, float, float]] = {
    "exp": (np.exp, -87, 88.7, 1.5, 1.5),
    "expm1": (np.expm1, -30, 88, 2, 2),
    "log": (np.log, 1e-30, 1e30, 1.5, 1.5),
    "log1p": (np.log1p, -0.999, 1e4, 3, 3),
    "tanh": (np.tanh, -10, 10, 3, 3),
    "sigmoid": (sigmoid, -80, 80, 3, 3),
    "softplus": (softplus, -80, 80, 4, 4),
    "log_sigmoid": (lambda x: -softplus(-x), -80, 80, 4, 4),
    "erf": (lambda x: erf(x.astype(np.float64)).astype(x.dtype), -6, 6, 3, 4),
    "erfc": (lambda x: erfc(x.astype(np.float64)).astype(x.dtype), -6, 9, 6, 6),
    "gelu": (lambda x: x * normal(x), -12.9, 13, 6, 6),
    "gelu_tanh": (lambda x: x * gelu_tanh_gate(x), -4, 12, 40, 40),
    "silu": (lambda x: x * sigmoid(x), -80, 80, 4, 4),
    "mish": (lambda x: x * mish_gate(x), -40, 40, 5, 5),
}


def samples(low: float, high: float, dtype: type) -> Array:
    """Even and, towards 0, geometric: small arguments are where relative errors hide."""
    even = np.linspace(low, high, 20001)
    small = np.geomspace(1e-6, min(abs(low), 1) if low < 0 else low * 2, 2001)
    return np.concatenate([even, small, -small if low < 0 else small]).astype(dtype)


@pytest.mark.parametrize("name", ACCURACY)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_error_in_ulp(name: str, dtype: type) -> None:
    reference, low, high, single, double = ACCURACY[name]
    bound = single if dtype is np.float32 else double
    x = samples(low, high, dtype)
    y = np.empty_like(x)
    pointwise.unary(name, y, x, 1.0)
    exact = reference(x.astype(np.float64 if dtype is np.float32 else np.longdouble))
    ulp = np.spacing(np.maximum(np.abs(exact.astype(dtype)), np.finfo(dtype).tiny))
    error = np.abs(y.astype(exact.dtype) - exact) / ulp
    assert error.max() <= bound, f"{error.max():.2f} ulp at {x[error.argmax()]!r}"


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_special_values(dtype: type) -> None:
    x = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0], dtype)
    limits = {
        "relu": [np.nan, np.inf, 0, 0, 0], "exp": [np.nan, np.inf, 0, 1, 1], "expm1": [np.nan, np.inf, -1, 0, 0],
        "log": [np.nan, np.inf, np.nan, -np.inf, -np.inf], "log1p": [np.nan, np.inf, np.nan, 0, 0],
        "tanh": [np.nan, 1, -1, 0, 0], "sigmoid": [np.nan, 1, 0, 0.5, 0.5], "erf": [np.nan, 1, -1, 0, 0],
        "erfc": [np.nan, 0, 2, 1, 1], "gelu": [np.nan, np.inf, 0, 0, 0], "gelu_tanh": [np.nan, np.inf, 0, 0, 0],
        "silu": [np.nan, np.inf, 0, 0, 0], "mish": [np.nan, np.inf, 0, 0, 0], "hardswish": [np.nan, np.inf, 0, 0, 0],
        "hardsigmoid": [np.nan, 1, 0, 0.5, 0.5], "log_sigmoid": [np.nan, 0, -np.inf, -math.log(2), -math.log(2)],
        "softplus": [np.nan, np.inf, 0, math.log(2), math.log(2)], "elu": [np.nan, np.inf, -1, 0, 0],
    }  # fmt: skip
    y = np.empty_like(x)
    for name, expected in limits.items():
        pointwise.unary(name, y, x, 1.0, 1.0, 1.0)
        np.testing.assert_allclose(y, np.array(expected, dtype), rtol=1e-6, err_msg=name)
    for name in ("tanh", "erf", "expm1", "log1p", "negative"):
        pointwise.unary(name, y, x)
        assert np.signbit(y[4]) == (name != "negative"), name


def test_extremes() -> None:
    x = np.array([88.7, 88.8, -87.3, -89, -104, 1e-39], np.float32)
    y = np.empty_like(x)
    pointwise.unary("exp", y, x)
    np.testing.assert_allclose(y, [np.exp(np.float64(x[0])), np.inf, np.exp(np.float64(x[2])), 0, 0, 1], rtol=1e-6)
    pointwise.unary("log", y, x)
    assert y[5] == -np.inf, "subnormal numbers count as 0"


PARAMETERS = {"clip": (-0.5, 1.5), "leaky_relu": (0.1,), "elu": (0.7, 1.2, 0.8), "softplus": (1.5,)}


@pytest.mark.parametrize("name", pointwise.GRADIENT_OF)
def test_gradient_is_the_slope(name: str) -> None:
    rng = np.random.default_rng(3)
    x = rng.uniform(0.1 if name == "log" else -5, 5, 1003)
    g, y, low, high, dx = rng.standard_normal(x.shape), *(np.empty_like(x) for _ in range(4))
    args = PARAMETERS.get(name, ())
    pointwise.unary(name, y, x, *args)
    pointwise.unary(name, low, x - 1e-6, *args)
    pointwise.unary(name, high, x + 1e-6, *args)
    pointwise.unary_grad(name, dx, g, y if pointwise.GRADIENT_OF[name] == "y" else x, *args)
    np.testing.assert_allclose(dx, g * (high - low) / 2e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_tail_and_thread_split(dtype: type) -> None:
    for n in [*range(70), 70001]:
        x = np.linspace(-1, 1, n, dtype=dtype)
        padded = np.full(n + 2, 7, dtype)
        pointwise.unary("square", padded[1:-1], x)
        assert padded[0] == padded[-1] == 7
        np.testing.assert_array_equal(padded[1:-1], x * x)


NUMPY = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "maximum": np.maximum,
    "minimum": np.minimum,
}


@pytest.mark.parametrize("name", NUMPY)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_binary(name: str, dtype: type) -> None:
    rng = np.random.default_rng(4)
    a = rng.standard_normal((3, 5, 19)).astype(dtype)
    a[0, 0, :2] = np.nan
    out = np.empty_like(a)
    for shape in [(3, 5, 19), (19,), (1, 1, 19), (), (1,), (5, 19), (3, 1, 19), (3, 1, 1), (3, 5, 1)]:
        b = np.asarray(rng.standard_normal(shape), dtype)
        for p, q in ((a, b), (b, a)):
            pointwise.binary(name, out, p, q)
            np.testing.assert_allclose(out, NUMPY[name](p, q), rtol=1e-6)


def test_refusals() -> None:
    x, y = np.zeros((4, 6)), np.zeros((4, 6))
    with pytest.raises(ShapeError, match="24 elements, 12 are expected"):
        pointwise.unary("exp", y, x[:2])
    with pytest.raises(ShapeError, match="not contiguous"):
        pointwise.unary("exp", y, np.asfortranarray(np.zeros((4, 6))))
    with pytest.raises(DtypeError, match="int64"):
        pointwise.unary("exp", y, x.astype(np.int64))
    with pytest.raises(DtypeError, match="float32"):
        pointwise.unary("exp", y.astype(np.float32), x)
    with pytest.raises(ShapeError, match="neither"):
        pointwise.binary("add", np.zeros((2, 3, 4, 5)), np.zeros((2, 3, 4, 5)), np.zeros((2, 1, 4, 1)))
    with pytest.raises(KeyError):
        pointwise.unary("expo", y, x)
