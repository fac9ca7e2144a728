"""Linear quantisation y = saturate(round(x / scale) + zero), back, and products of quantised values.

Scales are one value, one a position of `axis`, or one a block along it.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from pdl import ops
from pdl.dtype import Array, DType
from pdl.errors import ShapeError
from pdl.onnx.eager import computed, to_single
from pdl.onnx.layouts import each, padding
from pdl.onnx.registry import Context, NeedsValue, onnx_op, today
from pdl.onnx.table.casts import FLOAT8, cast_array, is_short_integer
from pdl.onnx.values import dtype_of, is_known, is_tensor_dtype, tensor
from pdl.program.tracing import is_tracing
from pdl.tensor import Tensor

UINT8, INT8, INT32, FLOAT32 = map(np.dtype, (np.uint8, np.int8, np.int32, np.float32))


@onnx_op("QuantizeLinear", since=10)
def quantized(
    ctx: Context, x: Any, y_scale: Any, y_zero_point: Any = None, *, axis: int = 1, saturate: int = 1,
    block_size: int = 0, output_dtype: int = 0, precision: int = 0,
) -> Any:  # fmt: skip
    """y = saturate(round(x / scale) + zero), ties to even."""
    name = ctx.node.label()
    dtype = y_zero_point.dtype if y_zero_point is not None else dtype_of(output_dtype, name) if output_dtype else UINT8
    if not is_known(x) and x.dtype == FLOAT32 and not precision and _plain(dtype, y_scale, y_zero_point, block_size):
        return ops.quantize_linear(tensor(x), *_numbers(y_scale, y_zero_point, dtype), axis=axis)
    if is_known(x, y_scale, y_zero_point):
        values, scale = ctx.value(x), ctx.value(y_scale)
        zero = None if y_zero_point is None else ctx.value(y_zero_point)
        if precision:
            kind = dtype_of(precision, name)
            values, scale = values.astype(kind), scale.astype(kind)
        return quantize(name, values, scale, zero, dtype, axis, block_size, bool(saturate))
    low, high = _traceable(name, dtype)
    y = ops.round(tensor(x) / tensor(_beside(ctx, x, y_scale, axis, block_size)))
    if y_zero_point is not None:
        y = y + ops.astype(tensor(_beside(ctx, x, y_zero_point, axis, block_size)), y.dtype)
    return ops.astype(ops.clip(y, low, high), dtype)


@onnx_op("DequantizeLinear", since=10)
def dequantized(
    ctx: Context, x: Any, x_scale: Any, x_zero_point: Any = None, *, axis: int = 1, block_size: int = 0,
    output_dtype: int = 0,
) -> Any:  # fmt: skip
    """y = (x - zero) scale."""
    name = ctx.node.label()
    dtype = dtype_of(output_dtype, name) if output_dtype else x_scale.dtype
    y: Any
    weights = is_tracing() and len(x.shape) > 1  # stay bytes: products of bytes take them
    if (weights or not is_known(x)) and dtype == FLOAT32 and _plain(x.dtype, x_scale, x_zero_point, block_size):
        return ops.dequantize_linear(tensor(x), *_numbers(x_scale, x_zero_point, x.dtype), axis=axis)
    if is_known(x, x_scale, x_zero_point):
        values, scale = ctx.value(x), ctx.value(x_scale)
        y = _minus(values, x_zero_point, lambda z: spread(name, ctx.value(z), values.shape, axis, block_size))
        return cast_array(np.asarray(y * spread(name, to_single(scale), values.shape, axis, block_size)), dtype)
    _traceable(name, x.dtype)
    wide = dtype if is_tensor_dtype(dtype) else np.dtype(np.float32)
    y = ops.astype(tensor(x), wide)
    if x_zero_point is not None:
        y = y - ops.astype(tensor(_beside(ctx, x, x_zero_point, axis, block_size)), wide)
    return y * ops.astype(tensor(_beside(ctx, x, x_scale, axis, block_size)), wide)


def _plain(dtype: DType, scale: Any, zero: Any, block: int) -> bool:
    """Whether bytes have known float32 scales, one or one a slice: what pdl's own ops take."""
    return dtype in (UINT8, INT8) and is_known(scale, zero) and scale.dtype == FLOAT32 and not block and scale.ndim < 2


def _numbers(scale: Any, zero: Any, dtype: DType) -> tuple[Array, Array]:
    """Scale and zero point of one shape, () for a single one."""
    shape = () if scale.size == 1 else scale.shape
    zeros = np.zeros(shape, dtype) if zero is None else np.asarray(zero).reshape(shape)
    return np.asarray(scale).reshape(shape), zeros


