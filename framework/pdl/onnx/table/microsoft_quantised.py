"""Ops of the domain com.microsoft on bytes, which ONNX Runtime's quantiser and optimiser write.

Each is written as QDQ files do it: DequantizeLinear, the op in float32, QuantizeLinear.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from pdl import ops
from pdl.dtype import Array
from pdl.onnx.registry import Context, onnx_op, today
from pdl.onnx.table.microsoft import DOMAIN
from pdl.onnx.table.quantised import dequantized, levels, qlinear_conv, quantized
from pdl.onnx.values import tensor


def _ours(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return onnx_op(name, domain=DOMAIN)


def _channels(x: Any, last: int, turn: Callable[[int], tuple[int, ...]]) -> Any:
    """x with its axes in another order, where the channels stand last in the file."""
    if not last:
        return x
    axes = turn(len(x.shape))
    return np.transpose(x, axes) if isinstance(x, np.ndarray) else ops.permute_dims(x, axes)


def _first(x: Any, last: int) -> Any:
    return _channels(x, last, lambda rank: (0, rank - 1, *range(1, rank - 1)))


def _last(x: Any, last: int) -> Any:
    return _channels(x, last, lambda rank: (0, *range(2, rank), 1))


# -- one input ---------------------------------------------------------------------------------------------------------
def _of_one(name: str, function: Callable[..., Any]) -> None:
    """An op with the inputs x, its scale and zero point, the scale and zero point of y."""

    @_ours(name)
    def op(
        ctx: Context, x: Any, x_scale: Any, x_zero: Any, y_scale: Any, y_zero: Any = None, *, channels_last: int = 0,
        **how: Any,
    ) -> Any:  # fmt: skip
        how.pop("opset", None)
        y = function(ctx, tensor(dequantized(ctx, _first(x, channels_last), x_scale, x_zero)), **how)
        return _last(quantized(ctx, y, y_scale, _zero(y_zero, x)), channels_last)

    op.__doc__ = f"{name.removeprefix('QLinear')} of bytes."


def _zero(zero: Any, x: Any) -> Any:
    """A zero point that is not given is 0, in the dtype of x."""
    return np.zeros((), x.dtype.name) if zero is None else zero


def _mean(ctx: Context, x: Any, *, axes: Any = None, keepdims: int = 1) -> Any:
    return ops.mean(x, axis=tuple(axes) if axes else None, keepdims=bool(keepdims))


for _name, _function in {
    "QLinearAveragePool": today("AveragePool"),
    "QLinearGlobalAveragePool": today("GlobalAveragePool"),
    "QLinearLeakyRelu": today("LeakyRelu"),
    "QLinearReduceMean": _mean,
    "QLinearSigmoid": today("Sigmoid"),
    "QLinearSoftmax": today("Softmax"),
}.items():
    _of_one(_name, _function)


@_ours("NhwcMaxPool")
def _nhwc_max_pool(ctx: Context, x: Any, **how: Any) -> Any:
    """MaxPool of bytes whose channels stand last."""
    y = today("MaxPool")(ctx, _first(x, 1), **how)
    return _last(y[0] if isinstance(y, tuple) else y, 1)


# -- two and more ------------------------------------------------------------------------------------------------------
def _of_two(name: str, function: Callable[..., Any]) -> None:
    @_ours(name)
    def op(
        ctx: Context, a: Any, a_scale: Any, a_zero: Any, b: Any, b_scale: Any, b_zero: Any, y_scale: Any,
        y_zero: Any = None,
    ) -> Any:  # fmt: skip
        left, right = (tensor(dequantized(ctx, *v)) for v in ((a, a_scale, a_zero), (b, b_scale, b_zero)))
        return quantized(ctx, function(left, right), y_scale, _zero(y_zero, a))

    op.__doc__ = f"{name.removeprefix('QLinear')} of bytes, which broadcast."


_of_two("QLinearAdd", ops.add)
_of_two("QLinearMul", ops.multiply)


@_ours("QLinearConcat")
def _concat(ctx: Context, y_scale: Any, y_zero: Any, *parts: Any, axis: int) -> Any:
    """Arrays of bytes, each with a scale and a zero point, side by side."""
    groups = [parts[i : i + 3] for i in range(0, len(parts), 3)]
    return quantized(ctx, ops.concat([tensor(dequantized(ctx, *g)) for g in groups], axis=axis), y_scale, y_zero)


@_ours("QLinearWhere")
def _where(
    ctx: Context, condition: Any, a: Any, a_scale: Any, a_zero: Any, b: Any, b_scale: Any, b_zero: Any, y_scale: Any,
    y_zero: Any,
) -> Any:  # fmt: skip
    """a where the condition holds, else b."""
    left, right = (tensor(dequantized(ctx, *v)) for v in ((a, a_scale, a_zero), (b, b_scale, b_zero)))
    return quantized(ctx, ops.where(tensor(condition), left, right), y_scale, y_zero)


@_ours("QLinearConv")
def _conv(ctx: Context, x: Any, *others: Any, channels_last: int = 0, **how: Any) -> Any:
    """ONNX's op, also of images whose channels stand last."""
    return _last(qlinear_conv(ctx, _first(x, channels_last), *others, **how), channels_last)


