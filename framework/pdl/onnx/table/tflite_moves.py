"""Operators of TensorFlow Lite that move numbers: shapes, slices, joins, padding, gathering."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pdl import ops
from pdl.errors import ShapeError, UsageError
from pdl.onnx.registry import Context, today
from pdl.onnx.table.shape import padded, reshaped, slice_of
from pdl.onnx.table.tflite import activated, tflite_op
from pdl.onnx.values import is_known, is_shape, require_room, shape_array, tensor
from pdl.tensor import Tensor

#: numbers of axes that a block of SPACE_TO_BATCH_ND may have
_MOST_BLOCKS = 4


# -- shapes ------------------------------------------------------------------------------------------------------------
@tflite_op("SHAPE")
def _shape(ctx: Context, x: Any) -> Any:
    return shape_array(tuple(x.shape))


@tflite_op("RANK")
def _rank(ctx: Context, x: Any) -> Any:
    return np.array(len(x.shape), np.int64)


@tflite_op("RESHAPE")
def _reshape(ctx: Context, x: Any, shape: Any = None, *, new_shape: Sequence[int]) -> Any:
    return reshaped(x, tuple(new_shape) if shape is None else ctx.ints(shape, "its shape"))


@tflite_op("SQUEEZE")
def _squeeze(ctx: Context, x: Any, *, squeeze_dims: Sequence[int]) -> Any:
    return today("Squeeze")(ctx, x, np.array(squeeze_dims, np.int64) if squeeze_dims else None)


@tflite_op("EXPAND_DIMS")
def _expand_dims(ctx: Context, x: Any, axis: Any) -> Any:
    return today("Unsqueeze")(ctx, x, np.array(ctx.ints(axis, "the axis"), np.int64))


@tflite_op("TRANSPOSE")
def _transpose(ctx: Context, x: Any, order: Any) -> Any:
    return today("Transpose")(ctx, x, perm=ctx.ints(order, "the order of its axes"))


@tflite_op("BROADCAST_TO")
def _broadcast_to(ctx: Context, x: Any, shape: Any) -> Any:
    return today("Expand")(ctx, x, shape)


@tflite_op("BROADCAST_ARGS")
def _broadcast_args(ctx: Context, a: Any, b: Any) -> Any:
    from pdl.ops.checks import broadcast_shapes

    return shape_array(broadcast_shapes(ctx.node.label(), ctx.ints(a), ctx.ints(b)))


@tflite_op("FILL")
def _fill(ctx: Context, shape: Any, value: Any) -> Any:
    return today("Expand")(ctx, value, shape)


@tflite_op("ZEROS_LIKE")
def _zeros_like(ctx: Context, x: Any) -> Any:
    require_room(ctx.node.label(), x.shape, x.dtype.itemsize)
    return ops.broadcast_to(tensor(np.zeros((), np.int64 if is_shape(x) else x.dtype)), tuple(x.shape))


@tflite_op("RANGE")
def _range(ctx: Context, start: Any, limit: Any, delta: Any) -> Any:
    return today("Range")(ctx, start, limit, delta)


@tflite_op("TILE")
def _tile(ctx: Context, x: Any, repeats: Any) -> Any:
    return today("Tile")(ctx, x, repeats)


# -- joining and cutting -----------------------------------------------------------------------------------------------
@tflite_op("CONCATENATION")
def _concatenation(ctx: Context, *xs: Any, axis: int, activation: str) -> Any:
    return activated(ctx, today("Concat")(ctx, *xs, axis=axis), activation)


@tflite_op("PACK")
def _pack(ctx: Context, *xs: Any, axis: int) -> Any:
    new = [today("Unsqueeze")(ctx, x, np.array([axis], np.int64)) for x in xs]
    return today("Concat")(ctx, *new, axis=axis)


@tflite_op("UNPACK")
def _unpack(ctx: Context, x: Any, *, num: int, axis: int) -> Any:
    ndim = len(x.shape)
    if not -ndim <= axis < ndim or int(x.shape[axis]) != num:
        raise ShapeError(f"{ctx.node.label()}: {num} parts of axis {axis} of x {tuple(x.shape)}")
    lead = (slice(None),) * (axis % ndim)
    return tuple(_entry(x, (*lead, i)) for i in range(num))


def _entry(x: Any, key: Any) -> Any:
    """x[key]; an entry of a shape stays an array."""
    found = x[key]
    if isinstance(found, np.ndarray | Tensor):
        return found
    return shape_array([found]).reshape(()) if x.dtype == object else np.asarray(found, x.dtype)


@tflite_op("SPLIT")
def _split(ctx: Context, axis: Any, x: Any, *, num_splits: int) -> Any:
    (along,) = ctx.ints(axis, "the axis")
    if num_splits < 1 or x.shape[along] % num_splits:
        raise ShapeError(f"{ctx.node.label()}: {num_splits} equal parts of axis {along} of x {tuple(x.shape)}")
    return today("Split")(ctx, x, axis=along, num_outputs=num_splits)


@tflite_op("SPLIT_V")
def _split_v(ctx: Context, x: Any, sizes: Any, axis: Any, *, num_splits: int) -> Any:
    (along,), parts = ctx.ints(axis, "the axis"), list(ctx.ints(sizes, "sizes"))
    if parts.count(-1) == 1:
        parts[parts.index(-1)] = x.shape[along] - sum(parts) - 1
    return today("Split")(ctx, x, shape_array(parts), axis=along)


@tflite_op("SLICE")
def _slice(ctx: Context, x: Any, begin: Any, size: Any) -> Any:
    starts, sizes = ctx.ints(begin, "where it begins"), ctx.ints(size, "its size")
    if len(starts) != len(x.shape) or len(sizes) != len(starts):
        raise ShapeError(f"{ctx.node.label()}: from {starts}, {sizes} cells, of x {tuple(x.shape)}")
    key = []
    for n, start, count in zip(x.shape, starts, sizes, strict=True):
        whole = type(count) is int and count == -1
        if type(n) is type(start) is type(count) is int and not 0 <= start <= start + max(count, 0) <= n:
            raise ShapeError(f"{ctx.node.label()}: {count} cells from {start} on of {n}")
        key.append(slice(None if type(start) is int and not start else start, None if whole else start + count))
    return x[tuple(key)]


@tflite_op("STRIDED_SLICE")
def _strided_slice(
    ctx: Context, x: Any, begin: Any, end: Any, strides: Any, *, begin_mask: int, end_mask: int, ellipsis_mask: int,
    new_axis_mask: int, shrink_axis_mask: int, offset: bool,
) -> Any:  # fmt: skip
    """x[begin:end:stride, ...], a bit of each mask for each entry: left open, `...`, a new axis, one cell."""
    starts, ends, steps = (ctx.ints(v, "begin, end and strides") for v in (begin, end, strides))
    if not len(starts) == len(ends) == len(steps):
        raise ShapeError(f"{ctx.node.label()}: begin {starts}, end {ends}, strides {steps}")

    def has(mask: int, i: int) -> bool:
        return bool(mask >> i & 1)

    new = sum(has(new_axis_mask, i) and not has(ellipsis_mask, i) for i in range(len(starts)))
    dots = sum(has(ellipsis_mask, i) for i in range(len(starts)))
    rest = len(x.shape) - (len(starts) - new - dots)
    if dots > 1 or rest < 0:
        raise ShapeError(f"{ctx.node.label()}: {len(starts)} slices of x {tuple(x.shape)}")
    key: list[Any] = []
    axes = iter(x.shape)
    for i, (start, stop, step) in enumerate(zip(starts, ends, steps, strict=True)):
        if has(ellipsis_mask, i):
            key += [slice(None)] * rest
            for _ in range(rest):
                next(axes)
        elif has(new_axis_mask, i):
            key.append(None)
        elif has(shrink_axis_mask, i):
            key.append(_cell(ctx, start, next(axes)))
        else:
            key.append(_span(ctx, next(axes), start, stop + start if offset else stop, step,
                             has(begin_mask, i), has(end_mask, i)))  # fmt: skip
    if is_known(x) and isinstance(x, np.ndarray):
        return np.asarray(x[tuple(key)])
    return _entry(x, tuple(key))


def _cell(ctx: Context, at: int, size: int) -> int:
    if type(at) is int and type(size) is int and not -size <= at < size:
        raise ShapeError(f"{ctx.node.label()}: cell {at} of {size}")
    return at


def _span(ctx: Context, size: int, start: int, stop: int, step: int, begins: bool, ends: bool) -> slice:
    """A slice; left open where it `begins` or `ends` with the axis."""
    if step == 0:
        raise UsageError(f"{ctx.node.label()}: a stride is 0")
    found = slice_of(size, start, stop, step)
    return slice(None if begins else found.start, None if ends else found.stop, found.step)


@tflite_op("REVERSE_V2")
def _reverse(ctx: Context, x: Any, axes: Any) -> Any:
    along = ctx.ints(axes, "axes")
    return ops.flip(tensor(x), axis=along) if along else x


# -- padding -----------------------------------------------------------------------------------------------------------
def _widths(ctx: Context, x: Any, pads: Any) -> tuple[int, ...]:
    """What `padded` takes, all befores and all afters, of TensorFlow's pairs."""
    found = ctx.ints(pads, "padding")
    if len(found) != 2 * len(x.shape):
        raise ShapeError(f"{ctx.node.label()}: padding {found} for x {tuple(x.shape)}")
    return (*found[::2], *found[1::2])


