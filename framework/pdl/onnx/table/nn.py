"""Convolutions, pooling, normalisation, products."""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np

from pdl import ops
from pdl.dims import minimum
from pdl.dtype import Array, float32
from pdl.errors import ShapeError, UsageError
from pdl.onnx.layouts import bias, channels_first, channels_last, each, halves, kernel_last, padding, pairs
from pdl.onnx.registry import Context, onnx_op
from pdl.onnx.table.draws import dropped
from pdl.onnx.table.folding import dilated_average
from pdl.onnx.values import array, in_numpy, is_known, tensor
from pdl.ops.base import apply
from pdl.ops.conv import ConvDx
from pdl.ops.packed import PackedLinear, pack
from pdl.program import is_tracing
from pdl.tensor import Tensor

_CONV = {1: ops.conv1d, 2: ops.conv2d, 3: ops.conv3d}


def _spatial_rank(x: Any, op: str) -> int:
    rank = len(x.shape) - 2
    if not 1 <= rank <= 3:
        raise ShapeError(f"{op} of x {tuple(x.shape)}: one to three spatial axes are supported")
    return rank


@onnx_op("Conv")
def _conv(
    ctx: Context, x: Any, w: Any, b: Any = None, *, auto_pad: str = "NOTSET", dilations: Any = None, group: int = 1,
    kernel_shape: Any = None, pads: Any = None, strides: Any = None,
) -> Any:  # fmt: skip
    rank = _spatial_rank(x, "Conv")
    kernel, stride, dilation = tuple(w.shape[2:]), each(strides, rank), each(dilations, rank)
    if kernel_shape and tuple(kernel_shape) != kernel:
        raise ShapeError(f"kernel_shape {tuple(kernel_shape)} does not fit the weight {tuple(w.shape)}")
    pad = padding(auto_pad, pads, x.shape[2:], kernel, stride, dilation)
    y = _CONV[rank](
        channels_last(x), kernel_last(ctx, w), bias(ctx, b), stride=stride, padding=pad, dilation=dilation, groups=group
    )  # type: ignore[operator]
    return channels_first(y)


@onnx_op("ConvTranspose")
def _conv_transpose(
    ctx: Context, x: Any, w: Any, b: Any = None, *, auto_pad: str = "NOTSET", dilations: Any = None, group: int = 1,
    kernel_shape: Any = None, output_padding: Any = None, output_shape: Any = None, pads: Any = None,
    strides: Any = None,
) -> Any:  # fmt: skip
    rank = _spatial_rank(x, "ConvTranspose")
    stride, dilation, more = each(strides, rank), each(dilations, rank), each(output_padding, rank, 0)
    whole = tuple(
        (n - 1) * s + d * (k - 1) + 1
        for n, s, d, k in zip(x.shape[2:], stride, dilation, w.shape[2:], strict=True)
    )  # fmt: skip
    if auto_pad == "NOTSET" and not output_shape:
        cut = pairs(pads, rank)
        size = tuple(n - sum(c) + m for n, c, m in zip(whole, cut, more, strict=True))
    else:
        size = tuple(output_shape[-rank:]) if output_shape else _transposed_size(auto_pad, x, stride, whole, more)
        totals = [n + m - s for n, m, s in zip(whole, more, size, strict=True)]
        cut = tuple(halves(max(0, t), auto_pad == "SAME_UPPER") for t in totals)
        more = tuple(max(m, -t) if t < 0 else m for m, t in zip(more, totals, strict=True))
    return channels_first(
        transposed_conv(channels_last(x), kernel_last(ctx, w), bias(ctx, b), stride, cut, dilation, group, size, more)
    )


def transposed_conv(
    x: Any, w: Any, b: Any, stride: Any, cut: Any, dilation: Any, group: int, size: tuple[int, ...], more: Any
) -> Any:
    """The transposed convolution of x [N, *spatial, C] with w [*kernel, O / groups, C], `cut` taken off its ends and
    `more` cells behind the last that a product reaches: [N, *size, O]."""
    # cells that no product reaches lie behind the end: where a stride leaves none, they hold the bias alone
    reached = tuple(min(m, s - 1) for m, s in zip(more, stride, strict=True))
    short = tuple(n - (m - r) for n, m, r in zip(size, more, reached, strict=True))
    y = apply(ConvDx(stride, cut, dilation, group, short), x, w)
    if short != size:
        y = ops.pad(y, [(0, 0), *((0, n - k) for n, k in zip(size, short, strict=True)), (0, 0)])
    return y if b is None else y + b


def _transposed_size(auto_pad: str, x: Any, stride: Any, whole: Any, more: Any) -> tuple[int, ...]:
    full = tuple(n + m for n, m in zip(whole, more, strict=True))
    if auto_pad == "VALID":
        return full
    # a kernel smaller than its stride: as ONNX Runtime, no cells behind the last product
    return tuple(minimum(n * s, f) for n, s, f in zip(x.shape[2:], stride, full, strict=True))