# -- products ----------------------------------------------------------------------------------------------------------
@_ours("QGemm")
def _gemm(
    ctx: Context, a: Any, a_scale: Any, a_zero: Any, b: Any, b_scale: Any, b_zero: Any, c: Any = None,
    y_scale: Any = None, y_zero: Any = None, *, alpha: float = 1.0, transA: int = 0, transB: int = 0,
) -> Any:  # fmt: skip
    """alpha a b + c, where c counts products of one step each; in float32 without a scale of y."""
    left, right = dequantized(ctx, a, a_scale, a_zero), dequantized(ctx, b, b_scale, b_zero, axis=0 if transB else 1)
    left, right = (ops.matrix_transpose(tensor(x)) if t else tensor(x) for x, t in ((left, transA), (right, transB)))
    if c is not None:
        step = np.float32(alpha) * ctx.value(a_scale) * ctx.value(b_scale)
        c = tensor((ctx.value(c).astype(np.float32) * step).astype(np.float32))
    right = right if alpha == 1 else right * alpha
    y = ops.linear(left, right, c) if c is not None and c.ndim == 1 else ops.matmul(left, right)
    y = y if c is None or c.ndim == 1 else y + c
    return y if y_scale is None else quantized(ctx, y, y_scale, _zero(y_zero, a))


@_ours("MatMulIntegerToFloat")
def _matmul_to_float(
    ctx: Context, a: Any, b: Any, a_scale: Any, b_scale: Any, a_zero: Any = None, b_zero: Any = None, bias: Any = None
) -> Any:
    """(a - zero) scale (b - zero) scale + bias, in float32."""
    y = ops.matmul(levels(ctx, a, a_zero), _scaled(ctx, b, b_scale, b_zero)) * tensor(a_scale)
    return y if bias is None else y + tensor(bias)


@_ours("DynamicQuantizeMatMul")
def _dynamic_matmul(ctx: Context, a: Any, b: Any, b_scale: Any, b_zero: Any = None, bias: Any = None) -> Any:
    """a, rounded to bytes over its own range, times b in bytes, + bias, in float32."""
    q, scale, zero = today("DynamicQuantizeLinear")(ctx, a)
    return _matmul_to_float(ctx, q, b, scale, b_scale, zero, b_zero, bias)


def _scaled(ctx: Context, b: Any, scale: Any, zero: Any) -> Any:
    """(b - zero) scale, with a scale a column or one."""
    return levels(ctx, b, zero) * tensor(scale)


@_ours("DynamicQuantizeLSTM")
def _dynamic_lstm(
    ctx: Context, x: Any, w: Any, r: Any, b: Any, lengths: Any, h: Any, c: Any, p: Any, w_scale: Any, w_zero: Any,
    r_scale: Any, r_zero: Any, **how: Any,
) -> Any:  # fmt: skip
    """LSTM whose weights [ways, in, 4 H] are bytes. ONNX Runtime rounds x and the state to bytes at each step, over
    their range; here they stay what they are."""
    w, r = (
        ctx.prepared(("lstm", name), ctx.value(v), partial(_turned, scale=ctx.value(s), zero=z))
        for name, v, s, z in (("w", w, w_scale, w_zero), ("r", r, r_scale, r_zero))
    )
    return today("LSTM")(ctx, x, w, r, b, lengths, h, c, p, **how)


def _turned(v: Array, scale: Array, zero: Array | None) -> Array:
    """Weights [ways, 4 H, in] in float32; scales are one a way, or one a way and column."""
    made = v.astype(np.float32)
    if zero is not None:
        made = made - zero.astype(np.float32).reshape(len(v), 1, -1)
    return np.ascontiguousarray(np.swapaxes(made * scale.reshape(len(v), 1, -1), 1, 2).astype(np.float32))
