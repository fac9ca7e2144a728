"""Patches of images: back into images, at places that a net computes, out of pooled ones; cropping about the centre."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from pdl import ops
from pdl.dtype import Array
from pdl.errors import IndexRangeError, ShapeError, UsageError
from pdl.limits import check_time
from pdl.onnx.eager import computed, in_single, rounded, to_single
from pdl.onnx.layouts import channels_first, channels_last, each, padding, pairs
from pdl.onnx.registry import Context, NeedsValue, onnx_op
from pdl.onnx.values import require_room, tensor


@onnx_op("Col2Im", since=18)
@computed
def _col2im(
    ctx: Context, x: Any, image_shape: Any, block_shape: Any, *, dilations: Any = None, pads: Any = None,
    strides: Any = None,
) -> Any:  # fmt: skip
    """Blocks [N, C cells, L] summed at their places in images [N, C, *image]."""
    image, block = image_shape.tolist(), block_shape.tolist()
    rank = len(image)
    stride, dilation, pad = each(strides, rank), each(dilations, rank), pairs(pads, rank)
    whole = [n + sum(p) for n, p in zip(image, pad, strict=True)]
    count = [(n - d * (k - 1) - 1) // s + 1 for n, d, k, s in zip(whole, dilation, block, stride, strict=True)]
    cells = math.prod(block)
    require_room(ctx.node.label(), (len(x), x.shape[1] // max(1, cells), *whole), x.itemsize)
    if x.shape[1] % cells or x.shape[2] != math.prod(count):
        raise ShapeError(f"{ctx.node.label()}: x {x.shape} is not [N, C {cells}, {math.prod(count)}]")
    parts = x.reshape(len(x), -1, *block, *count)
    made = np.zeros((len(x), parts.shape[1], *whole), x.dtype)
    for place in itertools.product(*map(range, block)):
        check_time()
        key = [slice(p * d, p * d + s * n, s) for p, d, s, n in zip(place, dilation, stride, count, strict=True)]
        made[(slice(None), slice(None), *key)] += parts[(slice(None), slice(None), *place)]
    return made[(slice(None), slice(None), *(slice(a, a + n) for (a, _), n in zip(pad, image, strict=True)))]


@onnx_op("MaxUnpool", since=9)
@computed
def _max_unpool(
    ctx: Context, x: Any, index: Any, output_shape: Any = None, *, kernel_shape: Any, pads: Any = None,
    strides: Any = None,
) -> Any:  # fmt: skip
    """Zeros with x at the flat places that MaxPool found."""
    rank = x.ndim - 2
    natural = [
        (n - 1) * s + k - sum(p)
        for n, s, k, p in zip(x.shape[2:], each(strides, rank), kernel_shape, pairs(pads, rank), strict=True)
    ]
    natural = [*x.shape[:2], *natural]
    wanted = natural if output_shape is None else output_shape.tolist()
    require_room(ctx.node.label(), wanted, x.itemsize)
    if index.shape != x.shape or (index.size and (index.min() < 0 or index.max() >= math.prod(natural))):
        raise IndexRangeError(f"{ctx.node.label()}: places {index.shape} up to {index.max()} in an image {natural}")
    made = np.zeros(wanted, x.dtype)
    # places count cells of the image whose size follows from the attributes; a larger one keeps it in its corner
    made[np.unravel_index(index.reshape(-1), natural)] = x.reshape(-1)
    return made


@onnx_op("CenterCropPad", since=18)
def _center_crop_pad(ctx: Context, x: Any, shape: Any, *, axes: Any = None) -> Any:
    """x cut, or padded with zeros, about its centre; odd cells go to the end."""
    rank = len(x.shape)
    along = [a % rank for a in axes] if axes else list(range(rank))
    wanted = ctx.ints(shape, "the shape")
    if len(wanted) != len(along):
        raise ShapeError(f"{ctx.node.label()}: {len(wanted)} sizes for {len(along)} axes")
    key, widths = [slice(None)] * rank, [(0, 0)] * rank
    for axis, size in zip(along, wanted, strict=True):
        more = size - x.shape[axis]
        if type(more) is not int:
            raise NeedsValue(f"{ctx.node.label()} cuts or pads by a size that is not known")
        if more < 0:
            start = -more // 2
            key[axis] = slice(start, start + size)
        else:
            widths[axis] = (more // 2, more - more // 2)
    require_room(ctx.node.label(), [n + sum(w) for n, w in zip(x.shape, widths, strict=True)], x.dtype.itemsize)
    x = x[tuple(key)]
    return np.pad(x, widths) if isinstance(x, np.ndarray) else ops.pad(x, widths)


@onnx_op("DeformConv", since=19)
@in_single
def _deform_conv(
    ctx: Context, x: Any, w: Any, offset: Any, b: Any = None, mask: Any = None, *, dilations: Any = None,
    group: int = 1, kernel_shape: Any = None, offset_group: int = 1, pads: Any = None, strides: Any = None,
) -> Any:  # fmt: skip
    """Convolution over two axes whose taps are moved by offsets and read bilinearly (Dai et al., arXiv 1703.06211)."""
    if len(x.shape) != 4:
        raise UsageError(f"{ctx.node.label()}: x {tuple(x.shape)}; two spatial axes are supported")
    kernel, stride, dilation = w.shape[2:], each(strides, 2), each(dilations, 2)
    pad = padding("NOTSET", pads, x.shape[2:], kernel, stride, dilation)
    if offset.shape[1] != 2 * offset_group * math.prod(kernel):
        raise ShapeError(
            f"{ctx.node.label()}: offset {tuple(offset.shape)} for {offset_group} groups of {tuple(kernel)}"
        )
    return channels_first(ops.deform_conv2d(
        channels_last(x), channels_last(offset), ops.permute_dims(tensor(w), (2, 3, 1, 0)), b,
        mask=None if mask is None else channels_last(mask), stride=stride, padding=pad, dilation=dilation, groups=group,
    ))  # fmt: skip


@onnx_op("LpPool", since=2)
@in_single
def _lp_pool(
    ctx: Context, x: Any, *, kernel_shape: Any, auto_pad: str = "NOTSET", ceil_mode: int = 0, dilations: Any = None,
    p: int = 2, pads: Any = None, strides: Any = None,
) -> Any:  # fmt: skip
    """(sum |x|^p)^(1/p) over windows."""
    rank = len(x.shape) - 2
    stride, dilation = each(strides, rank), each(dilations, rank)
    pad = padding(auto_pad, pads, x.shape[2:], kernel_shape, stride, dilation)
    if max(dilation) > 1 or ceil_mode or rank > 3:
        return _lp_windows(ctx, x, kernel_shape, stride, dilation, pad, p, ceil_mode)
    powers = channels_last(ops.pow(ops.abs(tensor(x)), float(p)))
    mean = ops.avg_pool(powers, tuple(kernel_shape), stride=stride, padding=pad, count_include_pad=True)
    return channels_first(ops.pow(mean * float(math.prod(kernel_shape)), 1 / p))


@computed
def _lp_windows(
    ctx: Context, x: Any, kernel_shape: Any, stride: Any, dilation: Any, pad: Any, p: int, ceil_mode: int
) -> Any:
    """The same over windows whose cells lie apart, or that reach over the end."""
    rank = x.ndim - 2
    over = windows(ctx, np.abs(to_single(x)) ** p, kernel_shape, stride, dilation, pad, bool(ceil_mode))
    y = over.sum(axis=tuple(range(-rank, 0))) ** (1 / p)
    return rounded(y.astype(over.dtype), x.dtype)


@computed
def dilated_average(
    ctx: Context, x: Any, kernel: Any, stride: Any, dilation: Any, pad: Any, ceil_mode: bool, count_pad: bool
) -> Any:
    """Means over windows whose cells lie apart; padded cells are counted or not."""
    wide = to_single(x)
    ones = np.pad(np.ones((1, 1, *x.shape[2:]), wide.dtype), [(0, 0), (0, 0), *pad], constant_values=int(count_pad))
    wide = np.pad(wide, [(0, 0), (0, 0), *pad])
    before = [a for a, _ in pad]
    total, count = (
        windows(ctx, v, kernel, stride, dilation, [(0, 0)] * len(pad), ceil_mode, ends=[
            b + n for b, n in zip(before, x.shape[2:], strict=True)
        ]).sum(axis=tuple(range(-len(pad), 0)))
        for v in (wide, ones)
    )  # fmt: skip
    return rounded((total / count).astype(wide.dtype), x.dtype)


def windows(
    ctx: Context, x: Array, kernel: Any, stride: Any, dilation: Any, pad: Any, ceil_mode: bool, *, ends: Any = None
) -> Array:
    """The windows over x [N, C, *spatial] padded with zeros: a view [N, C, *out, *kernel].

    With `ceil_mode` a last window may reach over the end, but none begins behind `ends` (by default x and what is
    padded before it).
    """
    extra = []
    stops = ends or [n + before for n, (before, _) in zip(x.shape[2:], pad, strict=True)]
    for n, (before, after), k, s, d, stop in zip(x.shape[2:], pad, kernel, stride, dilation, stops, strict=True):
        room = n + before + after - (d * (k - 1) + 1)
        if room < 0:
            raise ShapeError(f"{ctx.node.label()}: x {x.shape} is smaller than its window {tuple(kernel)}")
        last = -(-room // s) if ceil_mode else room // s
        last -= ceil_mode and last * s >= stop
        extra.append((before, max(after, after + last * s - room)))
    x = np.pad(x, [(0, 0), (0, 0), *extra])
    spans = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    view = np.lib.stride_tricks.sliding_window_view(x, spans, axis=tuple(range(2, x.ndim)))
    made: Array = view[(slice(None), slice(None), *(slice(None, None, s) for s in (*stride, *dilation)))]
    return made


@onnx_op("GlobalLpPool", since=2)
@in_single
def _global_lp_pool(ctx: Context, x: Any, *, p: int = 2) -> Any:
    """(sum |x|^p)^(1/p) over all spatial axes."""
    x = tensor(x)
    axes = tuple(range(2, x.ndim))
    return ops.pow(ops.sum(ops.pow(ops.abs(x), float(p)), axis=axes, keepdims=True), 1 / p)
