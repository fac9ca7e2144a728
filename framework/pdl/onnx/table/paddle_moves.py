"""Operations of Paddle, as PIR has them, that make and move numbers: constants, shapes, slices, joins, padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pdl import ops
from pdl.errors import ShapeError, UsageError
from pdl.onnx.registry import Context, today
from pdl.onnx.table.paddle import is_undefined, of_dtype, paddle_op, require_channels_first
from pdl.onnx.table.shape import padded, reshaped
from pdl.onnx.values import dtype_named, is_shape, require_room, shape_array, tensor


# -- constants ---------------------------------------------------------------------------------------------------------
def _filled(ctx: Context, sizes: Sequence[int], value: Any, dtype: str) -> Any:
    kind = dtype_named(dtype)
    require_room(ctx.node.label(), sizes, kind.itemsize)
    shape = shape_array(sizes)
    return today("Expand")(ctx, np.asarray(value).astype(kind).reshape(()), shape)


@paddle_op("full")
def _full(ctx: Context, *, shape: Any, value: Any, dtype: str) -> Any:
    return _filled(ctx, shape, value, dtype)


@paddle_op("full_int_array")
def _full_int_array(ctx: Context, *, value: Any, dtype: str = "int64") -> Any:
    return np.array(value, dtype_named(dtype)).reshape(-1)


@paddle_op("full_with_tensor")
def _full_with_tensor(ctx: Context, value: Any, shape: Any, *, dtype: str) -> Any:
    return _filled(ctx, ctx.ints(shape, "its shape"), ctx.value(value, "its value"), dtype)


@paddle_op("full_legacy")
def _full_legacy(
    ctx: Context, shape: Any, value_tensor: Any = None, *, dtype: str, value: float = 0.0, str_value: str = ""
) -> Any:
    """The value of a tensor, that in a text, which holds more digits, or that of an attribute."""
    given = value if not str_value else float(str_value)
    found = given if value_tensor is None else ctx.value(value_tensor, "its value")
    return _filled(ctx, ctx.ints(shape, "its shape"), found, dtype)


@paddle_op("full_like")
def _full_like(ctx: Context, x: Any, value: Any, *, dtype: str = "") -> Any:
    own = "int64" if is_shape(x) else x.dtype.name
    return _filled(ctx, tuple(x.shape), ctx.value(value, "its value"), own if is_undefined(dtype) else dtype)


@paddle_op("full_batch_size_like")
def _full_batch_size_like(
    ctx: Context, x: Any, *, shape: Any, value: Any, dtype: str, input_dim_idx: int = 0, output_dim_idx: int = 0
) -> Any:
    sizes = list(shape)
    sizes[output_dim_idx] = x.shape[input_dim_idx]
    return _filled(ctx, sizes, value, dtype)


@paddle_op("assign_value_")
@paddle_op("assign_value")
def _assign_value(
    ctx: Context, old: Any = None, *, shape: Any, dtype: str, values: Any = (), fp32_values: Any = (),
    int32_values: Any = (), int64_values: Any = (), bool_values: Any = (),
) -> Any:  # fmt: skip
    """Numbers that an attribute holds."""
    found: Any = next((v for v in (values, fp32_values, int32_values, int64_values, bool_values) if v), [])
    return np.array(found).astype(dtype_named(dtype)).reshape([int(n) for n in shape])


@paddle_op("arange")
def _arange(ctx: Context, start: Any, end: Any, step: Any, *, dtype: str = "") -> Any:
    ends = [v if is_shape(v) else ctx.value(v, "start, end and step") for v in (start, end, step)]
    return of_dtype(ctx, today("Range")(ctx, *(v.reshape(()) for v in ends)), dtype)


@paddle_op("cast")
def _cast(ctx: Context, x: Any, *, dtype: str) -> Any:
    return of_dtype(ctx, x, dtype)


# -- shapes ------------------------------------------------------------------------------------------------------------
@paddle_op("shape")
@paddle_op("shape64")
def _shape(ctx: Context, x: Any) -> Any:
    return shape_array(tuple(x.shape))


@paddle_op("joined")
def _joined(ctx: Context, *xs: Any) -> Any:
    """Numbers of which each is a tensor of its own, as one shape."""
    return today("Concat")(ctx, *(reshaped(x, (-1,)) for x in xs), axis=0)


@paddle_op("reshape")
def _reshape(ctx: Context, x: Any, shape: Any) -> Any:
    return today("Reshape")(ctx, x, shape)


@paddle_op("flatten")
def _flatten(ctx: Context, x: Any, *, start_axis: int = 1, stop_axis: int = -1) -> Any:
    """The axes from start to stop, with both, as one."""
    ndim = max(1, len(x.shape))
    first, last = start_axis % ndim, stop_axis % ndim
    if first > last:
        raise ShapeError(f"{ctx.node.label()}: axes {start_axis} to {stop_axis} of x {tuple(x.shape)}")
    inner = 1
    for n in x.shape[first : last + 1]:
        inner = inner * n
    return reshaped(x, (*x.shape[:first], inner, *x.shape[last + 1 :]))


@paddle_op("flatten2")
def _flatten2(ctx: Context, x: Any, *, axis: int = 1) -> Any:
    return today("Flatten")(ctx, x, axis=axis)


@paddle_op("squeeze")
def _squeeze(ctx: Context, x: Any, axes: Any = None) -> Any:
    """Without those of the axes that have one cell; without all such where none is named."""
    ndim = max(1, len(x.shape))
    named = {a % ndim for a in (ctx.ints(axes, "axes") if axes is not None else ())} or set(range(len(x.shape)))
    return reshaped(x, [n for i, n in enumerate(x.shape) if i not in named or type(n) is not int or n != 1])


@paddle_op("unsqueeze")
def _unsqueeze(ctx: Context, x: Any, axes: Any) -> Any:
    """New axes of one cell, one after the other."""
    sizes = list(x.shape)
    for axis in ctx.ints(axes, "axes"):
        if not -len(sizes) - 1 <= axis <= len(sizes):
            raise ShapeError(f"{ctx.node.label()}: a new axis {axis} beside {tuple(sizes)}")
        sizes.insert(axis if axis >= 0 else axis + len(sizes) + 1, 1)
    return reshaped(x, sizes)


@paddle_op("transpose")
def _transpose(ctx: Context, x: Any, *, perm: Any) -> Any:
    return today("Transpose")(ctx, x, perm=[a % max(1, len(x.shape)) for a in perm])


@paddle_op("expand")
def _expand(ctx: Context, x: Any, shape: Any) -> Any:
    """To a shape, whose -1 are the sizes of x."""
    wanted = list(ctx.ints(shape, "its shape"))
    behind = len(wanted) - len(x.shape)
    sizes = [x.shape[i - behind] if type(n) is int and n == -1 and i >= behind else n for i, n in enumerate(wanted)]
    return today("Expand")(ctx, x, shape_array(sizes))


@paddle_op("expand_as")
def _expand_as(ctx: Context, x: Any, y: Any = None, *, target_shape: Any = ()) -> Any:
    return _expand(ctx, x, shape_array(tuple(y.shape) if y is not None else tuple(target_shape)))


@paddle_op("tile")
def _tile(ctx: Context, x: Any, repeats: Any) -> Any:
    times = ctx.ints(repeats, "repeats")
    rank = max(len(times), len(x.shape))
    x = reshaped(x, (*[1] * (rank - len(x.shape)), *x.shape))
    return today("Tile")(ctx, x, shape_array((*[1] * (rank - len(times)), *times)))


# -- joining and cutting -----------------------------------------------------------------------------------------------
@paddle_op("concat")
def _concat(ctx: Context, *xs_and_axis: Any) -> Any:
    *xs, axis = xs_and_axis
    (along,) = ctx.ints(axis, "the axis")
    return today("Concat")(ctx, *xs, axis=along)


@paddle_op("stack")
def _stack(ctx: Context, *xs: Any, axis: int = 0) -> Any:
    return today("Concat")(ctx, *(today("Unsqueeze")(ctx, x, np.array([axis], np.int64)) for x in xs), axis=axis)


@paddle_op("unstack")
@paddle_op("unbind")
def _unstack(ctx: Context, x: Any, *, axis: int = 0, num: int = 0) -> Any:
    count = len(ctx.node.outputs)
    if num not in (0, count) or int(x.shape[axis]) != count:
        raise ShapeError(f"{ctx.node.label()}: {count} parts of axis {axis} of x {tuple(x.shape)}")
    lead = (slice(None),) * (axis % len(x.shape))
    return tuple(x[(*lead, i)] for i in range(count))


@paddle_op("split")
def _split(ctx: Context, x: Any, sections: Any, axis: Any) -> Any:
    return _split_legacy(ctx, x, sections, axis)


@paddle_op("split_with_num")
def _split_with_num(ctx: Context, x: Any, axis: Any, *, num: int) -> Any:
    return _split_legacy(ctx, x, None, axis, num=num)


@paddle_op("split_legacy")
def _split_legacy(ctx: Context, x: Any, sections: Any, axis: Any, *, num: int = 0) -> Any:
    """In equal parts, or of sizes of which one may be -1: what is left."""
    (along,) = ctx.ints(axis, "the axis")
    if num:
        if num < 0 or int(x.shape[along]) % num:
            raise ShapeError(f"{ctx.node.label()}: {num} equal parts of axis {along} of x {tuple(x.shape)}")
        return today("Split")(ctx, x, axis=along, num_outputs=num)
    sizes = list(ctx.ints(sections, "sections")) if sections is not None else []
    if sizes.count(-1) == 1:
        sizes[sizes.index(-1)] = x.shape[along] - sum(sizes) - 1
    return today("Split")(ctx, x, shape_array(sizes), axis=along)


@paddle_op("slice")
def _slice(ctx: Context, x: Any, starts: Any, ends: Any, *, axes: Any, decrease_axis: Any = ()) -> Any:
    return _strided_slice(ctx, x, starts, ends, None, axes=axes, decrease_axis=decrease_axis)


@paddle_op("strided_slice")
def _strided_slice(
    ctx: Context, x: Any, starts: Any, ends: Any, strides: Any = None, *, axes: Any, decrease_axis: Any = ()
) -> Any:
    """x[start:end:stride] along axes, then without those of `decrease_axis`, which have one cell."""
    y = today("Slice")(ctx, x, starts, ends, np.array(axes, np.int64), strides)
    gone = {a % max(1, len(y.shape)) for a in decrease_axis}
    if any(type(y.shape[a]) is int and y.shape[a] != 1 for a in gone):
        raise ShapeError(f"{ctx.node.label()}: axes {sorted(gone)} of {tuple(y.shape)} do not have one cell")
    return reshaped(y, [n for i, n in enumerate(y.shape) if i not in gone]) if gone else y


@paddle_op("flip")
def _flip(ctx: Context, x: Any, *, axis: Any) -> Any:
    return ops.flip(tensor(x), axis=tuple(axis))


@paddle_op("meshgrid")
def _meshgrid(ctx: Context, *xs: Any) -> Any:
    """Each of the axes, spread over all others."""
    sizes = [x.shape[0] if x.shape else 1 for x in xs]
    spread = (reshaped(x, [n if i == at else 1 for i, n in enumerate(sizes)]) for at, x in enumerate(xs))
    return tuple(today("Expand")(ctx, x, shape_array(sizes)) for x in spread)


# -- padding -----------------------------------------------------------------------------------------------------------
_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


@paddle_op("pad3d")
def _pad3d(
    ctx: Context, x: Any, paddings: Any, *, mode: str = "constant", pad_value: float = 0.0, data_format: str = "NCDHW"
) -> Any:
    """Paddings in pairs, the last axis first."""
    require_channels_first(ctx, data_format)
    found = ctx.ints(paddings, "its paddings")
    return _padded(ctx, x, found[::2][::-1], found[1::2][::-1], _MODES.get(mode, mode), pad_value)


@paddle_op("pad2d")
def _pad2d(
    ctx: Context, x: Any, paddings: Any, *, mode: str = "constant", pad_value: float = 0.0, data_format: str = "NCHW"
) -> Any:
    """Paddings in pairs: above and below, left and right."""
    require_channels_first(ctx, data_format)
    found = ctx.ints(paddings, "its paddings")
    return _padded(ctx, x, found[::2], found[1::2], mode, pad_value)


@paddle_op("pad")
def _pad(ctx: Context, x: Any, value: Any = None, *, paddings: Any, pad_value: Any = None) -> Any:
    """Paddings in pairs for every axis."""
    fill = pad_value if value is None else float(ctx.value(value, "the padding value").reshape(()))
    return _padded(ctx, x, paddings[::2], paddings[1::2], "constant", fill or 0.0)


def _padded(ctx: Context, x: Any, before: Any, after: Any, mode: str, value: Any) -> Any:
    lead = [0] * (len(x.shape) - len(before))
    return padded(ctx, x, [*lead, *before, *lead, *after], None, mode, value)


# -- gathering ---------------------------------------------------------------------------------------------------------
@paddle_op("gather")
def _gather(ctx: Context, x: Any, index: Any, axis: Any = None) -> Any:
    (along,) = (0,) if axis is None else ctx.ints(axis, "the axis")
    return today("Gather")(ctx, x, index, axis=along)


@paddle_op("index_select")
def _index_select(ctx: Context, x: Any, index: Any, *, axis: int = 0) -> Any:
    return today("Gather")(ctx, x, index, axis=axis)


@paddle_op("gather_nd")
def _gather_nd(ctx: Context, x: Any, index: Any) -> Any:
    return today("GatherND")(ctx, x, index)


@paddle_op("take_along_axis")
def _take_along_axis(ctx: Context, x: Any, index: Any, *, axis: int) -> Any:
    return today("GatherElements")(ctx, x, index, axis=axis)


@paddle_op("one_hot")
def _one_hot(ctx: Context, x: Any, depth: Any) -> Any:
    count = np.array(ctx.ints(depth, "the depth"), np.int64)
    return today("OneHot")(ctx, x, count, np.array([0, 1], np.float32), axis=-1)


@paddle_op("pixel_shuffle")
def _pixel_shuffle(ctx: Context, x: Any, *, upscale_factor: int, data_format: str = "NCHW") -> Any:
    require_channels_first(ctx, data_format)
    if upscale_factor < 1:
        raise UsageError(f"{ctx.node.label()}: a factor of {upscale_factor}")
    return today("DepthToSpace")(ctx, x, blocksize=upscale_factor, mode="CRD")