@tflite_op("PAD")
def _pad(ctx: Context, x: Any, pads: Any) -> Any:
    return padded(ctx, x, _widths(ctx, x, pads), None, "constant", 0)


@tflite_op("PADV2")
def _pad_v2(ctx: Context, x: Any, pads: Any, value: Any) -> Any:
    fill = ctx.value(value, "the padding value").reshape(-1)[0].item()
    return padded(ctx, x, _widths(ctx, x, pads), None, "constant", fill)


@tflite_op("MIRROR_PAD")
def _mirror_pad(ctx: Context, x: Any, pads: Any, *, mode: str) -> Any:
    """x reflected at its first and last cells; "SYMMETRIC": with these."""
    widths = _widths(ctx, x, pads)
    if mode == "REFLECT":
        return padded(ctx, x, widths, None, "reflect", 0)
    for axis, (n, before, after) in enumerate(
        zip(x.shape, widths[: len(x.shape)], widths[len(x.shape) :], strict=True)
    ):
        if before or after:
            if type(n) is not int or not 0 <= before <= n or not 0 <= after <= n:
                raise ShapeError(f"{ctx.node.label()}: {n} cells reflected into {before} and {after}")
            places = np.pad(np.arange(n), (before, after), "symmetric")
            x = ops.take(tensor(x), tensor(places), axis=axis)
    return x


