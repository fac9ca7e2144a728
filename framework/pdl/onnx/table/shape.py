"""Shapes, and what moves values without computing: most of it on shapes themselves, in NumPy."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pdl import ops
from pdl.dims import Dim, least, maximum
from pdl.dtype import Array
from pdl.errors import ShapeError, UsageError
from pdl.onnx.registry import Context, NeedsValue, onnx_op
from pdl.onnx.sizes import cast as cast_sizes
from pdl.onnx.sizes import has_ratios
from pdl.onnx.values import (
    are_arrays,
    array,
    float16,
    is_known,
    is_shape,
    is_tensor_dtype,
    of_sizes,
    require_room,
    settled,
    shape_array,
    tensor,
)
from pdl.tensor import Tensor


# -- constants and shapes ----------------------------------------------------------------------------------------------
@onnx_op("Constant")
def _constant(
    ctx: Context, *, value: Any = None, sparse_value: Any = None, value_float: Any = None, value_floats: Any = None,
    value_int: Any = None, value_ints: Any = None, value_string: Any = None, value_strings: Any = None,
) -> Any:  # fmt: skip
    whole = value if value is not None else sparse_value
    if whole is not None:
        return whole.astype(np.float32) if whole.dtype == float16 else whole
    for given, dtype in ((value_float, np.float32), (value_floats, np.float32), (value_int, np.int64),
                         (value_ints, np.int64), (value_string, object), (value_strings, object)):  # fmt: skip
        if given is not None:
            return np.array(given, dtype)
    raise UsageError("it has no value")


@onnx_op("ConstantOfShape", since=9)
def _constant_of_shape(ctx: Context, shape: Any, *, value: Any = None) -> Any:
    sizes = ctx.ints(shape)
    fill = np.zeros(1, np.float32) if value is None else value.reshape(-1)
    fill = fill.astype(np.float32) if fill.dtype == float16 else fill
    require_room(ctx.node.label(), sizes, fill.itemsize)
    if any(isinstance(n, Dim) for n in sizes):
        return ops.broadcast_to(tensor(fill.reshape(())), sizes)
    return np.full(sizes, fill[0], fill.dtype)


@onnx_op("Shape")
def _shape(ctx: Context, x: Any, *, start: int = 0, end: int | None = None) -> Any:
    return shape_array(tuple(x.shape)[start:end])


@onnx_op("Size")
def _size(ctx: Context, x: Any) -> Any:
    return shape_array([math.prod(x.shape)]).reshape(())


@onnx_op("Identity")
def _identity(ctx: Context, x: Any) -> Any:
    return x


@onnx_op("Range", since=11)
def _range(ctx: Context, start: Any, limit: Any, delta: Any) -> Any:
    given = start, limit, delta
    if any(map(has_ratios, given)) and are_arrays(*given):
        return _range_of_ratios(ctx, *[array(v).reshape(()) for v in given])
    if any(is_shape(v) for v in given):
        return _range_of_sizes(*(ctx.ints(v, "start, limit and delta")[0] for v in given))
    first, last, step = (ctx.value(v, "start, limit and delta").reshape(()) for v in given)
    if step == 0 or not np.isfinite(float(last - first)):
        raise UsageError("delta is 0, or the ends are not finite")
    count = max(0, math.ceil((float(last) - float(first)) / float(step)))
    require_room(ctx.node.label(), (count,), first.itemsize)
    return (first + np.arange(count, dtype=first.dtype) * step).astype(first.dtype)


def _range_of_sizes(first: int, last: int, step: int) -> Any:
    """first, first + step, ... before `last`, of sizes known only at run time."""
    if step == 0:
        raise UsageError("delta is 0")
    made = places(maximum(-((first - last) // step), 0))  # rounded up
    return made * tensor(shape_array([step])) + tensor(shape_array([first]))


def _range_of_ratios(ctx: Context, first: Array, last: Array, step: Array) -> Any:
    """The same of floats that are made of sizes."""
    steps = of_sizes("Sub", last, first)
    steps = None if steps is None else of_sizes("Div", steps, step)
    steps = None if steps is None else of_sizes("Ceil", steps)
    count = None if steps is None else cast_sizes(steps, np.dtype(np.int64))
    if count is None:
        raise NeedsValue(f"{ctx.node.label()} needs start, limit and delta known before it runs")
    each, start = tensor(step), tensor(first)
    return ops.astype(places(maximum(count.item(), 0)), each.dtype) * each + start


def places(count: int) -> Tensor:
    """0, 1, ... before a count that may be known only at run time: a running sum, int64."""
    ones = ops.broadcast_to(tensor(np.ones((), np.int64)), (count,))
    return ops.cumsum(ones, axis=0) - 1


# -- another shape, the same values ------------------------------------------------------------------------------------
@onnx_op("Reshape")
def _reshape(ctx: Context, x: Any, shape: Any, *, allowzero: int = 0) -> Any:
    sizes = ctx.ints(shape, "its shape")
    if not allowzero:
        if any(n == 0 and i >= len(x.shape) for i, n in enumerate(sizes)):
            raise ShapeError(f"shape {sizes} copies a size that x {tuple(x.shape)} does not have")
        sizes = tuple(x.shape[i] if n == 0 else n for i, n in enumerate(sizes))
    return reshaped(x, sizes)


def reshaped(x: Any, sizes: Sequence[int]) -> Any:
    """x in another shape: arrays stay arrays."""
    if isinstance(x, np.ndarray):
        return x.reshape(tuple(int(n) for n in sizes))
    return x if tuple(x.shape) == tuple(sizes) and not _symbolic(sizes) else ops.reshape(x, tuple(sizes))


def _symbolic(sizes: Sequence[int]) -> bool:
    return any(isinstance(n, Dim) for n in sizes)


@onnx_op("Flatten")
def _flatten(ctx: Context, x: Any, *, axis: int = 1) -> Any:
    at = axis + len(x.shape) if axis < 0 else axis
    return reshaped(x, (math.prod(x.shape[:at]), math.prod(x.shape[at:])))


@onnx_op("Squeeze")
def _squeeze_1(ctx: Context, x: Any, *, axes: Any = None) -> Any:
    ndim = len(x.shape)
    gone = {a % max(1, ndim) for a in axes} if axes else {i for i, n in enumerate(x.shape) if n == 1}
    if any(x.shape[i] != 1 for i in gone):
        raise ShapeError(f"axes {sorted(gone)} of x {tuple(x.shape)} do not all have size 1")
    return reshaped(x, [n for i, n in enumerate(x.shape) if i not in gone])


@onnx_op("Squeeze", since=13)
def _squeeze(ctx: Context, x: Any, axes: Any = None) -> Any:
    return _squeeze_1(ctx, x, axes=None if axes is None else ctx.ints(axes, "axes"))


@onnx_op("Unsqueeze")
def _unsqueeze_1(ctx: Context, x: Any, *, axes: Any) -> Any:
    ndim = len(x.shape) + len(axes)
    new = [a + ndim if a < 0 else a for a in axes]
    if len(set(new)) != len(new) or any(not 0 <= a < ndim for a in new):
        raise ShapeError(f"axes {tuple(axes)} do not fit x {tuple(x.shape)}")
    old = iter(x.shape)
    return reshaped(x, [1 if i in new else next(old) for i in range(ndim)])


@onnx_op("Unsqueeze", since=13)
def _unsqueeze(ctx: Context, x: Any, axes: Any) -> Any:
    return _unsqueeze_1(ctx, x, axes=ctx.ints(axes, "axes"))


@onnx_op("Transpose")
def _transpose(ctx: Context, x: Any, *, perm: Any = None) -> Any:
    axes = tuple(perm) if perm is not None else tuple(reversed(range(len(x.shape))))
    return np.transpose(x, axes) if isinstance(x, np.ndarray) else ops.permute_dims(x, axes)


# -- joining and cutting -----------------------------------------------------------------------------------------------
@onnx_op("Concat")
def _concat(ctx: Context, *xs: Any, axis: int) -> Any:
    if are_arrays(*xs) and any(isinstance(x, np.ndarray) for x in xs):
        return settled(np.concatenate([array(x) for x in xs], axis))
    parts = [tensor(x) for x in xs]
    return parts[0] if len(parts) == 1 else ops.concat(parts, axis=axis)


@onnx_op("Split")
def _split_2(ctx: Context, x: Any, *, axis: int = 0, split: Any = None) -> Any:
    return _split_at(x, axis, split, ctx.outputs)


@onnx_op("Split", since=13)
def _split_13(ctx: Context, x: Any, split: Any = None, *, axis: int = 0) -> Any:
    return _split_at(x, axis, None if split is None else ctx.ints(split, "split"), ctx.outputs)


@onnx_op("Split", since=18)
def _split(ctx: Context, x: Any, split: Any = None, *, axis: int = 0, num_outputs: int | None = None) -> Any:
    return _split_at(x, axis, None if split is None else ctx.ints(split, "split"), num_outputs or ctx.outputs)


def _split_at(x: Any, axis: int, sizes: Any, count: int) -> Any:
    size = x.shape[axis]
    if sizes is None:
        each = -(-size // count)
        sizes = [each] * (count - 1) + [size - each * (count - 1)]
    if sum(sizes) != size or min(sizes) < 0:
        raise ShapeError(f"split {tuple(sizes)} does not add up to {size}, the size of axis {axis}")
    ends = list(itertools.accumulate(sizes))
    lead = (slice(None),) * (axis % len(x.shape))
    return tuple(x[(*lead, slice(end - n, end))] for n, end in zip(sizes, ends, strict=True))


@onnx_op("Slice")
def _slice_1(ctx: Context, x: Any, *, starts: Any, ends: Any, axes: Any = None) -> Any:
    return _sliced(x, starts, ends, axes, None)


@onnx_op("Slice", since=10)
def _slice(ctx: Context, x: Any, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> Any:
    parts = [None if v is None else ctx.ints(v, "starts, ends, axes and steps") for v in (starts, ends, axes, steps)]
    return _sliced(x, *parts)


def _sliced(x: Any, starts: Any, ends: Any, axes: Any, steps: Any) -> Any:
    ndim = len(x.shape)
    axes = tuple(range(len(starts))) if axes is None else tuple(a + ndim if a < 0 else a for a in axes)
    steps = (1,) * len(starts) if steps is None else steps
    if any(not 0 <= a < ndim for a in axes):
        raise ShapeError(f"axes {axes} do not fit x {tuple(x.shape)}")
    key: list[Any] = [slice(None)] * ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        if step == 0:
            raise UsageError("a step is 0")
        key[axis] = slice_of(x.shape[axis], start, end, step)
    return x if all(k == slice(None) for k in key) else x[tuple(key)]


#: exporters write 2^31 - 1, 2^63 - 1, 10^9 ... for "to the end"; no axis is this long
BEYOND = 10**8


def slice_of(size: int, start: int, end: int, step: int) -> slice:
    """The slice that ONNX means; ends beyond the axis are left open, so that they fit every size."""
    if step > 0 and (start >= BEYOND or end <= -BEYOND):
        return slice(0, 0)
    opens, closes = (start <= -BEYOND, end >= BEYOND) if step > 0 else (start >= BEYOND, end <= -BEYOND)
    if step > 0 and type(start) is int and start == 0:
        opens = True
    if step < 0 and type(start) is int and start < 0:
        start = maximum(start + size, 0)  # ONNX moves it to the first cell, NumPy leaves it outside
    return slice(None if opens else start, None if closes else end, None if step == 1 else step)


@onnx_op("Gather")
def _gather(ctx: Context, x: Any, index: Any, *, axis: int = 0) -> Any:
    if isinstance(x, np.ndarray) and is_known(index) and (
        x.dtype == object or x.dtype.kind in "iub" or not is_tensor_dtype(x.dtype)
    ):  # fmt: skip
        place = array(index)
        size = x.shape[axis]
        if place.size and not -size <= place.min() <= place.max() < size:
            raise ShapeError(f"an index is outside axis {axis} of x {x.shape}")
        return _entry(np.take(x, place, axis))
    if is_known(index) and array(index).ndim == 0:
        lead = (slice(None),) * (axis % len(x.shape))
        return tensor(x)[(*lead, int(array(index)))]
    return ops.take(tensor(x), tensor(index), axis=axis)


def _entry(x: Any) -> Array:
    """A taken entry as an array: of dtype object, NumPy hands out the bare entry."""
    if isinstance(x, np.ndarray):
        return settled(x) if x.dtype == object and not any(isinstance(v, str) for v in x.flat) else x
    made = np.empty((), object)
    made[()] = x
    return settled(made) if isinstance(x, int) else made if isinstance(x, str) else np.asarray(x)


@onnx_op("Expand", since=8)
def _expand(ctx: Context, x: Any, shape: Any) -> Any:
    wanted = ctx.ints(shape, "its shape")
    from pdl.ops.checks import broadcast_shapes

    sizes = broadcast_shapes("expand", tuple(x.shape), wanted)
    require_room(ctx.node.label(), sizes, x.dtype.itemsize)
    if isinstance(x, np.ndarray) and not is_tensor_dtype(x.dtype) and not _symbolic(sizes):
        return np.broadcast_to(x, sizes)
    return tensor(x) if tuple(x.shape) == sizes and not _symbolic(sizes) else ops.broadcast_to(tensor(x), sizes)


@onnx_op("Tile", since=6)
def _tile(ctx: Context, x: Any, repeats: Any) -> Any:
    times = ctx.ints(repeats, "repeats")
    if len(times) != len(x.shape):
        raise ShapeError(f"repeats {times} has {len(times)} entries for x {tuple(x.shape)}")
    require_room(ctx.node.label(), [n * t for n, t in zip(x.shape, times, strict=True)], x.dtype.itemsize)
    if isinstance(x, np.ndarray) and not _symbolic(times):
        return np.tile(x, times)
    return ops.tile(tensor(x), times)


_PAD_MODES = {"constant": "constant", "reflect": "reflect", "edge": "edge", "wrap": "wrap"}


@onnx_op("Pad")
def _pad_2(ctx: Context, x: Any, *, pads: Any, mode: str = "constant", value: float = 0.0) -> Any:
    return padded(ctx, x, tuple(pads), None, mode, value)


@onnx_op("Pad", since=11)
def _pad(ctx: Context, x: Any, pads: Any, value: Any = None, axes: Any = None, *, mode: str = "constant") -> Any:
    fill = 0 if value is None else ctx.value(value, "the padding value").reshape(-1)[0].item()
    fill = int(fill) if isinstance(fill, bool) else fill
    along = None if axes is None else ctx.ints(axes, "axes")
    return padded(ctx, x, ctx.ints(pads, "pads"), along, mode, fill)


def padded(ctx: Context, x: Any, pads: Sequence[int], axes: Any, mode: str, value: Any) -> Any:
    """x with ONNX's pads; negative ones cut."""
    ndim = len(x.shape)
    along = tuple(range(ndim)) if axes is None else tuple(a % ndim for a in axes)
    if len(pads) != 2 * len(along) or mode not in _PAD_MODES:
        raise UsageError(f"pads {tuple(pads)} for axes {along}, mode {mode!r}")
    widths: list[tuple[int, int]] = [(0, 0)] * ndim
    for i, axis in enumerate(along):
        widths[axis] = (pads[i], pads[len(along) + i])
    room = [n + max(0, a) + max(0, b) for n, (a, b) in zip(x.shape, widths, strict=True)]
    require_room(ctx.node.label(), room, x.dtype.itemsize)
    grown = [(maximum(a, 0), maximum(b, 0)) for a, b in widths]
    if any(type(n) is not int or n for both in grown for n in both):
        if isinstance(x, np.ndarray) and not is_tensor_dtype(x.dtype):
            how = {"constant_values": value} if mode == "constant" else {}
            x = np.pad(x, grown, _PAD_MODES[mode], **how)  # type: ignore[call-overload]
        elif mode == "constant":
            x = ops.pad(tensor(x), grown, value=value)
        else:
            x = _repeated(tensor(x), grown, mode)
    if not any(_may_cut(n) for both in widths for n in both):
        return x
    less = [(maximum(-a, 0), maximum(-b, 0)) for a, b in widths]
    return x[tuple(slice(a, n - b) for n, (a, b) in zip(x.shape, less, strict=True))]


