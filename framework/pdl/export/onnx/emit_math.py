"""Elementwise ops: arithmetic, comparisons, activations, casts, choices. They keep the layout of their inputs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from pdl.export.onnx.graph import Graph
from pdl.export.onnx.registry import Result, emits
from pdl.ops import activation as act
from pdl.ops.base import OPS, Op, Spec
from pdl.ops.cast import AsType
from pdl.ops.elementwise import Clip, Where
from pdl.program.ir import Value

#: op class -> the ONNX operator of the same meaning
SAME = {
    "Negative": "Neg", "Abs": "Abs", "Sign": "Sign", "Sqrt": "Sqrt", "Reciprocal": "Reciprocal", "Exp": "Exp",
    "Log": "Log", "Sin": "Sin", "Cos": "Cos", "Tan": "Tan", "Asin": "Asin", "Acos": "Acos", "Atan": "Atan",
    "Sinh": "Sinh", "Cosh": "Cosh", "Tanh": "Tanh", "Asinh": "Asinh", "Acosh": "Acosh", "Atanh": "Atanh",
    "Erf": "Erf", "Isnan": "IsNaN", "Isinf": "IsInf", "Relu": "Relu", "Sigmoid": "Sigmoid", "Softsign": "Softsign",
    "Add": "Add", "Subtract": "Sub", "Multiply": "Mul", "Divide": "Div", "Pow": "Pow", "Equal": "Equal",
    "Positive": "Identity",
}  # fmt: skip
#: these exist from opset 18 on; on bools they are logic
BITS = {
    "BitwiseInvert": ("BitwiseNot", "Not"), "BitwiseAnd": ("BitwiseAnd", "And"), "BitwiseOr": ("BitwiseOr", "Or"),
    "BitwiseXor": ("BitwiseXor", "Xor"),
}  # fmt: skip
#: these take bools by way of integers
ORDER = {
    "Greater": "Greater", "Less": "Less", "GreaterEqual": "GreaterOrEqual", "LessEqual": "LessOrEqual",
}  # fmt: skip
#: these leave integers and bools as they are
ROUND = {"Floor": "Floor", "Ceil": "Ceil", "Round": "Round"}
#: these ask of each number whether it is 0
LOGIC = {"LogicalNot": "Not", "LogicalAnd": "And", "LogicalOr": "Or", "LogicalXor": "Xor"}
EXTREMES = {"Maximum": ("Max", "Or"), "Minimum": ("Min", "And")}

Body = Callable[..., str]
#: what `elementwise` registers, for fused ops that end in an activation
BODIES: dict[type[Op], Body] = {}


def elementwise(*kinds: type[Op] | str) -> Callable[[Body], Body]:
    """Decorator for ``f(g, op, spec, *names) -> name``: the names are the inputs in one layout, which the output
    keeps; `spec` is the last input's.
    """

    def register(body: Body) -> Body:
        @emits(*[OPS[k] if isinstance(k, str) else k for k in kinds])
        def emitter(g: Graph, op: Op, *ins: Value) -> Result:
            names, wrap = g.alike(*ins)
            return wrap(body(g, op, ins[-1].spec, *names))

        BODIES.update({OPS[k] if isinstance(k, str) else k: body for k in kinds})
        return body

    return register


@elementwise(*SAME)
def same(g: Graph, op: Op, spec: Spec, *names: str) -> str:
    """One operator."""
    return g.node(SAME[type(op).__name__], *names)


@elementwise(*ORDER)
def order(g: Graph, op: Op, spec: Spec, *names: str) -> str:
    """A comparison."""
    wide = [g.cast(n, np.int32) for n in names] if spec.dtype == np.bool_ else names
    return g.node(ORDER[type(op).__name__], *wide)


@elementwise(*ROUND)
def rounding(g: Graph, op: Op, spec: Spec, x: str) -> str:
    """A rounding."""
    return g.node("Identity" if spec.dtype.kind in "biu" else ROUND[type(op).__name__], x)


@elementwise(*LOGIC)
def logic(g: Graph, op: Op, spec: Spec, *names: str) -> str:
    """Logic of bools; numbers are cast."""
    bools = names if spec.dtype == np.bool_ else [g.cast(n, np.bool_) for n in names]
    return g.node(LOGIC[type(op).__name__], *bools)


@elementwise(*BITS)
def bits(g: Graph, op: Op, spec: Spec, *names: str) -> str:
    """Bit by bit."""
    kind, of_bools = BITS[type(op).__name__]
    if spec.dtype == np.bool_:
        return g.node(of_bools, *names)
    g.require(18)
    return g.node(kind, *names)


@elementwise(*EXTREMES)
def extreme(g: Graph, op: Op, spec: Spec, a: str, b: str) -> str:
    """The larger or smaller."""
    return g.node(EXTREMES[type(op).__name__][spec.dtype == np.bool_], a, b)


@elementwise("NotEqual")
def not_equal(g: Graph, op: Op, spec: Spec, a: str, b: str) -> str:
    """Not(Equal)."""
    return g.node("Not", g.node("Equal", a, b))


@elementwise("Remainder")
def remainder(g: Graph, op: Op, spec: Spec, a: str, b: str) -> str:
    """a - floor(a / b) b, of the sign of b: ONNX's Mod for integers, moved where signs differ for floats."""
    if spec.dtype.kind in "iu":
        return g.node("Mod", a, b)
    rest = g.node("Mod", a, b, fmod=1)  # of the sign of a
    wrong = g.node("Less", g.node("Mul", rest, b), g.like(0, spec))
    return g.node("Where", wrong, g.node("Add", rest, b), rest)