def _traceable(name: str, dtype: DType) -> tuple[int, int]:
    """The range of an integer dtype that tensors have; others are left to the interpreter."""
    if not is_tensor_dtype(dtype) or dtype.kind not in "iu":
        raise NeedsValue(f"{name}: {dtype.name} is no dtype of a traced graph")
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def _beside(ctx: Context, x: Any, scale: Any, axis: int, block: int) -> Any:
    """A scale or zero point in a shape that broadcasts with x, for tensors."""
    if len(scale.shape) == 0 or scale.shape == (1,):
        return scale if is_known(scale) else ops.reshape(scale, ())
    if len(scale.shape) == 1 and not block:
        shape = [1] * len(x.shape)
        shape[axis % len(shape)] = scale.shape[0]
        return ops.reshape(tensor(scale), shape)
    if not all(type(n) is int for n in x.shape):
        raise NeedsValue(f"{ctx.node.label()} has blocks along a size that is not known")
    return spread(ctx.node.label(), ctx.value(scale, "its scales"), x.shape, axis, block)


def spread(name: str, scale: Array, shape: tuple[int, ...], axis: int, block: int) -> Array:
    """A scale or zero point in a shape that broadcasts with `shape`."""
    if scale.ndim == 0 or scale.shape == (1,):
        return scale.reshape(())
    axis = axis % len(shape)
    if scale.ndim == 1 and not block:
        if scale.size != shape[axis]:
            raise ShapeError(f"{name}: {scale.size} scales for an axis of {shape[axis]}")
        return scale.reshape([-1 if i == axis else 1 for i in range(len(shape))])
    if scale.ndim != len(shape):
        raise ShapeError(f"{name}: scales {scale.shape} for blocks of x {shape}")
    block = block or -(-shape[axis] // scale.shape[axis])
    if any(a != (-(-b // block) if i == axis else b) for i, (a, b) in enumerate(zip(scale.shape, shape, strict=True))):
        raise ShapeError(f"{name}: scales {scale.shape} do not tile x {shape} in blocks of {block} along {axis}")
    return np.repeat(scale, block, axis=axis)[tuple(slice(n) for n in shape)]


def _minus(x: Array, zero: Any, spread_out: Any) -> Array:
    """x - zero in float32, exact for the integers of up to 16 bits."""
    wide = x.astype(np.float64 if x.dtype == INT32 else np.float32)
    if zero is None:
        return wide.astype(np.float32)
    return np.asarray(wide - spread_out(zero).astype(wide.dtype)).astype(np.float32)


def quantize(
    name: str, x: Array, scale: Array, zero: Array | None, dtype: DType, axis: int, block: int, saturate: bool
) -> Array:
    """x / scale in the dtype of the two, rounded, plus zero, within the range of `dtype`."""
    scale = spread(name, scale, x.shape, axis, block)
    with np.errstate(all="ignore"):
        y = (x / scale).astype(np.float64) if x.dtype == scale.dtype else x.astype(scale.dtype) / scale
        y = np.asarray(y).astype(np.float64)
        zeros = 0 if zero is None else spread(name, zero, x.shape, axis, block).astype(np.float64)
        if dtype in FLOAT8:
            return cast_array(y.astype(np.float32), dtype, saturate)
        if not is_short_integer(dtype) and dtype.kind == "V":
            return cast_array((y + zeros).astype(np.float32), dtype)
        info: Any = ml_dtypes.iinfo(dtype) if is_short_integer(dtype) else np.iinfo(dtype)
        return np.clip(np.rint(y) + zeros, int(info.min), int(info.max)).astype(np.int32).astype(dtype)


# -- products of bytes -------------------------------------------------------------------------------------------------
# On values they are computed in integers. A trace writes them as QDQ files do, DequantizeLinear before and
# QuantizeLinear behind: the passes make ops on bytes of what they can, and what stays is computed in float32.


@onnx_op("DynamicQuantizeLinear", since=11)
def _dynamic(ctx: Context, x: Any) -> Any:
    """x in uint8 over its own range, which includes 0; the scale and zero point."""
    return _dynamic_traced(x) if not is_known(x) else _dynamic_computed(ctx, x)


def _dynamic_traced(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    zero, one, top = (Tensor(np.array(v, np.float32)) for v in (0, 1, 255))
    low, high = ops.minimum(ops.min(x), zero), ops.maximum(ops.max(x), zero)
    scale = (high - low) / top
    by = ops.where(ops.equal(scale, zero), one, scale)
    shift = ops.clip(ops.round(-low / by), 0.0, 255.0)
    y = ops.clip(ops.round(x / by) + shift, 0.0, 255.0)
    return ops.astype(y, "uint8"), scale, ops.astype(shift, "uint8")


@computed
def _dynamic_computed(ctx: Context, x: Any) -> Any:
    low, high = np.float32(min(0, x.min())), np.float32(max(0, x.max()))
    scale = np.float32((high - low) / np.float32(255))
    zero = np.uint8(np.clip(np.rint(0 - low / scale), 0, 255)) if scale else np.uint8(0)
    y = np.clip(np.rint(x / scale if scale else x * 0) + zero, 0, 255).astype(np.uint8)
    return y, np.asarray(scale), np.asarray(zero)


@onnx_op("MatMulInteger", since=10)
def _matmul_integer(ctx: Context, a: Any, b: Any, a_zero_point: Any = None, b_zero_point: Any = None) -> Any:
    """(a - zero) (b - zero) in int32."""
    if is_known(a, b, a_zero_point, b_zero_point):
        return _matmul_computed(ctx, a, b, a_zero_point, b_zero_point)
    y = ops.matmul(levels(ctx, a, _rows(a_zero_point, a)), levels(ctx, b, b_zero_point))
    return ops.astype(ops.round(y), "int32")


def levels(ctx: Context, x: Any, zero: Any) -> Any:
    """x - zero in float32, which holds the difference of two bytes exactly."""

    def made(v: Array) -> Tensor:
        return Tensor(_centred(v, zero).astype(np.float32))

    if is_known(x, zero) and isinstance(x, np.ndarray):
        key = None if zero is None else np.asarray(zero).tobytes()
        return ctx.prepared(("levels", key), x, made)
    y = ops.astype(tensor(x), "float32")
    return y if zero is None else y - ops.astype(tensor(zero), "float32")


@computed
def _matmul_computed(ctx: Context, a: Any, b: Any, a_zero_point: Any = None, b_zero_point: Any = None) -> Any:
    return _centred(a, _rows(a_zero_point, a)) @ _centred(b, b_zero_point)


@onnx_op("QLinearMatMul", since=10)
def _qlinear_matmul(
    ctx: Context, a: Any, a_scale: Any, a_zero_point: Any, b: Any, b_scale: Any, b_zero_point: Any, y_scale: Any,
    y_zero_point: Any,
) -> Any:  # fmt: skip
    """saturate(round((a - zero) (b - zero) scales / scale) + zero)."""
    if is_known(a, b):
        return _qlinear_product(ctx, a, a_scale, a_zero_point, b, b_scale, b_zero_point, y_scale, y_zero_point)
    left = dequantized(ctx, a, a_scale, a_zero_point, axis=-2)
    right = dequantized(ctx, b, b_scale, b_zero_point, axis=-1)
    return quantized(ctx, ops.matmul(tensor(left), tensor(right)), y_scale, y_zero_point)


@computed
def _qlinear_product(
    ctx: Context, a: Any, a_scale: Any, a_zero_point: Any, b: Any, b_scale: Any, b_zero_point: Any, y_scale: Any,
    y_zero_point: Any,
) -> Any:  # fmt: skip
    product = _centred(a, _rows(a_zero_point, a)) @ _centred(b, b_zero_point)
    factor = to_single(_rows(a_scale, a)) * to_single(b_scale) / to_single(y_scale)
    return _requantized(product * factor, y_zero_point)


def _rows(x: Any, a: Array) -> Any:
    """One value a row of `a` as a column."""
    return x.reshape(-1, 1) if x is not None and x.ndim == 1 and x.size > 1 and a.ndim > 1 else x


def _centred(x: Array, zero: Any) -> Array:
    y: Array = x.astype(np.int32)
    return y if zero is None else y - zero.astype(np.int32)


def _requantized(y: Array, zero: Array) -> Array:
    info = np.iinfo(zero.dtype)
    return np.clip(np.rint(y) + zero.astype(np.float32), info.min, info.max).astype(zero.dtype)


@onnx_op("ConvInteger", since=10)
def _conv_integer(
    ctx: Context, x: Any, w: Any, x_zero_point: Any = None, w_zero_point: Any = None, *, auto_pad: str = "NOTSET",
    dilations: Any = None, group: int = 1, kernel_shape: Any = None, pads: Any = None, strides: Any = None,
) -> Any:  # fmt: skip
    """Convolution of x - zero with w - zero in int32; the border is x's zero point."""
    how = {"auto_pad": auto_pad, "dilations": dilations, "group": group, "pads": pads, "strides": strides}
    if is_known(x, w, x_zero_point, w_zero_point):
        return _conv_computed(ctx, x, w, x_zero_point, w_zero_point, **how)
    weights = levels(ctx, w, _first(w_zero_point, w))
    y = today("Conv")(ctx, levels(ctx, x, x_zero_point), weights, kernel_shape=kernel_shape, **how)
    return ops.astype(ops.round(y), "int32")


@computed
def _conv_computed(
    ctx: Context, x: Any, w: Any, x_zero_point: Any, w_zero_point: Any, *, auto_pad: str, dilations: Any, group: int,
    pads: Any, strides: Any,
) -> Any:  # fmt: skip
    y = _convolve(ctx, _centred(x, x_zero_point), _centred(w, _first(w_zero_point, w)), auto_pad, dilations, group,
                  pads, strides)  # fmt: skip
    return y.astype(np.int32)


@onnx_op("QLinearConv", since=10)
def qlinear_conv(
    ctx: Context, x: Any, x_scale: Any, x_zero_point: Any, w: Any, w_scale: Any, w_zero_point: Any, y_scale: Any,
    y_zero_point: Any, b: Any = None, *, auto_pad: str = "NOTSET", dilations: Any = None, group: int = 1,
    kernel_shape: Any = None, pads: Any = None, strides: Any = None,
) -> Any:  # fmt: skip
    """saturate(round((conv(x - zero, w - zero) + b) scales / scale) + zero)."""
    how = {"auto_pad": auto_pad, "dilations": dilations, "group": group, "pads": pads, "strides": strides}
    if is_known(x, w, b):
        inputs = (x, x_scale, x_zero_point, w, w_scale, w_zero_point, y_scale, y_zero_point, b)
        return _qlinear_convolved(ctx, *inputs, **how)
    if b is not None:
        b = tensor(ctx.value(b).astype(np.float32) * (ctx.value(x_scale) * ctx.value(w_scale)).astype(np.float32))
    image = dequantized(ctx, x, x_scale, x_zero_point)
    weights = dequantized(ctx, w, w_scale, w_zero_point, axis=0)
    y = today("Conv")(ctx, image, weights, b, kernel_shape=kernel_shape, **how)
    return quantized(ctx, y, y_scale, y_zero_point)


@computed
def _qlinear_convolved(
    ctx: Context, x: Any, x_scale: Any, x_zero_point: Any, w: Any, w_scale: Any, w_zero_point: Any, y_scale: Any,
    y_zero_point: Any, b: Any, *, auto_pad: str, dilations: Any, group: int, pads: Any, strides: Any,
) -> Any:  # fmt: skip
    y = _convolve(ctx, _centred(x, x_zero_point), _centred(w, _first(w_zero_point, w)), auto_pad, dilations, group,
                  pads, strides)  # fmt: skip
    channels = [1, -1, *[1] * (y.ndim - 2)]
    if b is not None:
        y = y + b.reshape(channels)
    factor = to_single(x_scale) * to_single(w_scale) / to_single(y_scale)
    return _requantized(y * np.asarray(factor, np.float32).reshape(channels if factor.size > 1 else ()), y_zero_point)


def _first(zero: Any, w: Array) -> Any:
    """One value an output channel, along the first axis of w."""
    return zero if zero is None or zero.size == 1 else zero.reshape(-1, *[1] * (w.ndim - 1))


def _convolve(
    ctx: Context, x: Array, w: Array, auto_pad: str, dilations: Any, group: int, pads: Any, strides: Any
) -> Array:
    """Integer convolution of x [N, C, ...] with w [M, C / group, ...], exact: its products are summed in float64."""
    rank = x.ndim - 2
    strides, dilations = each(strides, rank), each(dilations, rank)
    if rank < 1 or w.ndim != x.ndim or x.shape[1] != w.shape[1] * group or w.shape[0] % group:
        raise ShapeError(f"{ctx.node.label()}: x {x.shape} with w {w.shape} in {group} groups")
    pairs = padding(auto_pad, pads, x.shape[2:], w.shape[2:], strides, dilations)
    x = np.pad(x, [(0, 0), (0, 0), *pairs]).astype(np.float64)
    spans = [d * (k - 1) + 1 for d, k in zip(dilations, w.shape[2:], strict=True)]
    if any(n < s for n, s in zip(x.shape[2:], spans, strict=True)):
        raise ShapeError(f"{ctx.node.label()}: the padded x {x.shape} is smaller than the kernel {tuple(spans)}")
    windows = np.lib.stride_tricks.sliding_window_view(x, spans, axis=tuple(range(2, x.ndim)))
    steps = (slice(None), slice(None), *[slice(None, None, s) for s in strides])
    windows = windows[(*steps, *[slice(None, None, d) for d in dilations])]
    n, out = len(x), windows.shape[2 : 2 + rank]
    grouped = windows.reshape(n, group, -1, *out, *w.shape[2:])
    weights = w.reshape(group, w.shape[0] // group, *w.shape[1:]).astype(np.float64)
    axes = list(range(3 + rank, 3 + 2 * rank))
    y = [
        np.tensordot(grouped[:, g], weights[g], axes=([1, *[a - 1 for a in axes]], list(range(1, 2 + rank))))
        for g in range(group)
    ]
    made: Array = np.moveaxis(np.concatenate(y, axis=-1), -1, 1)
    return made
