"""Elementwise ops against NumPy (and SciPy's special functions)."""

from __future__ import annotations

import numpy as np
from scipy import special

import pdl

from .case import Case, Draws, forward

draw = Draws(10)
f, distinct, c, i, b = draw.f, draw.distinct, draw.c, draw.i, draw.b


def table(rows: list[tuple], **common: object) -> list[Case]:
    return [Case(function, inputs, reference, **common) for function, inputs, reference in rows]  # type: ignore[arg-type]


def away(*shape: int) -> np.ndarray:
    """Values in +-[0.3, 1.3)."""
    return np.where(b(*shape), 1, -1) * f(*shape, low=0.3, high=1.3)


def real_input(x):
    return pdl.exp(pdl.real(x)) * pdl.imag(x)


POSITIVE = table([
    (pdl.log, [f(3, 4, low=0.3, high=2.0)], np.log),
    (pdl.log1p, [f(3, 4, low=-0.5)], np.log1p),
    (pdl.log2, [f(5, low=0.3, high=2.0)], np.log2),
    (pdl.log10, [f(5, low=0.3, high=2.0)], np.log10),
    (pdl.sqrt, [f(3, 4, low=0.3, high=2.0)], np.sqrt),
    (pdl.rsqrt, [f(3, 4, low=0.3, high=2.0)], lambda x: 1 / np.sqrt(x)),
    (pdl.acosh, [f(5, low=1.3, high=3.0)], np.arccosh),
    (pdl.erfinv, [f(7, low=-0.95, high=0.95)], special.erfinv),
], bf16=8e-2)  # fmt: skip

ANY = table([
    (pdl.negative, [f(3, 4)], np.negative),
    (pdl.abs, [away(3, 4)], np.abs),
    (pdl.sign, [away(3, 4)], np.sign),
    (pdl.square, [f(3, 4)], np.square),
    (pdl.reciprocal, [away(3, 4)], np.reciprocal),
    (pdl.exp, [f(3, 4)], np.exp),
    (pdl.exp, [f()], np.exp),
    (pdl.exp, [f(0, 3)], np.exp),
    (pdl.expm1, [f(3, 4)], np.expm1),
    (pdl.sin, [f(3, 4)], np.sin),
    (pdl.cos, [f(3, 4)], np.cos),
    (pdl.tan, [f(3, 4)], np.tan),
    (pdl.asin, [f(5, low=-0.8, high=0.8)], np.arcsin),
    (pdl.acos, [f(5, low=-0.8, high=0.8)], np.arccos),
    (pdl.atan, [f(5)], np.arctan),
    (pdl.sinh, [f(5)], np.sinh),
    (pdl.cosh, [f(5)], np.cosh),
    (pdl.tanh, [f(5)], np.tanh),
    (pdl.asinh, [f(5)], np.arcsinh),
    (pdl.atanh, [f(5, low=-0.8, high=0.8)], np.arctanh),
    (pdl.erf, [f(9, low=-5, high=5)], special.erf),
    (pdl.erfc, [f(9, low=-5, high=5)], special.erfc),
])  # fmt: skip

STEPS = table([
    (pdl.floor, [distinct(3, 4)], np.floor),
    (pdl.ceil, [distinct(3, 4)], np.ceil),
    (pdl.trunc, [distinct(3, 4)], np.trunc),
    (pdl.round, [distinct(3, 4)], np.rint),
    (pdl.round, [i(3, 4)], np.rint),
    (pdl.isnan, [np.array([1.0, np.nan, np.inf])], np.isnan),
    (pdl.isinf, [np.array([1.0, np.nan, np.inf])], np.isinf),
    (pdl.isfinite, [np.array([1.0, np.nan, np.inf])], np.isfinite),
    (pdl.logical_not, [b(3, 4)], np.logical_not),
    (pdl.bitwise_invert, [i(3, 4)], np.invert),
], differentiable=())  # fmt: skip

COMPLEX = table([
    (pdl.conj, [c(3, 4)], np.conj),
    (pdl.real, [c(3, 4)], np.real),
    (pdl.imag, [c(3, 4)], np.imag),
    (pdl.angle, [c(3, 4)], np.angle),
    (pdl.abs, [c(3, 4)], np.abs),
    (pdl.sign, [c(3, 4)], lambda x: x / np.abs(x)),
    (pdl.negative, [c(3)], np.negative),
    (pdl.square, [c(3)], np.square),
    (pdl.sqrt, [c(3)], np.sqrt),
    (pdl.rsqrt, [c(3)], lambda x: 1 / np.sqrt(x)),
    (pdl.reciprocal, [c(3)], np.reciprocal),
    (pdl.exp, [c(3)], np.exp),
    (pdl.log, [c(3)], np.log),
    (pdl.sin, [c(3)], np.sin),
    (pdl.cos, [c(3)], np.cos),
    (pdl.tanh, [c(3)], np.tanh),
    (pdl.asin, [c(3)], np.arcsin),
    (pdl.acosh, [c(3)], np.arccosh),
    (pdl.atan, [c(3)], np.arctan),
    (pdl.add, [c(2, 3), c(3)], np.add),
    (pdl.multiply, [c(2, 3), c(3)], np.multiply),
    (pdl.multiply, [f(2, 3), c(3)], np.multiply),
    (pdl.divide, [c(2, 3), c(3)], np.divide),
    (pdl.pow, [c(3), c(3)], np.power),
    (pdl.make_complex, [f(3), f(3)], lambda x, y: x + 1j * y),
    (real_input, [c(3)], lambda x: np.exp(x.real) * x.imag),
])  # fmt: skip