@onnx_op("MaxPool")
def _max_pool(
    ctx: Context, x: Any, *, kernel_shape: Any, auto_pad: str = "NOTSET", ceil_mode: int = 0, dilations: Any = None,
    pads: Any = None, storage_order: int = 0, strides: Any = None,
) -> Any:  # fmt: skip
    rank = _spatial_rank(x, "MaxPool")
    stride, dilation = each(strides, rank), each(dilations, rank)
    pad = padding(auto_pad, pads, x.shape[2:], kernel_shape, stride, dilation)
    dtype = x.dtype
    last = channels_last(x if dtype.kind == "f" else tensor(x).astype("float32"))
    y, index = ops.max_pool(
        last, tuple(kernel_shape), stride=stride, padding=pad, dilation=dilation, ceil_mode=bool(ceil_mode),
        return_index=True,
    )  # fmt: skip
    y = channels_first(y)
    y = y if y.dtype == dtype or dtype.kind == "f" else y.astype(dtype)
    return (y, _flat_places(index, x.shape, storage_order)) if ctx.wants(1) else y


def _flat_places(index: Any, shape: Any, storage_order: int) -> Any:
    """ONNX's indices into the flattened x [N, C, *spatial], from positions inside one channel."""
    n, c, *spatial = shape
    cells = math.prod(spatial)
    within = channels_first(index).astype("int64")
    if storage_order:
        within = _column_major(within, spatial)
    start = (np.arange(n)[:, None] * c + np.arange(c)) * cells
    return within + tensor(start.reshape(n, c, *[1] * len(spatial)).astype(np.int64))


def _column_major(index: Any, spatial: Any) -> Any:
    """Positions counted with the first spatial axis fastest, from those with the last one fastest."""
    place, total = index, tensor(np.zeros((), np.int64))
    for axis in reversed(range(len(spatial))):
        total = total + ops.remainder(place, int(spatial[axis])) * math.prod(spatial[:axis])
        place = ops.floor_divide(place, int(spatial[axis]))
    return total


@onnx_op("AveragePool")
def _average_pool(
    ctx: Context, x: Any, *, kernel_shape: Any, auto_pad: str = "NOTSET", ceil_mode: int = 0,
    count_include_pad: int = 0, dilations: Any = None, pads: Any = None, strides: Any = None,
) -> Any:  # fmt: skip
    rank = _spatial_rank(x, "AveragePool")
    stride, dilation = each(strides, rank), each(dilations, rank)
    pad = padding(auto_pad, pads, x.shape[2:], kernel_shape, stride, dilation)
    if max(dilation) > 1:
        flags = bool(ceil_mode), bool(count_include_pad)
        return dilated_average(ctx, x, kernel_shape, stride, dilation, pad, *flags)
    y = ops.avg_pool(
        channels_last(x), tuple(kernel_shape), stride=stride, padding=pad, ceil_mode=bool(ceil_mode),
        count_include_pad=bool(count_include_pad),
    )  # fmt: skip
    return channels_first(y)


@onnx_op("GlobalAveragePool")
def _global_average_pool(ctx: Context, x: Any) -> Any:
    return channels_first(ops.global_avg_pool(channels_last(x), keepdims=True))


@onnx_op("GlobalMaxPool")
def _global_max_pool(ctx: Context, x: Any) -> Any:
    return ops.max(tensor(x), axis=tuple(range(2, len(x.shape))), keepdims=True)


# -- normalisation -----------------------------------------------------------------------------------------------------
@onnx_op("BatchNormalization", since=7)
def _batch_norm(
    ctx: Context, x: Any, scale: Any, shift: Any, mean: Any, var: Any, *, epsilon: float = 1e-5, momentum: float = 0.9,
    spatial: int = 1, training_mode: int = 0,
) -> Any:  # fmt: skip
    if not spatial:
        raise UsageError("spatial=0 (statistics for each position) is not supported")
    scale, shift, mean, var = (bias(ctx, v) for v in (scale, shift, mean, var))
    assert mean is not None
    assert var is not None
    if training_mode:
        y, now, spread = ops.batch_norm(channels_last(x), scale, shift, eps=epsilon)
        old = 1 - momentum
        return channels_first(y), mean * momentum + now * old, var * momentum + spread * old
    return channels_first(ops.batch_norm_eval(channels_last(x), mean, var, scale, shift, eps=epsilon))


@onnx_op("InstanceNormalization")
def _instance_norm(ctx: Context, x: Any, scale: Any, shift: Any, *, epsilon: float = 1e-5) -> Any:
    if not x.shape[1]:
        return x
    return channels_first(ops.instance_norm(channels_last(x), bias(ctx, scale), bias(ctx, shift), eps=epsilon))