def _repeated(x: Tensor, widths: Sequence[tuple[int, int]], mode: str) -> Tensor:
    """x with its own elements around it; along axes of symbolic sizes their places are computed."""
    known = [type(v) is int for v in x.shape]
    x = ops.pad(x, [w if known[a] else (0, 0) for a, w in enumerate(widths)], mode=_PAD_MODES[mode])
    for axis, (before, after) in enumerate(widths):
        if known[axis] or (type(before) is int and type(after) is int and not before and not after):
            continue
        size = tensor(shape_array([x.shape[axis]]))
        at = places(before + x.shape[axis] + after) - tensor(shape_array([before]))
        if mode == "edge":
            at = ops.maximum(ops.minimum(at, size - 1), 0)
        elif mode == "wrap":
            at = ops.remainder(at, size)
        else:
            period = 2 * (size - 1)
            at = ops.remainder(at, ops.maximum(period, 1))
            at = ops.minimum(at, period - at)
        x = ops.take(x, at, axis=axis)
    return x


def _may_cut(width: int) -> bool:
    low = least(width)
    return low is None or low < 0


@onnx_op("DepthToSpace")
def _depth_to_space(ctx: Context, x: Any, *, blocksize: int, mode: str = "DCR") -> Any:
    x = tensor(x)
    n, c, h, w = x.shape
    r, deep = blocksize, c // blocksize**2
    if mode == "DCR":
        parts, axes = (n, r, r, deep, h, w), (0, 3, 4, 1, 5, 2)
    else:
        parts, axes = (n, deep, r, r, h, w), (0, 1, 4, 2, 5, 3)
    return ops.reshape(ops.permute_dims(ops.reshape(x, parts), axes), (n, deep, h * r, w * r))


@onnx_op("SpaceToDepth")
def _space_to_depth(ctx: Context, x: Any, *, blocksize: int, mode: str = "DCR") -> Any:
    x = tensor(x)
    (n, c, h, w), r = x.shape, blocksize
    cells = ops.reshape(x, (n, c, h // r, r, w // r, r))
    axes = (0, 1, 3, 5, 2, 4) if mode == "CRD" else (0, 3, 5, 1, 2, 4)
    return ops.reshape(ops.permute_dims(cells, axes), (n, c * r * r, h // r, w // r))
