"""Sequences (Python lists of values) and optionals (a value, or None)."""

from __future__ import annotations

from typing import Any

import numpy as np

from pdl import ops
from pdl.errors import IndexRangeError, UsageError
from pdl.onnx.eager import computed, scalar
from pdl.onnx.registry import Context, NeedsValue, onnx_op
from pdl.onnx.values import dtype_of, is_known, tensor
from pdl.tensor import Tensor


@onnx_op("SequenceConstruct", since=11)
def _construct(ctx: Context, *xs: Any) -> Any:
    """The sequence of its inputs."""
    return list(xs)


@onnx_op("SequenceEmpty", since=11)
def _empty(ctx: Context, *, dtype: int = 1) -> Any:
    """The sequence of nothing."""
    dtype_of(dtype, ctx.node.label())
    return []


@onnx_op("SequenceLength", since=11)
def _length(ctx: Context, sequence: Any) -> Any:
    """The number of elements."""
    return np.asarray(len(_sequence(ctx, sequence)), np.int64)


@onnx_op("SequenceAt", since=11)
def _at(ctx: Context, sequence: Any, position: Any) -> Any:
    """The element at a position, counted from the end where negative."""
    items = _sequence(ctx, sequence)
    return items[_place(ctx, position, len(items), len(items) - 1)]


@onnx_op("SequenceInsert", since=11)
def _insert(ctx: Context, sequence: Any, x: Any, position: Any = None) -> Any:
    """The sequence with x before a position; at its end by default."""
    items = _sequence(ctx, sequence)
    at = len(items) if position is None else _place(ctx, position, len(items), len(items))
    return [*items[:at], x, *items[at:]]


@onnx_op("SequenceErase", since=11)
def _erase(ctx: Context, sequence: Any, position: Any = None) -> Any:
    """The sequence without the element at a position; without its last by default."""
    items = _sequence(ctx, sequence)
    at = _place(ctx, np.asarray(-1) if position is None else position, len(items), len(items) - 1)
    return [*items[:at], *items[at + 1 :]]


def _sequence(ctx: Context, x: Any) -> list[Any]:
    if not isinstance(x, list):
        raise UsageError(f"{ctx.node.label()}: a sequence is expected, this is a {type(x).__name__}")
    return x


def _place(ctx: Context, position: Any, length: int, last: int) -> int:
    at = int(scalar(ctx.value(position, "the position"), "the position"))
    if not -length <= at <= last:
        raise IndexRangeError(f"{ctx.node.label()}: position {at} in a sequence of {length}")
    return at + length if at < 0 else at


@onnx_op("ConcatFromSequence", since=11)
def _concat(ctx: Context, sequence: Any, *, axis: int, new_axis: int = 0) -> Any:
    """The elements joined along `axis`, which is a new one with `new_axis`."""
    items = _sequence(ctx, sequence)
    if not items:
        raise UsageError(f"{ctx.node.label()}: the sequence is empty")
    if is_known(*items):
        arrays = [ctx.value(x) for x in items]
        return np.stack(arrays, axis) if new_axis else np.concatenate(arrays, axis)
    tensors = [tensor(x) for x in items]
    return ops.stack(tensors, axis=axis) if new_axis else ops.concat(tensors, axis=axis)


@onnx_op("SplitToSequence", since=11)
@computed
def _split(ctx: Context, x: Any, split: Any = None, *, axis: int = 0, keepdims: int = 1) -> Any:
    """Parts of x along `axis`: of one size, of the sizes given, or single slices."""
    total = x.shape[axis]
    if split is None or split.ndim == 0:
        step = 1 if split is None else int(split)
        if step < 1:
            raise UsageError(f"{ctx.node.label()}: parts of {step} along an axis of {total}")
        starts = list(range(step, total, step))
    else:
        if split.min(initial=0) < 0 or split.sum() != total:
            raise UsageError(f"{ctx.node.label()}: parts of {split.tolist()} along an axis of {total}")
        starts = np.cumsum(split)[:-1].tolist()
    parts = np.split(x, starts, axis)
    return [p.squeeze(axis) for p in parts] if split is None and not keepdims else parts


@onnx_op("SequenceMap", since=17)
def _map(ctx: Context, sequence: Any, *more: Any, body: Any) -> Any:
    """The body's results for each element; further sequences are walked in parallel, tensors passed whole."""
    items = _sequence(ctx, sequence)
    for other in more:
        if isinstance(other, list) and len(other) != len(items):
            raise UsageError(f"{ctx.node.label()}: sequences of {len(items)} and {len(other)}")
    rows = [ctx.call(body, [item, *(m[i] if isinstance(m, list) else m for m in more)]) for i, item in enumerate(items)]
    return tuple([row[k] for row in rows] for k in range(len(body.outputs)))


@onnx_op("Optional", since=15)
def _optional(ctx: Context, x: Any = None, *, type: Any = None) -> Any:
    """x as an optional; without it an empty one."""
    return x


@onnx_op("OptionalHasElement", since=15)
def _has_element(ctx: Context, x: Any = None) -> Any:
    """Whether the optional holds something."""
    return np.asarray(x is not None)


@onnx_op("OptionalGetElement", since=15)
def _get_element(ctx: Context, x: Any) -> Any:
    """What the optional holds."""
    if x is None:
        raise UsageError(f"{ctx.node.label()}: the optional is empty")
    return x


@onnx_op("ReverseSequence", since=10)
def _reverse(ctx: Context, x: Any, lengths: Any, *, batch_axis: int = 1, time_axis: int = 0) -> Any:
    """Each sample's first lengths[i] steps in reverse order, the rest as they are."""
    if {batch_axis, time_axis} != {0, 1} or lengths.shape != (x.shape[batch_axis],):
        raise UsageError(
            f"{ctx.node.label()}: batch_axis {batch_axis}, time_axis {time_axis}, x {x.shape}, lengths {lengths.shape}"
        )
    if not is_known(x, lengths):
        return _reversed_traced(ctx, tensor(x), lengths, batch_axis, time_axis)
    x, lengths = ctx.value(x), ctx.value(lengths)
    rows = np.moveaxis(x, batch_axis, 0)
    if lengths.min(initial=0) < 0 or lengths.max(initial=0) > rows.shape[1]:
        raise IndexRangeError(f"{ctx.node.label()}: lengths up to {lengths.max()} of {rows.shape[1]} steps")
    made = rows.copy()
    for i, n in enumerate(lengths.tolist()):
        made[i, :n] = rows[i, :n][::-1]
    return np.moveaxis(made, 0, batch_axis)


def _reversed_traced(ctx: Context, x: Tensor, lengths: Any, batch_axis: int, time_axis: int) -> Any:
    """The same by gathering."""
    steps = x.shape[time_axis]
    if type(steps) is not int:
        raise NeedsValue(f"{ctx.node.label()} needs the size of its axis of time known")
    at = tensor(np.arange(steps).reshape(-1, 1))
    ends = ops.astype(tensor(lengths), "int64")
    places = ops.where(ops.less(at, ends), ends - 1 - at, at)
    if batch_axis == 0:
        places = ops.swapaxes(places, 0, 1)
    places = ops.reshape(places, (*places.shape, *[1] * (x.ndim - 2)))
    return ops.gather(x, ops.broadcast_to(places, x.shape), axis=time_axis)
