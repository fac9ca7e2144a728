"""Arithmetic element by element."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from pdl import ops
from pdl.dtype import Array
from pdl.onnx.registry import Context, onnx_op
from pdl.onnx.sizes import has_ratios
from pdl.onnx.values import are_arrays, array, either, in_numpy, is_known, is_shape, of_sizes, settled, tensor
from pdl.tensor import Tensor

#: name -> pdl's op, NumPy's
UNARY: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "Abs": (ops.abs, np.abs),
    "Neg": (ops.negative, np.negative),
    "Sign": (ops.sign, np.sign),
    "Floor": (ops.floor, np.floor),
    "Ceil": (ops.ceil, np.ceil),
    "Round": (ops.round, np.round),
    "Sqrt": (ops.sqrt, np.sqrt),
    "Exp": (ops.exp, np.exp),
    "Log": (ops.log, np.log),
    "Reciprocal": (ops.reciprocal, np.reciprocal),
    "Sin": (ops.sin, np.sin),
    "Cos": (ops.cos, np.cos),
    "Tan": (ops.tan, np.tan),
    "Asin": (ops.asin, np.arcsin),
    "Acos": (ops.acos, np.arccos),
    "Atan": (ops.atan, np.arctan),
    "Sinh": (ops.sinh, np.sinh),
    "Cosh": (ops.cosh, np.cosh),
    "Tanh": (ops.tanh, np.tanh),
    "Asinh": (ops.asinh, np.arcsinh),
    "Acosh": (ops.acosh, np.arccosh),
    "Atanh": (ops.atanh, np.arctanh),
}
BINARY: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "Add": (ops.add, np.add),
    "Sub": (ops.subtract, np.subtract),
    "Mul": (ops.multiply, np.multiply),
}


def _elementwise(name: str, in_ops: Callable[..., Any], in_array: Callable[..., Any]) -> None:
    function = either(name, in_ops, in_array)
    if name in UNARY:

        @onnx_op(name)
        def _one(ctx: Context, x: Any) -> Any:
            return function(x)

    else:

        @onnx_op(name, since=7)
        def _two(ctx: Context, a: Any, b: Any) -> Any:
            return function(a, b)


for _name, _both in {**UNARY, **BINARY}.items():
    _elementwise(_name, *_both)


@onnx_op("Erf")
def _erf(ctx: Context, x: Any) -> Any:
    return ops.erf(tensor(x))


@onnx_op("Div", since=7)
def _div(ctx: Context, a: Any, b: Any) -> Any:
    """Integers are divided toward zero."""
    sizes = of_sizes("Div", a, b)
    if sizes is not None:
        return sizes
    if in_numpy(a, b):
        return _div_arrays(array(a), array(b))
    a, b = tensor(a), tensor(b)
    if a.dtype.kind not in "iu":
        return ops.divide(a, b)
    down = ops.floor_divide(a, b)
    mixed = ops.logical_and(ops.not_equal(down * b, a), ops.logical_xor(ops.less(a, 0), ops.less(b, 0)))
    return down + ops.where(mixed, tensor(np.ones((), a.dtype)), tensor(np.zeros((), a.dtype)))


def _div_arrays(a: Array, b: Array) -> Array:
    with np.errstate(all="ignore"):
        if a.dtype.kind == "f" or b.dtype.kind == "f":
            return np.divide(a, b)
        down = settled(np.floor_divide(a, b))
        if down.dtype.kind == "u":
            return down
        return (down + ((down * b != a) & ((a < 0) != (b < 0)))).astype(down.dtype)


@onnx_op("Pow", since=7)
def _pow(ctx: Context, a: Any, b: Any) -> Any:
    a, b = (tensor(v) if is_shape(v) else v for v in (a, b))
    dtype = a.dtype
    if is_known(b) and np.size(array(b)) == 1 and dtype.kind == "f":
        exponent = float(array(b).reshape(()))
        if exponent in (2.0, 0.5, 1.0, -1.0):
            made = {2.0: ops.square, 0.5: ops.sqrt, -1.0: ops.reciprocal}.get(exponent, ops.identity)(tensor(a))
            return made if array(b).ndim <= len(a.shape) else ops.reshape(made, _wide(a, b))
    if in_numpy(a, b):
        with np.errstate(all="ignore"):
            return np.power(array(a), array(b)).astype(dtype)
    y = ops.pow(tensor(a), tensor(b).astype(dtype) if dtype.kind == "f" else tensor(b))
    return y if y.dtype == dtype else y.astype(dtype)


def _wide(a: Any, b: Any) -> tuple[int, ...]:
    return (*[1] * (array(b).ndim - len(a.shape)), *a.shape)


@onnx_op("Mod")
def _mod(ctx: Context, a: Any, b: Any, *, fmod: int = 0) -> Any:
    """The remainder with the sign of b, or with `fmod` that of a."""
    sizes = None if fmod else of_sizes("Mod", a, b)
    if sizes is not None:
        return sizes
    if in_numpy(a, b) or (is_known(a, b) and fmod):
        with np.errstate(all="ignore"):
            made = (np.fmod if fmod else np.remainder)(array(a), array(b))
        return settled(made)
    a, b = tensor(a), tensor(b)
    if not fmod:
        return ops.remainder(a, b)
    return ops.sign(a) * ops.remainder(ops.abs(a), ops.abs(b))


def _variadic(name: str, of_two: str, in_ops: Callable[..., Any], in_array: Callable[..., Any]) -> None:
    function = either(of_two, in_ops, in_array)

    @onnx_op(name)
    def _several(ctx: Context, x: Any, *more: Any) -> Any:
        return reduce(function, more, x)


for _name, _both in {
    "Sum": (ops.add, np.add), "Max": (ops.maximum, np.maximum), "Min": (ops.minimum, np.minimum),
}.items():  # fmt: skip
    _variadic(_name, "Add" if _name == "Sum" else _name, *_both)


_maximum, _minimum = either("Max", ops.maximum, np.maximum), either("Min", ops.minimum, np.minimum)


@onnx_op("Mean")
def _mean(ctx: Context, x: Any, *more: Any) -> Any:
    return reduce(ops.add, map(tensor, more), tensor(x)) / (1 + len(more))


# -- activations -------------------------------------------------------------------------------------------------------
def _activation(name: str, function: Callable[..., Any]) -> None:
    @onnx_op(name)
    def _one(ctx: Context, x: Any) -> Any:
        return function(tensor(x))


_activation("Sigmoid", ops.sigmoid)
_activation("Softplus", ops.softplus)
_activation("Softsign", ops.softsign)
_activation("Mish", ops.mish)


@onnx_op("Relu")
def _relu(ctx: Context, x: Any) -> Any:
    sizes = of_sizes("Max", x, np.int64(0)) if is_shape(x) and not has_ratios(x) else None
    if sizes is not None:
        return sizes
    return np.maximum(array(x), 0) if in_numpy(x) else ops.relu(tensor(x))


@onnx_op("LeakyRelu")
def _leaky_relu(ctx: Context, x: Any, *, alpha: float = 0.01) -> Any:
    return ops.leaky_relu(tensor(x), negative_slope=alpha)


@onnx_op("Elu")
def _elu(ctx: Context, x: Any, *, alpha: float = 1.0) -> Any:
    return ops.elu(tensor(x), alpha=alpha)


@onnx_op("Selu")
def _selu(
    ctx: Context, x: Any, *, alpha: float = 1.67326319217681884765625, gamma: float = 1.05070102214813232421875
) -> Any:
    return ops.elu(tensor(x), alpha=alpha) * gamma


@onnx_op("HardSigmoid")
def _hard_sigmoid(ctx: Context, x: Any, *, alpha: float = 0.2, beta: float = 0.5) -> Any:
    if math.isclose(alpha, 1 / 6, rel_tol=1e-6) and beta == 0.5:
        return ops.hardsigmoid(tensor(x))
    return ops.clip(tensor(x) * alpha + beta, 0.0, 1.0)


@onnx_op("HardSwish", since=14)
def _hard_swish(ctx: Context, x: Any) -> Any:
    return ops.hardswish(tensor(x))


@onnx_op("PRelu", since=7)
def _prelu(ctx: Context, x: Any, slope: Any) -> Any:
    if in_numpy(x, slope):
        return np.where(array(x) < 0, array(x) * array(slope), array(x))
    x = tensor(x)
    return ops.where(ops.less(x, 0), x * tensor(slope), x)


@onnx_op("Gelu", since=20)
def _gelu(ctx: Context, x: Any, *, approximate: str = "none") -> Any:
    return ops.gelu(tensor(x), approximate=approximate)


@onnx_op("Clip")
def _clip_6(ctx: Context, x: Any, *, min: float = -math.inf, max: float = math.inf) -> Any:
    return ops.clip(tensor(x), None if min == -math.inf else min, None if max == math.inf else max)


@onnx_op("Clip", since=11)
def _clip(ctx: Context, x: Any, low: Any = None, high: Any = None) -> Any:
    given = [v for v in (x, low, high) if v is not None]
    if are_arrays(*given) and any(map(is_shape, given)):
        y = x if low is None else _maximum(x, low)
        return y if high is None else _minimum(y, high)
    if in_numpy(*given):
        y = array(x) if low is None else np.maximum(array(x), array(low))
        return y if high is None else np.minimum(y, array(high))
    bounds = [v if v is None else _number(v) for v in (low, high)]
    return ops.clip(tensor(x), *bounds)


def _number(x: Any) -> Any:
    """A scalar as a Python number where it is known, so that the op can hold it."""
    if not is_known(x):
        return tensor(x)
    value = array(x)
    return value.reshape(()).item() if value.size == 1 and value.dtype != object else Tensor(value)
