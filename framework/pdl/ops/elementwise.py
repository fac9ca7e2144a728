"""Elementwise functions with gradients: arithmetic, powers, trigonometry, choices.

Most are one line of a table: the name, NumPy's function, the formula, and the gradient written in ops. Gradients of
complex values are dL/dRe + i dL/dIm, so that of a holomorphic f is ``g * conj(f'(x))``.
"""

from __future__ import annotations

import math
from typing import Any, cast, overload

import numpy as np

from pdl.dtype import Array, bfloat16, bool_, is_complex, is_differentiable, real_of
from pdl.errors import DtypeError, UsageError
from pdl.kernels.copies import contiguous, select
from pdl.kernels.launch import now
from pdl.kernels.pointwise import unary as unary_kernel
from pdl.ops import special
from pdl.ops.base import Arrays, Op, Spec, apply, not_differentiable
from pdl.ops.broadcast import unbroadcast
from pdl.ops.cast import astype as astype  # op files find all elementwise functions here
from pdl.ops.cast import conj, real
from pdl.ops.cast import imag as imag
from pdl.ops.cast import make_complex as make_complex
from pdl.ops.checks import broadcast_shapes, check_kind
from pdl.ops.index import nonzero
from pdl.ops.logic import *  # noqa: F403
from pdl.ops.logic import equal, greater
from pdl.ops.table import SCALARS, Binary, Unary, beside, binary, pair, unary
from pdl.tensor import Scalar, Tensor, TensorLike, as_tensor

STEP = not_differentiable("it is piecewise constant")


def _reciprocal_sqrt(x: Array, out: Array) -> None:
    np.divide(1, np.sqrt(x, out), out)


def _round(x: Array, out: Array) -> None:
    np.rint(x, out) if x.dtype.kind in "fc" else np.copyto(out, x)


def _expm1(x: Array, out: Array) -> None:
    np.expm1(x, out)
    if x.dtype.kind == "c" and not (finite := np.isfinite(x)).all():  # NumPy's has NaN where e^x has a limit
        np.subtract(np.exp(x), 1, out, where=~finite)


def _sign(x: Array, out: Array) -> None:
    np.sign(x, out)
    if x.dtype.kind == "c" and (unknown := np.isnan(x)).any():
        np.copyto(out, complex(math.nan, math.nan), where=unknown)


def _tanh(x: Array, out: Array) -> None:
    np.tanh(x, out)
    if x.dtype.kind == "c" and (far := np.isinf(x.real)).any():
        np.copyto(out.imag, np.copysign(0, x.imag), where=far)  # NumPy's has the sign of sin(2 Im x)


def _tan(x: Array, out: Array) -> None:
    np.tan(x, out)
    if x.dtype.kind == "c" and (far := np.isinf(x.imag)).any():
        np.copyto(out.real, np.copysign(0, x.real), where=far)


def _floor_divide(a: Array, b: Array, out: Array) -> None:
    np.floor_divide(a, b, out)
    if out.dtype.kind == "f" and (far := np.isinf(a) | np.isinf(b)).any():  # Python's rule has NaN and -1 there
        np.copyto(out, np.floor(np.divide(a, b)), where=far)


def _sign_gradient(g: Tensor, y: Tensor, x: Tensor) -> Tensor:
    if not is_complex(x.dtype):
        return g * 0
    return where(equal(x, 0), 0, (g - y * real(conj(y) * g)) / abs(x))