# -- gathering ---------------------------------------------------------------------------------------------------------
@tflite_op("GATHER")
def _gather(ctx: Context, x: Any, index: Any, *, axis: int, batch_dims: int) -> Any:
    """The slices of x along an axis that `index` names; `batch_dims` axes of both are walked together."""
    ndim = len(x.shape)
    axis, batch = axis % max(ndim, 1), batch_dims + len(index.shape) if batch_dims < 0 else batch_dims
    if not batch:
        return today("Gather")(ctx, x, index, axis=axis)
    if axis != batch or tuple(x.shape[:batch]) != tuple(index.shape[:batch]):
        raise UsageError(f"{ctx.node.label()}: along axis {axis} with {batch} axes walked together, x {tuple(x.shape)}")
    lead, size = x.shape[:batch], x.shape[axis]
    count = math.prod(lead)
    begin = np.arange(count, dtype=np.int64).reshape(*lead, *[1] * (len(index.shape) - batch)) * size
    rows = ops.reshape(tensor(x), (count * size, *x.shape[axis + 1 :]))
    return ops.take(rows, ops.astype(tensor(index), "int64") + tensor(begin), axis=0)


@tflite_op("GATHER_ND")
def _gather_nd(ctx: Context, x: Any, index: Any) -> Any:
    return today("GatherND")(ctx, x, index)


@tflite_op("SCATTER_ND")
def _scatter_nd(ctx: Context, index: Any, updates: Any, shape: Any) -> Any:
    """Zeros with updates added at their places."""
    sizes = ctx.ints(shape, "its shape")
    require_room(ctx.node.label(), sizes, updates.dtype.itemsize)
    return today("ScatterND")(ctx, np.zeros(sizes, updates.dtype), index, updates, reduction="add")


@tflite_op("ONE_HOT")
def _one_hot(ctx: Context, index: Any, depth: Any, on: Any, off: Any, *, axis: int) -> Any:
    values = np.stack([ctx.value(v, "its values").reshape(()) for v in (off, on)])
    return today("OneHot")(ctx, index, np.array(ctx.ints(depth, "the depth"), np.int64), values, axis=axis)


@tflite_op("WHERE")
def _where(ctx: Context, condition: Any) -> Any:
    """The places [n, rank] where it is not 0."""
    return today("Transpose")(ctx, today("NonZero")(ctx, condition), perm=(1, 0))