@elementwise("FloorDivide")
def floor_divide(g: Graph, op: Op, spec: Spec, a: str, b: str) -> str:
    """floor(a / b); for integers (a - Mod(a, b)) / b."""
    if spec.dtype.kind in "iu":
        return g.node("Div", g.node("Sub", a, g.node("Mod", a, b)), b)
    return g.node("Floor", g.node("Div", a, b))


@elementwise("BitwiseLeftShift")
def left_shift(g: Graph, op: Op, spec: Spec, a: str, b: str) -> str:
    """a 2^b: ONNX's BitShift takes no signed integers."""
    return g.node("Mul", a, g.node("Pow", g.like(2, spec), b))


@elementwise("BitwiseRightShift")
def right_shift(g: Graph, op: Op, spec: Spec, a: str, b: str) -> str:
    """floor(a / 2^b)."""
    return floor_divide(g, op, spec, a, g.node("Pow", g.like(2, spec), b))


def _chain(name: str, *steps: tuple[Any, ...]) -> None:
    """Define an op that is a chain of operators, each with the constants beside its input."""

    @elementwise(name)
    def emit(g: Graph, op: Op, spec: Spec, x: str) -> str:
        for kind, *constants in steps:
            x = g.node(kind, x, *(g.like(c, spec) for c in constants))
        return x


_chain("Rsqrt", ("Sqrt",), ("Reciprocal",))
_chain("Log2", ("Log",), ("Mul", 1 / math.log(2)))
_chain("Log10", ("Log",), ("Mul", 1 / math.log(10)))
_chain("LogSigmoid", ("Neg",), ("Softplus",), ("Neg",))


@elementwise("Square")
def square(g: Graph, op: Op, spec: Spec, x: str) -> str:
    """x x."""
    return g.node("Mul", x, x)


@elementwise("Hypot")
def hypot(g: Graph, op: Op, spec: Spec, a: str, b: str) -> str:
    """m sqrt((a / m)^2 + (b / m)^2), m the larger modulus, so that no square overflows."""
    a, b = g.node("Abs", a), g.node("Abs", b)
    m = g.node("Max", a, b)
    safe = g.node("Where", g.node("Equal", m, g.like(0, spec)), g.like(1, spec), m)
    a, b = g.node("Div", a, safe), g.node("Div", b, safe)
    return g.node("Mul", m, g.node("Sqrt", g.node("Add", g.node("Mul", a, a), g.node("Mul", b, b))))


@elementwise("Logaddexp")
def logaddexp(g: Graph, op: Op, spec: Spec, a: str, b: str) -> str:
    """max(a, b) + Softplus(-|a - b|)."""
    distance = g.node("Neg", g.node("Abs", g.node("Sub", a, b)))
    return g.node("Add", g.node("Max", a, b), g.node("Softplus", distance))


