"""Elementwise ops and reductions: loops that the writer unrolls into the body."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pdl.export.c.registry import Refused, emits
from pdl.export.c.source import Source, Strided, number, row_major, type_of
from pdl.ops.activation import Activation
from pdl.ops.base import OPS, Op
from pdl.ops.cast import AsType
from pdl.ops.elementwise import Clip, Where
from pdl.program.ir import Node, Value

#: functions of a float, with their parameters p, q, r, as `pdl.kernels.pointwise.UNARY` names them
FUNCTIONS = {
    "relu": "({x} > 0 ? {x} : 0)",
    "clip": "({x} < {p} ? {p} : {x} > {q} ? {q} : {x})",
    "leaky_relu": "({x} > 0 ? {x} : {p} * {x})",
    "elu": "({x} > 0 ? {q} * {x} : {q} * {p} * expm1f({r} * {x}))",
    "hardswish": "({x} * fminf(fmaxf({x} / 6 + 0.5f, 0), 1))",
    "hardsigmoid": "fminf(fmaxf({x} / 6 + 0.5f, 0), 1)",
    "sigmoid": "sigmoid({x})",
    "log_sigmoid": "(fminf({x}, 0) - log1pf(expf(-fabsf({x}))))",
    "softplus": "((fmaxf({p} * {x}, 0) + log1pf(expf(-fabsf({p} * {x})))) / {p})",
    "softsign": "({x} / (1 + fabsf({x})))",
    "gelu": "(0.5f * {x} * erfcf({x} * -0.70710678f))",
    "gelu_tanh": "({x} * sigmoid(1.5957691f * {x} * (0.044715f * {x} * {x} + 1)))",
    "silu": "({x} * sigmoid({x}))",
    "mish": "mish({x})",
    "tanh": "tanhf({x})", "exp": "expf({x})", "expm1": "expm1f({x})", "log": "logf({x})", "log1p": "log1pf({x})",
    "erf": "erff({x})", "erfc": "erfcf({x})", "sqrt": "sqrtf({x})", "rsqrt": "(1 / sqrtf({x}))",
    "reciprocal": "(1 / {x})", "square": "({x} * {x})", "negative": "(-{x})", "abs": "fabsf({x})",
}  # fmt: skip
_UNARY = {
    "Tanh": "tanh", "Exp": "exp", "Expm1": "expm1", "Log": "log", "Log1P": "log1p", "Erf": "erf", "Erfc": "erfc",
    "Sqrt": "sqrt", "Rsqrt": "rsqrt", "Reciprocal": "reciprocal", "Square": "square", "Negative": "negative",
    "Abs": "abs",
}  # fmt: skip
#: ops of one float: what the loop computes
_FLOAT = {
    "Log2": "log2f({x})", "Log10": "log10f({x})", "Sin": "sinf({x})", "Cos": "cosf({x})", "Tan": "tanf({x})",
    "Asin": "asinf({x})", "Acos": "acosf({x})", "Atan": "atanf({x})", "Sinh": "sinhf({x})", "Cosh": "coshf({x})",
    "Asinh": "asinhf({x})", "Acosh": "acoshf({x})", "Atanh": "atanhf({x})", "Floor": "floorf({x})",
    "Ceil": "ceilf({x})", "Trunc": "truncf({x})", "Round": "rintf({x})", "Sign": "(float)(({x} > 0) - ({x} < 0))",
    "Isnan": "({x} != {x})", "Isinf": "(fabsf({x}) == INFINITY)", "Isfinite": "(fabsf({x}) < INFINITY)",
}  # fmt: skip
#: ops whose inputs broadcast: what the loop computes of floats and of integers
_BROADCAST = {
    "Add": "{a} + {b}", "Subtract": "{a} - {b}", "Multiply": "{a} * {b}", "Less": "{a} < {b}",
    "LessEqual": "{a} <= {b}", "Greater": "{a} > {b}", "GreaterEqual": "{a} >= {b}", "Equal": "{a} == {b}",
    "NotEqual": "{a} != {b}", "Maximum": "{a} > {b} || {a} != {a} ? {a} : {b}",
    "Minimum": "{a} < {b} || {a} != {a} ? {a} : {b}", "LogicalAnd": "{a} && {b}", "LogicalOr": "{a} || {b}",
    "LogicalXor": "!{a} != !{b}",
}  # fmt: skip
_FLOATS_BROADCAST = {
    "Divide": "{a} / {b}", "Pow": "powf({a}, {b})", "FloorDivide": "floorf({a} / {b})",
    "Remainder": "{a} - floorf({a} / {b}) * {b}", "Atan2": "atan2f({a}, {b})", "Hypot": "hypotf({a}, {b})",
}  # fmt: skip
_INTEGERS_BROADCAST = {
    "FloorDivide": "{b} ? {a} / {b} - ({a} % {b} != 0 && ({a} < 0) != ({b} < 0)) : 0",
    "Remainder": "{b} ? ({a} % {b} + {b}) % {b} : 0",
}


def _named(*names: str) -> list[type[Op]]:
    return [OPS[name] for name in names]


def function(c: Source, name: str, parameters: Sequence[float], x: str) -> str:
    """f(x) as an expression."""
    if name not in FUNCTIONS:
        raise Refused(f"the function {name!r} has no C form")
    text = FUNCTIONS[name]
    for kernel in ("sigmoid", "mish"):
        if f"{kernel}({{x}}" in text or "sigmoid(" in text:
            c.use("mish" if name == "mish" else "sigmoid")
    given = dict(zip("pqr", map(number, parameters), strict=False))
    return text.format(x=x, **given)


def activate(c: Source, value: Value, name: str, parameters: Sequence[float]) -> None:
    """value = f(value)."""
    shape = tuple(map(int, value.spec.shape))
    c.nest(shape, {"y": c.dense(value)}, "{y} = " + function(c, name, parameters, "{y}") + ";")


def _over(c: Source, node: Node, body: str) -> None:
    """y = body of the inputs a, b, d, which broadcast."""
    y = node.outputs[0]
    shape = tuple(map(int, y.spec.shape))
    arrays = {"y": c.dense(y)}
    arrays |= {name: c.dense(v, shape) for name, v in zip("abd", node.inputs, strict=False)}
    c.nest(shape, arrays, f"{{y}} = {body};")


def _is_float(value: Value | None) -> bool:
    return value is not None and value.spec.dtype.name == "float32"


@emits(*(kind for kind in OPS.values() if issubclass(kind, Activation)))
def activation(c: Source, node: Node) -> None:
    """A function of `FUNCTIONS`."""
    op: Any = node.op
    _require_float(node)
    _over(c, node, function(c, op.kernel, op.parameters(), "{a}"))


def _require_float(node: Node) -> None:
    if not _is_float(node.inputs[0]):
        assert node.inputs[0] is not None
        raise Refused(f"it reads {node.inputs[0].spec.dtype.name}; here its function is of float32")


@emits(*_named(*_UNARY))
def unary(c: Source, node: Node) -> None:
    """A function of `FUNCTIONS`, or its form for integers."""
    name = _UNARY[node.op.op_name]
    if _is_float(node.inputs[0]):
        return _over(c, node, function(c, name, (), "{a}"))
    if name == "abs":
        return _over(c, node, "{a} < 0 ? -{a} : {a}")
    if name not in ("square", "negative"):
        _require_float(node)
    return _over(c, node, FUNCTIONS[name].format(x="{a}"))


@emits(*_named(*_FLOAT))
def of_float(c: Source, node: Node) -> None:
    """A function of libm; integers are whole already."""
    if not _is_float(node.inputs[0]) and node.op.op_name in ("Floor", "Ceil", "Trunc", "Round"):
        return _over(c, node, "{a}")
    _require_float(node)
    return _over(c, node, _FLOAT[node.op.op_name].format(x="{a}"))


@emits(*_named(*_BROADCAST))
def broadcast(c: Source, node: Node) -> None:
    """An operator of C."""
    _over(c, node, _BROADCAST[node.op.op_name])


@emits(*_named(*dict.fromkeys((*_FLOATS_BROADCAST, *_INTEGERS_BROADCAST))))
def division(c: Source, node: Node) -> None:
    """What floats and integers compute in different ways."""
    table = _FLOATS_BROADCAST if _is_float(node.inputs[0]) else _INTEGERS_BROADCAST
    if node.op.op_name not in table:
        _require_float(node)
    _over(c, node, table[node.op.op_name])


@emits(*_named("LogicalNot"))
def logical_not(c: Source, node: Node) -> None:
    """!x"""
    _over(c, node, "!{a}")


@emits(Where)
def where(c: Source, node: Node) -> None:
    """A choice."""
    _over(c, node, "{a} ? {b} : {d}")


@emits(Clip)
def clip(c: Source, node: Node) -> None:
    """Bounds, each of which may be missing."""
    op: Any = node.op
    body = "{a}"
    for bound, sign in ((op.min, "<"), (op.max, ">")):
        if bound is not None:
            word = number(bound) if _is_float(node.inputs[0]) else str(bound)
            body = f"({{a}} {sign} {word} ? {word} : {body})"
    _over(c, node, body)


@emits(AsType)
def as_type(c: Source, node: Node) -> None:
    """A cast; to bool, whether it is not 0."""
    to = node.outputs[0].spec.dtype
    _over(c, node, "{a} != 0" if to.name == "bool" else f"({type_of(to)}){{a}}")


# -- reductions --------------------------------------------------------------------------------------------------------
_REDUCTIONS = {
    "Sum": ("0", "s += {x};", "s"),
    "Mean": ("0", "s += {x};", "s / {n}"),
    "Prod": ("1", "s *= {x};", "s"),
    "Max": (None, "s = {x} > s || {x} != {x} ? {x} : s;", "s"),
    "Min": (None, "s = {x} < s || {x} != {x} ? {x} : s;", "s"),
    "AllTrue": ("1", "s = s && {x};", "s"),
    "AnyTrue": ("0", "s = s || {x};", "s"),
}


def _parted(node: Node) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """(size, stride) of the axes of x that stay, and of those that are reduced."""
    x, axes = node.inputs[0], node.op.axes  # type: ignore[attr-defined]
    assert x is not None
    shape = tuple(map(int, x.spec.shape))
    pairs = list(zip(shape, row_major(shape), strict=True))
    return [p for i, p in enumerate(pairs) if i not in axes], [p for i, p in enumerate(pairs) if i in axes]


def _loops(c: Source, letter: str, pairs: Sequence[tuple[int, int]]) -> str:
    """Loops over axes, and the offset inside."""
    terms = []
    for i, (size, stride) in enumerate(pairs):
        if size == 1:
            continue
        c.open(f"for (long {letter}{i} = 0; {letter}{i} < {size}; {letter}{i}++)")
        terms.append(f"{letter}{i} * {stride}")
    return " + ".join(terms) or "0"


def _depth(pairs: Sequence[tuple[int, int]]) -> int:
    return sum(size != 1 for size, _ in pairs)


@emits(*_named(*_REDUCTIONS))
def reduction(c: Source, node: Node) -> None:
    """A sum, or another fold, for each index that stays."""
    start, step, result = _REDUCTIONS[node.op.op_name]
    x, y = node.inputs[0], node.outputs[0]
    assert x is not None
    if start is None and not math.prod(map(int, x.spec.shape)):
        raise Refused("it is over no elements")
    stay, gone = _parted(node)
    kind = type_of(y.spec.dtype)
    c.open("")
    c.line(f"const {type_of(x.spec.dtype)} *x = {c.at(x)};")
    c.line(f"{kind} *y = {c.at(y)};")
    outer = _loops(c, "o", stay)
    c.line(f"{kind} s = {start or f'x[{outer}]'};")
    inner = _loops(c, "r", gone)
    c.line(step.format(x=f"x[{outer} + {inner}]"))
    c.close(_depth(gone))
    c.line(f"*y++ = {result.format(n=math.prod(size for size, _ in gone))};")
    c.close(_depth(stay) + 1)


@emits(*_named("ArgMax", "ArgMin"))
def arg_extremum(c: Source, node: Node) -> None:
    """The first place of the largest, or least, along one axis."""
    x, y = node.inputs[0], node.outputs[0]
    assert x is not None
    stay, gone = _parted(node)
    if len(gone) != 1:
        raise Refused("it is over several axes")
    sign, (size, stride) = (">" if node.op.op_name == "ArgMax" else "<"), gone[0]
    c.open("")
    c.line(f"const {type_of(x.spec.dtype)} *x = {c.at(x)};")
    c.line(f"{type_of(y.spec.dtype)} *y = {c.at(y)};")
    outer = _loops(c, "o", stay)
    c.line("long best = 0;")
    c.line(f"for (long r = 1; r < {size}; r++)")
    c.line(f"  if (x[{outer} + r * {stride}] {sign} x[{outer} + best * {stride}]) best = r;")
    c.line("*y++ = best;")
    c.close(_depth(stay) + 1)


@emits(*_named("CumSum"))
def cumulative(c: Source, node: Node) -> None:
    """A running sum along an axis."""
    x, y = node.inputs[0], node.outputs[0]
    assert x is not None
    shape = tuple(map(int, x.spec.shape))
    axis = node.op.axis % len(shape)  # type: ignore[attr-defined]
    strides = row_major(shape)
    some = tuple(n for i, n in enumerate(shape) if i != axis)
    walk = tuple(s for i, s in enumerate(strides) if i != axis)
    kinds = type_of(y.spec.dtype), type_of(x.spec.dtype)
    arrays = {"y": Strided(c.at(y), kinds[0], walk), "x": Strided(c.at(x), kinds[1], walk)}
    step = strides[axis]
    body = (
        f"{kinds[0]} s = 0; for (long k = 0; k < {shape[axis]}; k++) (&{{y}})[k * {step}] = s += (&{{x}})[k * {step}];"
    )
    c.nest(some, arrays, body)