# -- blocks ------------------------------------------------------------------------------------------------------------
@tflite_op("DEPTH_TO_SPACE")
def _depth_to_space(ctx: Context, x: Any, *, block_size: int) -> Any:
    n, h, w, c = _image_of_blocks(ctx, x, block_size)
    deep = c // block_size**2
    cells = ops.reshape(tensor(x), (n, h, w, block_size, block_size, deep))
    return ops.reshape(ops.permute_dims(cells, (0, 1, 3, 2, 4, 5)), (n, h * block_size, w * block_size, deep))


@tflite_op("SPACE_TO_DEPTH")
def _space_to_depth(ctx: Context, x: Any, *, block_size: int) -> Any:
    n, h, w, c = _image_of_blocks(ctx, x, block_size)
    rows, columns = h // block_size, w // block_size
    cells = ops.reshape(tensor(x), (n, rows, block_size, columns, block_size, c))
    return ops.reshape(ops.permute_dims(cells, (0, 1, 3, 2, 4, 5)), (n, rows, columns, c * block_size**2))


def _image_of_blocks(ctx: Context, x: Any, block: int) -> tuple[int, ...]:
    if block < 1 or len(x.shape) != 4:
        raise ShapeError(f"{ctx.node.label()}: blocks of {block} of x {tuple(x.shape)}")
    return tuple(x.shape)


def _blocks(ctx: Context, x: Any, block: Any, edges: Any) -> tuple[tuple[int, ...], list[tuple[int, int]]]:
    """Sizes of a block along the axes after the first, and the pairs of widths at their ends."""
    sizes, ends = ctx.ints(block, "its blocks"), ctx.ints(edges, "its ends")
    if not 0 < len(sizes) <= min(_MOST_BLOCKS, len(x.shape) - 1) or len(ends) != 2 * len(sizes) or min(sizes) < 1:
        raise ShapeError(f"{ctx.node.label()}: blocks of {sizes}, ends {ends}, of x {tuple(x.shape)}")
    return sizes, list(zip(ends[::2], ends[1::2], strict=True))


@tflite_op("SPACE_TO_BATCH_ND")
def _space_to_batch(ctx: Context, x: Any, block: Any, pads: Any) -> Any:
    """Each place inside of a block becomes samples of its own."""
    sizes, widths = _blocks(ctx, x, block, pads)
    count = len(sizes)
    whole = [(0, 0), *widths, *[(0, 0)] * (len(x.shape) - 1 - count)]
    x = padded(ctx, tensor(x), [w[0] for w in whole] + [w[1] for w in whole], None, "constant", 0)
    n, spatial, rest = x.shape[0], x.shape[1 : 1 + count], x.shape[1 + count :]
    new = [size // b for size, b in zip(spatial, sizes, strict=True)]
    cells = ops.reshape(x, (n, *itertools.chain(*zip(new, sizes, strict=True)), *rest))
    last = range(1 + 2 * count, 1 + 2 * count + len(rest))
    cells = ops.permute_dims(cells, (*range(2, 2 + 2 * count, 2), 0, *range(1, 1 + 2 * count, 2), *last))
    return ops.reshape(cells, (n * math.prod(sizes), *new, *rest))


@tflite_op("BATCH_TO_SPACE_ND")
def _batch_to_space(ctx: Context, x: Any, block: Any, crops: Any) -> Any:
    """What SPACE_TO_BATCH_ND made, put together again and cut at its ends."""
    sizes, cuts = _blocks(ctx, x, block, crops)
    count, x = len(sizes), tensor(x)
    n, spatial, rest = x.shape[0] // math.prod(sizes), x.shape[1 : 1 + count], x.shape[1 + count :]
    cells = ops.reshape(x, (*sizes, n, *spatial, *rest))
    pairs = itertools.chain(*((1 + count + i, i) for i in range(count)))
    cells = ops.permute_dims(cells, (count, *pairs, *range(1 + 2 * count, 1 + 2 * count + len(rest))))
    whole = [size * b for size, b in zip(spatial, sizes, strict=True)]
    y = ops.reshape(cells, (n, *whole, *rest))
    if min(v for cut in cuts for v in cut) < 0:
        raise ShapeError(f"{ctx.node.label()}: cuts {cuts}")
    return y[(slice(None), *(slice(a, size - b) for size, (a, b) in zip(whole, cuts, strict=True)))]