@elementwise("Erfc")
def erfc(g: Graph, op: Op, spec: Spec, x: str) -> str:
    """1 - erf(x): the digits of a large x are lost."""
    return g.node("Sub", g.like(1, spec), g.node("Erf", x))


@elementwise("Log1P")
def log1p(g: Graph, op: Op, spec: Spec, x: str) -> str:
    """log(u) x / (u - 1) with u = 1 + x, and x where u = 1: exact to rounding (Kahan)."""
    one = g.like(1, spec)
    u = g.node("Add", x, one)
    rounded = g.node("Sub", u, one)
    tiny = g.node("Equal", rounded, g.like(0, spec))
    ratio = g.node("Div", x, g.node("Where", tiny, one, rounded))
    made = g.node("Where", tiny, x, g.node("Mul", g.node("Log", u), ratio))
    return g.node("Where", g.node("Equal", u, g.like(math.inf, spec)), u, made)


@elementwise("Expm1")
def expm1(g: Graph, op: Op, spec: Spec, x: str) -> str:
    """2 sinh(x / 2) e^(x / 2), precise near 0."""
    half = g.node("Mul", x, g.like(0.5, spec))
    return g.node("Mul", g.node("Mul", g.node("Sinh", half), g.node("Exp", half)), g.like(2, spec))


@elementwise("Trunc")
def trunc(g: Graph, op: Op, spec: Spec, x: str) -> str:
    """sign(x) floor(|x|)."""
    if spec.dtype.kind in "biu":
        return g.node("Identity", x)
    return g.node("Mul", g.node("Sign", x), g.node("Floor", g.node("Abs", x)))


@elementwise("Signbit")
def signbit(g: Graph, op: Op, spec: Spec, x: str) -> str:
    """x < 0 or 1 / x < 0, which is so of -0.0; the sign of NaN is lost."""
    zero = g.like(0, spec)
    return g.node("Or", g.node("Less", x, zero), g.node("Less", g.node("Reciprocal", x), zero))


@elementwise("Copysign")
def copysign(g: Graph, op: Op, spec: Spec, a: str, b: str) -> str:
    """-|a| where b has the sign bit, else |a|."""
    size = g.node("Abs", a)
    return g.node("Where", signbit(g, op, spec, b), g.node("Neg", size), size)


@elementwise("Atan2")
def atan2(g: Graph, op: Op, spec: Spec, y: str, x: str) -> str:
    """atan(y / x), moved by pi where x < 0; +-pi / 2 at x = 0."""
    zero, pi = g.like(0, spec), g.like(math.pi, spec)
    upright = g.node("Equal", x, zero)
    slope = g.node("Atan", g.node("Div", y, g.node("Where", upright, g.like(1, spec), x)))
    side = g.node("Where", g.node("Less", y, zero), g.like(-math.pi, spec), pi)
    turned = g.node("Where", g.node("Less", x, zero), g.node("Add", slope, side), slope)
    quarter = g.node("Mul", g.node("Sign", y), g.like(math.pi / 2, spec))
    return g.node("Where", upright, quarter, turned)


@elementwise("Isfinite")
def is_finite(g: Graph, op: Op, spec: Spec, x: str) -> str:
    """|x| < infinity, which NaN is not."""
    if spec.dtype.kind in "biu":
        return g.node("Equal", x, x)
    return g.node("Less", g.node("Abs", x), g.like(math.inf, spec))


@elementwise(Where)
def where(g: Graph, op: Where, spec: Spec, condition: str, a: str, b: str) -> str:
    """Where."""
    return g.node("Where", condition, a, b)


@elementwise(Clip)
def clip(g: Graph, op: Clip, spec: Spec, x: str) -> str:
    """Clip; a bound that is absent is left out."""
    return g.node("Clip", x, *[None if v is None else g.like(v, spec) for v in (op.min, op.max)])


@elementwise(AsType)
def as_type(g: Graph, op: AsType, spec: Spec, x: str) -> str:
    """Cast."""
    return g.cast(x, op.dtype)


