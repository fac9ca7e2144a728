"""Activations against NumPy (and SciPy's special functions)."""

from __future__ import annotations

import numpy as np
from scipy import special

import pdl

from .case import Case, Draws

draw = Draws(1)
f, distinct = draw.f, draw.distinct


def sigmoid(x):
    return special.expit(x)


def softmax(x, axis=-1):
    return special.softmax(x, axis=axis)


def elu(x, alpha=1.0):
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def celu(x, alpha=1.0):
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0) / alpha))


def gelu(x, approximate="none"):
    if approximate == "none":
        return x * special.ndtr(x)
    return x * sigmoid(2 * np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))


def glu(x, axis=-1):
    a, b = np.split(x, 2, axis=axis)
    return a * sigmoid(b)


def prelu(x, w):
    return np.where(x > 0, x, x * w)


X = distinct(5, 9)  # -2.2 .. 2.2
WIDE = distinct(5, 9, gap=0.31)  # -7 .. 7: beyond the kinks at 3 and 6

CASES = [
    Case(pdl.relu, [X], lambda x: np.maximum(x, 0)),
    Case(pdl.relu, [f()], lambda x: np.maximum(x, 0)),
    Case(pdl.relu, [f(0, 3)], lambda x: np.maximum(x, 0)),
    Case(pdl.relu6, [WIDE], lambda x: np.clip(x, 0, 6)),
    Case(pdl.hardtanh, [X], lambda x, low, high: np.clip(x, low, high), {"low": -0.5, "high": 1.5}),
    Case(
        pdl.leaky_relu, [X], lambda x, negative_slope: np.where(x > 0, x, negative_slope * x), {"negative_slope": 0.1}
    ),
    Case(pdl.prelu, [X, f(9)], prelu),
    Case(pdl.prelu, [X, f(1)], prelu),
    Case(pdl.elu, [X], elu, {"alpha": 0.7}),
    Case(pdl.selu, [X], lambda x: 1.0507009873554805 * elu(x, 1.6732632423543772)),
    Case(pdl.celu, [X], celu, {"alpha": 1.3}),
    Case(pdl.hardsigmoid, [WIDE], lambda x: np.clip(x / 6 + 0.5, 0, 1)),
    Case(pdl.hardswish, [WIDE], lambda x: x * np.clip(x / 6 + 0.5, 0, 1)),
    Case(pdl.sigmoid, [WIDE], sigmoid),
    Case(pdl.log_sigmoid, [WIDE], special.log_expit),
    Case(pdl.softplus, [WIDE], lambda x: np.logaddexp(0, x)),
    Case(pdl.softplus, [X], lambda x, beta: np.logaddexp(0, beta * x) / beta, {"beta": 2.5}),
    Case(pdl.softsign, [X], lambda x: x / (1 + np.abs(x))),
    Case(pdl.gelu, [WIDE], gelu),
    Case(pdl.gelu, [WIDE], gelu, {"approximate": "tanh"}),
    Case(pdl.silu, [WIDE], lambda x: x * sigmoid(x)),
    Case(pdl.mish, [WIDE], lambda x: x * np.tanh(np.logaddexp(0, x))),
    Case(pdl.glu, [f(3, 8)], glu),
    Case(pdl.glu, [f(4, 3)], glu, {"axis": 0}),
    Case(pdl.softmax, [f(3, 5)], softmax),
    Case(pdl.softmax, [f(2, 19)], softmax),
    Case(pdl.softmax, [f(2, 4, 3)], softmax, {"axis": 1}),
    Case(pdl.log_softmax, [f(3, 5)], lambda x: special.log_softmax(x, axis=-1)),
    Case(pdl.log_softmax, [f(4, 3)], lambda x, axis: special.log_softmax(x, axis=axis), {"axis": 0}),
]