TWO = table([
    (pdl.add, [f(3, 4), f(3, 4)], np.add),
    (pdl.add, [f(3, 1), f(2, 1, 4)], np.add),
    (pdl.add, [i(3, 4), i(4)], np.add),
    (pdl.subtract, [f(3, 4), f(4)], np.subtract),
    (pdl.multiply, [f(3, 4), f()], np.multiply),
    (pdl.multiply, [f(3, 1), f(1, 4)], np.multiply),
    (pdl.divide, [f(3, 4), away(3, 4)], np.divide),
    (pdl.divide, [f(4), away(3, 4)], np.divide),
    (pdl.pow, [f(3, 4, low=0.3, high=1.5), f(3, 4)], np.power),
    (pdl.pow, [f(3, 4, low=0.3, high=1.5), f(4)], np.power),
    (pdl.pow, [i(3, 4), i(4)], np.power),
    (pdl.floor_divide, [distinct(3, 4), away(4)], np.floor_divide),
    (pdl.remainder, [distinct(3, 4), away(4)], np.remainder),
    (pdl.remainder, [i(3, 4), i(4, low=1)], np.remainder),
    (pdl.maximum, [distinct(3, 4), distinct(4, gap=0.11)], np.maximum),
    (pdl.minimum, [distinct(3, 4), distinct(4, gap=0.11)], np.minimum),
    (pdl.atan2, [away(3, 4), away(4)], np.arctan2),
    (pdl.hypot, [away(3, 4), away(4)], np.hypot),
    (pdl.logaddexp, [f(3, 4), f(4)], np.logaddexp),
    (pdl.equal, [i(9), i(9)], np.equal),
    (pdl.not_equal, [i(9), i(9)], np.not_equal),
    (pdl.less, [f(9), f(9)], np.less),
    (pdl.less_equal, [i(9), i(9)], np.less_equal),
    (pdl.greater, [f(9), f(9)], np.greater),
    (pdl.greater_equal, [i(9), i(9)], np.greater_equal),
    (pdl.logical_and, [b(9), b(9)], np.logical_and),
    (pdl.logical_or, [b(9), b(9)], np.logical_or),
    (pdl.logical_xor, [b(9), b(9)], np.logical_xor),
    (pdl.bitwise_and, [i(9), i(9)], np.bitwise_and),
    (pdl.bitwise_or, [b(9), b(9)], np.bitwise_or),
    (pdl.bitwise_xor, [i(9), i(9)], np.bitwise_xor),
    (pdl.bitwise_left_shift, [i(9), i(9)], np.left_shift),
    (pdl.bitwise_right_shift, [i(9, high=99), i(9)], np.right_shift),
], bf16=8e-2)  # fmt: skip
for case in TWO:
    if case.function in (pdl.floor_divide, pdl.remainder):
        case.bf16, case.why = None, "the quotient of rounded inputs may cross an integer"
    if case.function in (pdl.floor_divide, pdl.less, pdl.greater):
        case.differentiable = ()

OTHERS = [
    Case(pdl.where, [b(3, 4), f(3, 4), f(4)], np.where),
    Case(pdl.where, [b(4), f(), f(3, 4)], np.where),
    *[Case(pdl.where, [b(20, 30), x, y], np.where, grad=[])
      for x, y in ((f(30), f(20, 1)), (np.zeros(()), f(20, 30)), (i(20, 30), np.array(0)), (c(20, 30), c(30)))],
    Case(pdl.clip, [distinct(3, 4)], np.clip, {"min": -0.3, "max": 0.2}),
    Case(pdl.clip, [distinct(3, 4)], lambda x, min: np.maximum(x, min), {"min": 0.2}),
    Case(pdl.clip, [distinct(3, 4)], lambda x, max: np.minimum(x, max), {"max": 0.2}),
    Case(pdl.clip, [distinct(3, 4), distinct(4, gap=0.03)], np.maximum),
    Case(pdl.clip, [i(3, 4)], np.clip, {"min": 1, "max": 3}),
    Case(pdl.astype, [f(3)], lambda x, dtype: x.astype(dtype), {"dtype": "float32"}, atol=1e-6, second=False, grad=[],
         why="the gradient of rounding is checked elsewhere"),
    Case(pdl.astype, [f(3)], lambda x, dtype: x.astype(dtype), {"dtype": "complex128"}, float32=None, bf16=None,
         why="the result has its own dtype"),
    Case(pdl.astype, [c(3)], lambda x, dtype: x.real, {"dtype": "float64"}),
    forward(pdl.astype, [f(3) * 9], lambda x, dtype: x.astype(dtype), {"dtype": "int32"}),
    Case(pdl.sum_to, [f(2, 3, 4)], lambda x, shape: x.sum((0, 2), keepdims=True)[0], {"shape": (3, 1)}),
    Case(pdl.sum_to, [f(30, 50, 4)], lambda x, shape: x.sum((0, 1)), {"shape": (4,)}, grad=[]),
    Case(pdl.pow, [away(3, 4)], lambda x, b: x ** float(b), {"b": 3}),
    Case(pdl.pow, [f(3, 4)], lambda x, b: x ** float(b), {"b": 2}),
    Case(pdl.pow, [f(3, low=0.3)], lambda x, b: x ** float(b), {"b": 0.5}),
    Case(pdl.pow, [f(3, low=0.3)], lambda x, b: x ** float(b), {"b": -0.5}),
    Case(pdl.pow, [away(3)], lambda x, b: x ** float(b), {"b": -1}),
]  # fmt: skip

CASES = [*POSITIVE, *ANY, *STEPS, *COMPLEX, *TWO, *OTHERS]