# -- activations -------------------------------------------------------------------------------------------------------
@elementwise(act.Hardtanh)
def hardtanh(g: Graph, op: act.Hardtanh, spec: Spec, x: str) -> str:
    """Clip."""
    return g.node("Clip", x, g.like(op.low, spec), g.like(op.high, spec))


@elementwise(act.LeakyRelu)
def leaky_relu(g: Graph, op: act.LeakyRelu, spec: Spec, x: str) -> str:
    """LeakyRelu."""
    return g.node("LeakyRelu", x, alpha=float(op.negative_slope))


@elementwise(act.Hardsigmoid)
def hardsigmoid(g: Graph, op: Op, spec: Spec, x: str) -> str:
    """HardSigmoid with slope 1 / 6."""
    return g.node("HardSigmoid", x, alpha=1 / 6, beta=0.5)


@elementwise(act.Hardswish)
def hardswish(g: Graph, op: Op, spec: Spec, x: str) -> str:
    """HardSwish, or before opset 14 x HardSigmoid(x)."""
    return g.node("HardSwish", x) if g.opset >= 14 else g.node("Mul", x, hardsigmoid(g, op, spec, x))


@elementwise(act.Elu)
def elu(g: Graph, op: act.Elu, spec: Spec, x: str) -> str:
    """scale Elu, or scale Celu; in other settings max(x, 0) and min(x, 0) each on its way."""
    if op.width == 1:
        y = g.node("Elu", x, alpha=float(op.alpha))
    elif op.alpha == op.width:
        y = g.node("Celu", x, alpha=float(op.alpha))
    else:
        below = g.node("Div", g.node("Min", x, g.like(0, spec)), g.like(op.width, spec))
        y = g.node("Add", g.node("Relu", x), g.node("Elu", below, alpha=float(op.alpha)))
    return y if op.scale == 1 else g.node("Mul", y, g.like(op.scale, spec))


@elementwise(act.Softplus)
def softplus(g: Graph, op: act.Softplus, spec: Spec, x: str) -> str:
    """Softplus(beta x) / beta."""
    if op.beta == 1:
        return g.node("Softplus", x)
    beta = g.like(op.beta, spec)
    return g.node("Div", g.node("Softplus", g.node("Mul", x, beta)), beta)


@elementwise(act.Gelu)
def gelu(g: Graph, op: Op, spec: Spec, x: str) -> str:
    """Gelu, or before opset 20 the five nodes that runtimes fuse into one."""
    if g.opset >= 20:
        return g.node("Gelu", x)
    inner = g.node("Erf", g.node("Div", x, g.like(math.sqrt(2), spec)))
    return g.node("Mul", g.node("Mul", x, g.node("Add", inner, g.like(1, spec))), g.like(0.5, spec))


@elementwise(act.GeluTanh)
def gelu_tanh(g: Graph, op: Op, spec: Spec, x: str) -> str:
    """Gelu(tanh), or before opset 20 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2."""
    if g.opset >= 20:
        return g.node("Gelu", x, approximate="tanh")
    cube = g.node("Mul", g.node("Mul", x, x), x)
    total = g.node("Add", x, g.node("Mul", cube, g.like(0.044715, spec)))
    inner = g.node("Tanh", g.node("Mul", total, g.like(math.sqrt(2 / math.pi), spec)))
    return g.node("Mul", g.node("Mul", x, g.node("Add", inner, g.like(1, spec))), g.like(0.5, spec))


@elementwise(act.Silu)
def silu(g: Graph, op: Op, spec: Spec, x: str) -> str:
    """x Sigmoid(x)."""
    return g.node("Mul", x, g.node("Sigmoid", x))


@elementwise(act.Mish)
def mish(g: Graph, op: Op, spec: Spec, x: str) -> str:
    """Mish, or before opset 18 x tanh(Softplus(x))."""
    if g.opset >= 18:
        return g.node("Mish", x)
    return g.node("Mul", x, g.node("Tanh", g.node("Softplus", x)))


def activated(g: Graph, op: Op | None, spec: Spec, x: str) -> str:
    """An activation of what a fused op has computed; None: x itself."""
    return x if op is None else BODIES[type(op)](g, op, spec, x)