_two_over_sqrt_pi = 2 / math.sqrt(math.pi)
_dead = "Gradient: none (piecewise constant)."
negative = unary("negative", np.negative, "-x.", lambda g, y, x: -g, "ifc")
abs = unary(
    "abs", np.absolute, "|x|; the modulus of a complex x. Gradient 0 at 0.", lambda g, y, x: g * sign(x), "ifc", real_of
)
sign: Unary = unary("sign", _sign, "x / |x|, and 0 at 0.", _sign_gradient, "ifc")
square = unary("square", np.square, "x^2.", lambda g, y, x: g * conj(x) * 2, "ifc")
sqrt = unary("sqrt", np.sqrt, "Square root; NaN below 0.", lambda g, y, x: g / conj(y * 2))
rsqrt = unary("rsqrt", _reciprocal_sqrt, "1 / sqrt(x).", lambda g, y, x: g * conj(y * square(y)) * -0.5)
reciprocal = unary("reciprocal", np.reciprocal, "1 / x.", lambda g, y, x: -g * conj(square(y)))
exp: Unary = unary("exp", np.exp, "e^x.", lambda g, y, x: g * conj(y))
expm1 = unary("expm1", _expm1, "e^x - 1, precise near 0.", lambda g, y, x: g * conj(y + 1))
log = unary("log", np.log, "Natural logarithm; NaN below 0.", lambda g, y, x: g / conj(x))
log1p = unary("log1p", np.log1p, "log(1 + x), precise near 0.", lambda g, y, x: g / conj(x + 1))
log2 = unary("log2", np.log2, "Logarithm to base 2.", lambda g, y, x: g / conj(x * math.log(2)))
log10 = unary("log10", np.log10, "Logarithm to base 10.", lambda g, y, x: g / conj(x * math.log(10)))
sin: Unary = unary("sin", np.sin, "Sine (radians).", lambda g, y, x: g * conj(cos(x)))
cos: Unary = unary("cos", np.cos, "Cosine (radians).", lambda g, y, x: -g * conj(sin(x)))
tan = unary("tan", _tan, "Tangent (radians).", lambda g, y, x: g * conj(square(y) + 1))
asin = unary("asin", np.arcsin, "Arc sine, in radians.", lambda g, y, x: g * conj(rsqrt(1 - square(x))))
acos = unary("acos", np.arccos, "Arc cosine, in radians.", lambda g, y, x: -g * conj(rsqrt(1 - square(x))))
atan = unary("atan", np.arctan, "Arc tangent, in radians.", lambda g, y, x: g / conj(square(x) + 1))
sinh: Unary = unary("sinh", np.sinh, "Hyperbolic sine.", lambda g, y, x: g * conj(cosh(x)))
cosh: Unary = unary("cosh", np.cosh, "Hyperbolic cosine.", lambda g, y, x: g * conj(sinh(x)))
tanh = unary("tanh", _tanh, "Hyperbolic tangent.", lambda g, y, x: g * conj(1 - square(y)))
asinh = unary("asinh", np.arcsinh, "Inverse hyperbolic sine.", lambda g, y, x: g * conj(rsqrt(square(x) + 1)))
acosh = unary(
    "acosh", np.arccosh, "Inverse hyperbolic cosine; x >= 1.", lambda g, y, x: g * conj(rsqrt(x - 1) * rsqrt(x + 1))
)
atanh = unary("atanh", np.arctanh, "Inverse hyperbolic tangent.", lambda g, y, x: g / conj(1 - square(x)))
erf = unary("erf", special.erf, "Error function.", lambda g, y, x: g * exp(-square(x)) * _two_over_sqrt_pi, "f")
erfc = unary(
    "erfc",
    special.erfc,
    "1 - erf(x), precise for large x.",
    lambda g, y, x: g * exp(-square(x)) * -_two_over_sqrt_pi,
    "f",
)
erfinv = unary(
    "erfinv", special.erfinv, "Inverse of erf on [-1, 1].", lambda g, y, x: g * exp(square(y)) / _two_over_sqrt_pi, "f"
)
angle = unary(
    "angle",
    lambda x, out: np.copyto(out, np.angle(x)),
    "Argument of a complex x, in (-pi, pi].",
    lambda g, y, x: g * 1j * x / square(abs(x)),
    "c",
    real_of,
)
floor = unary("floor", np.floor, f"The largest integer <= x. {_dead}", STEP, "bif")
ceil = unary("ceil", np.ceil, f"The smallest integer >= x. {_dead}", STEP, "bif")
trunc = unary("trunc", np.trunc, f"x without its fraction. {_dead}", STEP, "bif")
positive = unary("positive", np.positive, "+x: a copy of x.", lambda g, y, x: g, "ifc")
round = unary("round", _round, f"The nearest integer, halves to even. {_dead}", STEP, "ifc")