@onnx_op("LayerNormalization")  # from opset 17 on; ONNX Runtime writes it into older files
def _layer_norm(
    ctx: Context, x: Any, scale: Any, shift: Any = None, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> Any:
    x = tensor(x)
    first = axis % x.ndim
    dims, sizes = x.ndim - first, x.shape[first:]
    if dims == 1 and scale.shape == sizes and not ctx.wants(1):
        return ops.layer_norm(x, bias(ctx, scale), bias(ctx, shift), eps=epsilon)
    axes = tuple(range(first, x.ndim))
    mean = ops.mean(x, axis=axes, keepdims=True)
    off = x - mean
    scaled = 1.0 / ops.sqrt(ops.mean(off * off, axis=axes, keepdims=True) + epsilon)
    y = off * scaled * tensor(scale)
    return (y if shift is None else y + tensor(shift)), mean, scaled


@onnx_op("Dropout", since=7)
def _dropout_7(ctx: Context, x: Any, *, ratio: float = 0.5) -> Any:
    return (x, _all_true(x)) if ctx.wants(1) else x


@onnx_op("Dropout", since=12)
def _dropout(ctx: Context, x: Any, ratio: Any = None, training_mode: Any = None, *, seed: int | None = None) -> Any:
    if training_mode is not None and bool(ctx.value(training_mode, "training_mode")):
        rate = 0.5 if ratio is None else float(ctx.value(ratio, "ratio"))
        if rate:
            return dropped(ctx, x, rate, seed)
    return (x, _all_true(x)) if ctx.wants(1) else x


def _all_true(x: Any) -> Any:
    return ops.broadcast_to(tensor(np.ones((), bool)), tuple(x.shape))


# -- products ----------------------------------------------------------------------------------------------------------
@onnx_op("MatMul")
def _matmul(ctx: Context, a: Any, b: Any) -> Any:
    if in_numpy(a, b):
        return np.matmul(array(a), array(b))
    y = _by_packed(ctx, a, b, None)
    return ops.matmul(bias(ctx, a), bias(ctx, b)) if y is None else y  # type: ignore[arg-type]


@onnx_op("Gemm", since=7)
def _gemm(
    ctx: Context, a: Any, b: Any, c: Any = None, *, alpha: float = 1.0, beta: float = 1.0, transA: int = 0,
    transB: int = 0,
) -> Any:  # fmt: skip
    if in_numpy(a, b):
        y: Any = alpha * np.matmul(array(a).T if transA else array(a), array(b).T if transB else array(b))
        y = y if c is None else y + beta * array(c)
        return y.astype(a.dtype)
    x = ops.matrix_transpose(tensor(a)) if transA else tensor(a)
    c = None if c is None else bias(ctx, c) if beta == 1 else tensor(c) * beta
    y = _by_packed(ctx, x, b, c, alpha, bool(transB))
    if y is not None:
        return y
    w = _scaled(ctx, b, alpha, bool(transB))
    if c is not None and c.ndim == 1 and c.shape[0] == w.shape[1]:
        return ops.linear(x, w, c)
    y = ops.matmul(x, w)
    return y if c is None else y + c


def _by_packed(
    ctx: Context, x: Any, w: Any, c: Tensor | None, factor: float = 1.0, transposed: bool = False
) -> Tensor | None:
    """x @ (factor * w, or its transpose) + c of a node that is run by itself, whose constant weights are packed once;
    None where nothing is gained: while a graph is traced its plans pack them."""
    if is_tracing() or not isinstance(x, Tensor) or not ctx.constant(w) or w.ndim != 2 or not w.size:
        return None
    features = w.shape[::-1] if transposed else w.shape
    if x.dtype != float32 or w.dtype != float32 or x.ndim < 2 or (c is not None and c.shape != features[1:]):
        return None

    def made(w: Array) -> Tensor:
        return tensor(pack("rows", np.float32(factor) * (w.T if transposed else w)))

    packed = ctx.prepared(("packed", factor, transposed), w, made)
    return cast(Tensor, apply(PackedLinear(features), x, packed, c, None))


def _scaled(ctx: Context, w: Any, factor: float, transposed: bool) -> Any:
    """factor * w (or its transpose), computed once where w is a constant."""

    def made(x: Any) -> Any:
        x = tensor(np.ascontiguousarray(x.T) if transposed else x)
        return x if factor == 1 else x * factor

    if is_known(w) and isinstance(w, np.ndarray):
        return ctx.prepared(("gemm", factor, transposed), w, made)
    x = ops.matrix_transpose(tensor(w)) if transposed else tensor(w)
    return x if factor == 1 else x * factor


@onnx_op("Softmax", since=13)
def _softmax(ctx: Context, x: Any, *, axis: int = -1) -> Any:
    return ops.softmax(tensor(x), axis=axis)


@onnx_op("LogSoftmax", since=13)
def _log_softmax(ctx: Context, x: Any, *, axis: int = -1) -> Any:
    return ops.log_softmax(tensor(x), axis=axis)


@onnx_op("Softmax")
def _softmax_1(ctx: Context, x: Any, *, axis: int = 1) -> Any:
    return _over_rest(ops.softmax, tensor(x), axis)


@onnx_op("LogSoftmax")
def _log_softmax_1(ctx: Context, x: Any, *, axis: int = 1) -> Any:
    return _over_rest(ops.log_softmax, tensor(x), axis)


def _over_rest(function: Any, x: Any, axis: int) -> Any:
    """Before opset 13: over `axis` and all axes after it together."""
    axis = axis % max(1, x.ndim)
    if axis == x.ndim - 1:
        return function(x, axis=-1)
    flat = ops.reshape(x, (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))
    return ops.reshape(function(flat, axis=-1), x.shape)
