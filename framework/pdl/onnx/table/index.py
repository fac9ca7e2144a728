"""Reading and writing at places that are values: gather, scatter, one-hot, triangles, unique entries."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pdl import ops
from pdl.dims import same
from pdl.dtype import Array
from pdl.errors import IndexRangeError, ShapeError, UsageError
from pdl.onnx.eager import computed, scalar
from pdl.onnx.registry import Context, NeedsValue, onnx_op
from pdl.onnx.values import dtype_of, is_known, is_tensor_dtype, require_room, shape_array, tensor

_REDUCTIONS: dict[str, Any] = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def _checked(ctx: Context, index: Array, size: int) -> Array:
    """Places from the front; IndexRangeError outside [-size, size)."""
    least = index.min(initial=0)
    if index.size and not -size <= least <= index.max() < size:
        raise IndexRangeError(f"{ctx.node.label()}: places {index.min()} to {index.max()} on an axis of {size}")
    places = index if least >= 0 else np.where(index < 0, index + size, index)
    return places.astype(np.int64, copy=False)


@onnx_op("GatherElements", since=11)
def _gather_elements(ctx: Context, x: Any, index: Any, *, axis: int = 0) -> Any:
    """y[i][j] = x[index[i][j]][j] (here along the first axis); the other sizes of `index` may be smaller."""
    axis = axis % len(x.shape)
    if not is_known(x, index):
        cut = tuple(slice(None) if i == axis else slice(n) for i, n in enumerate(index.shape))
        return ops.gather(tensor(x)[cut], tensor(index), axis=axis)
    values, places = ctx.value(x), _checked(ctx, ctx.value(index), x.shape[axis])
    cut = tuple(slice(None) if i == axis else slice(n) for i, n in enumerate(places.shape))
    return np.take_along_axis(values[cut], places, axis)


@onnx_op("ScatterElements", since=11)
def _scatter_elements(ctx: Context, x: Any, index: Any, updates: Any, *, axis: int = 0, reduction: str = "none") -> Any:
    """x with updates[i][j] at [index[i][j]][j] (here along the first axis), put there, or added, multiplied, ..."""
    axis = axis % len(x.shape)
    if not is_known(x, index, updates):
        if reduction not in ("none", "add"):
            raise NeedsValue(f"{ctx.node.label()}: reduction {reduction!r} is computed by the interpreter")
        function = ops.scatter if reduction == "none" else ops.scatter_add
        return _scattered(function, tensor(x), tensor(index), tensor(updates), axis)
    values, places = ctx.value(x).copy(), _checked(ctx, ctx.value(index), x.shape[axis])
    lines = np.moveaxis(places, axis, 0).reshape(places.shape[axis], -1) if places.size else places
    if places.size and reduction == "none" and (lines == lines[:, :1]).all():  # whole slices: regions of a detector
        cut = [slice(n) for n in places.shape]
        values[tuple(lines[:, 0] if i == axis else s for i, s in enumerate(cut))] = ctx.value(updates)
        return values
    key: list[Any] = list(np.ogrid[tuple(slice(n) for n in places.shape)])
    key[axis] = places
    return _written(ctx, values, tuple(key), ctx.value(updates), reduction)


def _scattered(function: Any, x: Any, index: Any, updates: Any, axis: int) -> Any:
    """Where other sizes of `index` than that of the axis are smaller, the part of x that it covers, joined with the
    rest."""
    smaller = next((i for i, n in enumerate(index.shape) if i != axis and not same(n, x.shape[i])), None)
    if smaller is None:
        return function(x, index, updates, axis=axis)
    lead, n = (slice(None),) * smaller, index.shape[smaller]
    covered = _scattered(function, x[(*lead, slice(n))], index, updates, axis)
    return ops.concat([covered, x[(*lead, slice(n, None))]], axis=smaller)


@onnx_op("Scatter", since=9)
def _scatter(ctx: Context, x: Any, index: Any, updates: Any, *, axis: int = 0) -> Any:
    """ScatterElements under its first name."""
    return _scatter_elements(ctx, x, index, updates, axis=axis)


@onnx_op("ScatterND", since=11)
def _scatter_nd(ctx: Context, x: Any, index: Any, updates: Any, *, reduction: str = "none") -> Any:
    """x with the slices updates[i] at the places index[i], put there, or added, multiplied, ..."""
    if not is_known(x, index, updates):
        return _scatter_nd_traced(ctx, x, index, updates, reduction)
    values, places = ctx.value(x).copy(), ctx.value(index)
    if places.shape[-1] > values.ndim:
        raise ShapeError(f"{ctx.node.label()}: index {places.shape} for x {values.shape}")
    key = tuple(_checked(ctx, places[..., i], values.shape[i]) for i in range(places.shape[-1]))
    return _written(ctx, values, key, ctx.value(updates), reduction)


def _scatter_nd_traced(ctx: Context, x: Any, index: Any, updates: Any, reduction: str) -> Any:
    """The same as one scatter along the flattened leading axes of x."""
    depth = index.shape[-1]
    lead, rest = x.shape[:depth], x.shape[depth:]
    if reduction not in ("none", "add"):
        raise NeedsValue(f"{ctx.node.label()}: reduction {reduction!r} is computed by the interpreter")
    steps = shape_array([math.prod(lead[i + 1 :]) for i in range(depth)])
    places = ops.astype(tensor(index), "int64")
    places = ops.where(ops.less(places, 0), places + tensor(shape_array(lead)), places)
    count, width = math.prod(index.shape[:-1]), math.prod(rest)
    flat = ops.reshape(ops.sum(places * tensor(steps), axis=-1), (count, 1))
    rows, news = ops.reshape(tensor(x), (math.prod(lead), width)), ops.reshape(tensor(updates), (count, width))
    function = ops.scatter if reduction == "none" else ops.scatter_add
    made = function(rows, ops.broadcast_to(flat, (count, width)), news, axis=0)
    return ops.reshape(made, x.shape)


def _written(ctx: Context, x: Array, key: tuple[Any, ...], updates: Array, reduction: str) -> Array:
    """Updates written into x at a key; with a reduction, places that repeat count each time."""
    if reduction == "none":
        x[key] = updates
    elif reduction in _REDUCTIONS:
        _REDUCTIONS[reduction].at(x, key, updates)
    else:
        raise UsageError(f"{ctx.node.label()}: reduction {reduction!r} is not known")
    return x


@onnx_op("GatherND", since=11)
def _gather_nd(ctx: Context, x: Any, index: Any, *, batch_dims: int = 0) -> Any:
    """The slices x[index[i]]; with `batch_dims` the first axes of both are walked together."""
    depth = index.shape[-1]
    if batch_dims + depth > len(x.shape) or x.shape[:batch_dims] != index.shape[:batch_dims]:
        raise ShapeError(f"{ctx.node.label()}: index {tuple(index.shape)} for x {tuple(x.shape)}, {batch_dims} shared")
    left = tuple(x.shape[batch_dims + depth :])
    if any(type(n) is int and n == 0 for n in left):  # slices of nothing: no place is read
        return np.zeros((*index.shape[:-1], *left), x.dtype) if is_known(x) else _empty(x, (*index.shape[:-1], *left))
    if not is_known(x, index):
        return _gather_nd_traced(ctx, x, index, batch_dims)
    values, places = ctx.value(x), ctx.value(index)
    batch = np.ogrid[tuple(slice(n) for n in places.shape[:batch_dims])] if batch_dims else []
    batch = [b.reshape(*b.shape, *[1] * (places.ndim - 1 - batch_dims)) for b in batch]
    key = [_checked(ctx, places[..., i], values.shape[batch_dims + i]) for i in range(depth)]
    return values[(*batch, *key)]


def _empty(x: Any, shape: tuple[int, ...]) -> Any:
    return ops.broadcast_to(tensor(np.zeros((), x.dtype)), shape)


def _gather_nd_traced(ctx: Context, x: Any, index: Any, batch_dims: int) -> Any:
    """The same by tensors of places, one for each axis."""
    if not all(type(n) is int for n in index.shape[:batch_dims]):
        raise NeedsValue(f"{ctx.node.label()} walks a size that is not known")
    places = tensor(index)
    batch: Any = np.ogrid[tuple(slice(n) for n in index.shape[:batch_dims])] if batch_dims else []
    key: list[Any] = [tensor(b.reshape(*b.shape, *[1] * (places.ndim - 1 - batch_dims))) for b in batch]
    key += [places[..., i] for i in range(index.shape[-1])]
    return tensor(x)[tuple(key)]


@onnx_op("OneHot", since=9)
def _one_hot(ctx: Context, indices: Any, depth: Any, values: Any, *, axis: int = -1) -> Any:
    """values[1] where a new axis of `depth` places stands at the index, else values[0]; other indices: values[0]."""
    count = int(scalar(ctx.value(depth, "the depth"), "the depth"))
    index: Any
    shape = tuple(indices.shape)
    axis = axis % (len(shape) + 1)
    require_room(ctx.node.label(), (*shape, count), values.dtype.itemsize)
    places = np.arange(count).reshape([-1 if i == axis else 1 for i in range(len(shape) + 1)])
    wide = (*shape[:axis], 1, *shape[axis:])
    if is_known(indices, values):
        index, both = ctx.value(indices).reshape(wide).astype(np.int64), ctx.value(values)
        return np.where((index == places) | (index + count == places), both[1], both[0]).astype(both.dtype)
    index = ops.astype(ops.reshape(tensor(indices), wide), "int64")
    at = tensor(places)
    hit = ops.logical_or(ops.equal(index, at), ops.equal(index + count, at))
    both = tensor(values)
    return ops.where(hit, both[1], both[0])


@onnx_op("Compress", since=9)
@computed
def _compress(ctx: Context, x: Any, condition: Any, *, axis: int | None = None) -> Any:
    """The slices of x, or of x flattened, where the condition holds."""
    return np.compress(condition.astype(bool), x, axis)


@onnx_op("NonZero", since=9)
@computed
def _non_zero(ctx: Context, x: Any) -> Any:
    """The places of all elements but zeros, in their order; [rank, number]."""
    return np.array(np.nonzero(x), np.int64).reshape(x.ndim, -1)


@onnx_op("Unique", since=11)
@computed
def _unique(ctx: Context, x: Any, *, axis: int | None = None, sorted: int = 1) -> Any:
    """The different values, or slices along `axis`; where each first stands, which one each is, and how many are it."""
    flat = x.reshape(-1) if axis is None else x
    y, first, inverse, counts = np.unique(
        flat, return_index=True, return_inverse=True, return_counts=True, axis=0 if axis is None else axis
    )
    inverse = inverse.reshape(-1)
    if not sorted:
        order = np.argsort(first)
        y = np.take(y, order, axis=0 if axis is None else axis)
        first, counts = first[order], counts[order]
        inverse = np.argsort(order)[inverse]
    return y, *(v.astype(np.int64) for v in (first, inverse, counts))


@onnx_op("EyeLike", since=9)
def _eye_like(ctx: Context, x: Any, *, dtype: int | None = None, k: int = 0) -> Any:
    """Ones on the diagonal k of a matrix shaped as x."""
    if len(x.shape) != 2 or not all(type(n) is int for n in x.shape):
        raise NeedsValue(f"{ctx.node.label()}: x {tuple(x.shape)} must be a matrix of sizes that are known")
    rows, columns = x.shape
    return np.eye(rows, columns, k, dtype=x.dtype if dtype is None else dtype_of(dtype, ctx.node.label()))


@onnx_op("Trilu", since=14)
def _trilu(ctx: Context, x: Any, k: Any = None, *, upper: int = 1) -> Any:
    """x on and above (or below) the diagonal k, 0 elsewhere."""
    diagonal = 0 if k is None else int(scalar(ctx.value(k, "the diagonal"), "the diagonal"))
    if is_known(x):
        return (np.triu if upper else np.tril)(ctx.value(x), diagonal)
    return (ops.triu if upper else ops.tril)(tensor(x), k=diagonal)


@onnx_op("TopK", since=1)
def _top_k_1(ctx: Context, x: Any, *, k: int, axis: int = -1) -> Any:
    """The k largest along an axis, and their places."""
    return top_k(ctx, x, k, axis, 1)


@onnx_op("TopK", since=10)
def _top_k_10(ctx: Context, x: Any, k: Any, *, axis: int = -1, largest: int = 1, sorted: int = 1) -> Any:
    """The k largest or smallest along an axis in their order, equal ones in that of their places."""
    (count,) = ctx.ints(k, "k")
    return top_k(ctx, x, count, axis, largest)


def top_k(ctx: Context, x: Any, k: int, axis: int, largest: int) -> Any:
    """The k largest or smallest values along an axis, and their places."""
    axis = axis % len(x.shape)
    if type(x.shape[axis]) is int and not 0 <= k <= x.shape[axis]:
        raise UsageError(f"{ctx.node.label()}: k = {k} of {x.shape[axis]}")
    if not is_known(x) or is_tensor_dtype(x.dtype):
        return ops.topk(tensor(x), k, axis=axis, largest=bool(largest))
    values = ctx.value(x)
    if largest:
        order = np.flip(values.shape[axis] - 1 - np.argsort(np.flip(values, axis), axis, kind="stable"), axis)
    else:
        order = np.argsort(values, axis, kind="stable")
    places = np.take(order, np.arange(k), axis).astype(np.int64)
    return np.take_along_axis(values, places, axis), places