def _larger(g: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return where(equal(a, b), g * 0.5, where(greater(a, b), g, 0))


def _unless_zero(a: Tensor, b: Tensor) -> Tensor:
    """a / b, and 0 where b is."""
    zero = equal(b, 0)
    return where(zero, 0, a / where(zero, 1, b))


def _pow_base(g: Tensor, y: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return g * conj(where(equal(b, 0), 0, b * pow(a, b - 1)))


def _pow_exponent(g: Tensor, y: Tensor, a: Tensor, b: Tensor) -> Tensor:
    zero = equal(a, 0)
    return g * conj(where(zero, 0, y * log(where(zero, 1, a))))


add = binary("add", np.add, "a + b.", (lambda g, y, a, b: g, lambda g, y, a, b: g))
subtract = binary("subtract", np.subtract, "a - b.", (lambda g, y, a, b: g, lambda g, y, a, b: -g))
multiply = binary("multiply", np.multiply, "a * b.", (lambda g, y, a, b: g * conj(b), lambda g, y, a, b: g * conj(a)))
divide = binary(
    "divide",
    np.divide,
    "a / b; integers are divided in float32.",
    (lambda g, y, a, b: g / conj(b), lambda g, y, a, b: -g * conj(y / b)),
    "fc",
)
copysign: Binary = binary(
    "copysign",
    np.copysign,
    "|a| with the sign of b, that of a zero or NaN included; the gradient of a is 0 at 0, that of b is 0.",
    (lambda g, y, a, b: g * sign(a) * copysign(1, b), lambda g, y, a, b: g * 0),
    "f",
)
nextafter = binary(
    "nextafter",
    np.nextafter,
    f"The number next to a on the way to b. {_dead}",
    not_differentiable("it counts the numbers of a dtype"),
    "f",
    native_bf16=True,
)
_power = binary("pow", np.power, "a^b.", (_pow_base, _pow_exponent))
floor_divide = binary("floor_divide", _floor_divide, f"floor(a / b). {_dead}", STEP, "if")
remainder = binary(
    "remainder",
    np.remainder,
    "a - floor(a / b) * b: has the sign of b.",
    (lambda g, y, a, b: g, lambda g, y, a, b: -g * floor(a / b)),
    "if",
)
maximum = binary(
    "maximum",
    np.maximum,
    "The larger of a and b, NaN if one is; a tie gives each half the gradient.",
    (lambda g, y, a, b: _larger(g, a, b), lambda g, y, a, b: _larger(g, b, a)),
    "bif",
)
minimum = binary(
    "minimum",
    np.minimum,
    "The smaller of a and b, NaN if one is; a tie gives each half the gradient.",
    (lambda g, y, a, b: _larger(g, b, a), lambda g, y, a, b: _larger(g, a, b)),
    "bif",
)
atan2 = binary(
    "atan2",
    np.arctan2,
    "Angle of the point (x=b, y=a), in (-pi, pi]; its gradient is 0 at the origin.",
    (
        lambda g, y, a, b: g * _unless_zero(b, square(a) + square(b)),
        lambda g, y, a, b: -g * _unless_zero(a, square(a) + square(b)),
    ),
    "f",
)
hypot = binary(
    "hypot",
    np.hypot,
    "sqrt(a^2 + b^2), without overflow; its gradient is 0 at the origin.",
    (lambda g, y, a, b: g * _unless_zero(a, y), lambda g, y, a, b: g * _unless_zero(b, y)),
    "f",
)
logaddexp = binary(
    "logaddexp",
    np.logaddexp,
    "log(e^a + e^b), without overflow.",
    (lambda g, y, a, b: g * exp(a - y), lambda g, y, a, b: g * exp(b - y)),
    "f",
)


def pow(a: TensorLike, b: TensorLike) -> Tensor:
    """a^b; the exponents 2, 1/2, -1/2 and -1 go to `square`, `sqrt`, `rsqrt` and `reciprocal`.

    The gradient is 0 where b = 0 (also at a = 0), and that of b is 0 where a = 0. Integers take no negative exponent.
    """
    if isinstance(a, Tensor) and isinstance(b, int | float):
        if isinstance(b, int) and b < 0 and not is_differentiable(a.dtype):
            raise DtypeError(f"pow: {a.dtype.name} to the power {b} is no integer; astype a float dtype first")
        short = square if b == 2 else _POWERS.get(b) if is_differentiable(a.dtype) else None
        if short is not None:
            return short(a)
    return _power(a, b)


_POWERS: dict[float, Unary] = {0.5: sqrt, -0.5: rsqrt, -1: reciprocal}


class Where(Op):
    """y = a where condition, else b; broadcast."""

    native_bf16 = native = True

    def infer(self, condition: Spec, a: Spec, b: Spec) -> Spec:
        if condition.dtype != bool_:
            raise DtypeError(f"where: the condition is {condition.dtype.name}, not bool; compare it with something")
        if a.dtype != b.dtype:
            raise DtypeError(f"where: {a.dtype.name} meets {b.dtype.name}; astype one of them")
        return Spec(broadcast_shapes("where", condition.shape, a.shape, b.shape), a.dtype)

    def cpu(self, outs: Arrays, ins: Arrays) -> None:
        (condition, a, b), y = ins, outs[0]
        if not select(y, condition, a, b):
            now("where: arrays of many axes, and complex numbers of 16 bytes")
            np.copyto(y, b)
            np.copyto(y, a, where=condition)

    def vjp(self, g: Tensor, y: Tensor, condition: Tensor, a: Tensor, b: Tensor) -> Any:
        return (
            None,
            lambda: unbroadcast(where(condition, g, 0), a.shape),
            lambda: unbroadcast(where(condition, 0, g), b.shape),
        )


_where = Where()


@overload
def where(condition: TensorLike) -> tuple[Tensor, ...]: ...
@overload
def where(condition: TensorLike, a: TensorLike, b: TensorLike) -> Tensor: ...
def where(condition: TensorLike, a: TensorLike | None = None, b: TensorLike | None = None) -> Any:
    """`a` where `condition` (bool) holds, else `b`; the three broadcast. A gradient flows only to the chosen one.

    ``where(condition)`` alone is ``nonzero(condition)``.
    """
    if a is None or b is None:
        if a is not b:
            raise UsageError("where: either a condition alone, or what is chosen where it holds and where it does not")
        return nonzero(condition)
    return apply(_where, as_tensor(condition), *pair(a, b))


class Clip(Op):
    """y = min(max(x, min), max), with Python scalars as bounds."""

    min: Scalar | None = None
    max: Scalar | None = None
    native_bf16 = native = True

    def infer(self, x: Spec) -> Spec:
        check_kind("clip", "if", x.dtype)
        if x.dtype.kind in "iu":
            limits = np.iinfo(x.dtype)
            for bound in (self.min, self.max):
                if bound is not None and not (isinstance(bound, int) and limits.min <= bound <= limits.max):
                    raise DtypeError(f"clip: the bound {bound} does not fit {x.dtype.name}")
        return x

    def cpu(self, outs: Arrays, ins: Arrays) -> None:
        (x,), (y,) = ins, outs
        if x.dtype == bfloat16 or x.dtype.kind == "f":
            low, high = (-math.inf if self.min is None else self.min), (math.inf if self.max is None else self.max)
            return unary_kernel("clip", y, contiguous(x), low, high)
        now("clip: integers are left to NumPy")
        if self.min is not None:
            x = np.maximum(x, self.min, out=y)
        if self.max is not None or x is not y:
            np.copyto(y, x) if self.max is None else np.minimum(x, self.max, out=y)

    def vjp(self, g: Tensor, y: Tensor, x: Tensor) -> Tensor:
        return where(equal(x, y), g, 0)


def clip(x: TensorLike, min: TensorLike | None = None, max: TensorLike | None = None) -> Tensor:
    """Values below `min` become `min`, those above `max` become `max`; the gradient passes within, ends included.

    Bounds are scalars, or tensors that broadcast with `x`; a NaN among them, or in `x`, makes NaN.
    """
    x = as_tensor(x)
    bounds = [v for v in (min, max) if v is not None]
    if all(isinstance(v, SCALARS) and v == v for v in bounds):
        for bound in bounds:
            x = beside(x, cast(Scalar, bound))[0]
        return cast(Tensor, apply(Clip(cast(Any, min), cast(Any, max)), x))
    x = x if min is None else maximum(x, min)
    return x if max is None else minimum(x, max)


__all__ = [
    "abs", "acos", "acosh", "add", "angle", "asin", "asinh", "atan", "atan2", "atanh", "ceil", "clip", "copysign",
    "cos", "cosh", "divide", "erf", "erfc", "erfinv", "exp", "expm1", "floor", "floor_divide", "hypot", "log",
    "log10", "log1p", "log2", "logaddexp", "maximum", "minimum", "multiply", "negative", "nextafter", "positive",
    "pow", "reciprocal", "remainder", "round", "rsqrt", "sign", "sin", "sinh", "sqrt", "square", "subtract", "tan",
    "tanh", "trunc", "where",
]  # fmt: skip
