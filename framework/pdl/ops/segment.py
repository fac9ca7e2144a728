"""Reductions over groups of rows, and their adjoint: rows x [R, ...] belong to segments by int ids [R], sorted or not.

A negative id belongs to no segment. Sums run in the order of the rows, whatever the number of threads.
"""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np

from pdl.dtype import Array, int32, int64
from pdl.errors import DtypeError, ShapeError
from pdl.kernels import rows
from pdl.kernels.copies import contiguous, copy
from pdl.kernels.launch import constant
from pdl.ops.attributes import Length
from pdl.ops.base import Arrays, Op, Spec, apply, not_differentiable
from pdl.ops.cast import astype
from pdl.ops.checks import check_floating
from pdl.ops.elementwise import exp, maximum
from pdl.ops.pool import Place
from pdl.ops.shape import reshape
from pdl.tensor import Tensor


def _members(name: str, x: Spec, ids: Spec) -> tuple[int, ...]:
    """The shape of one row; raises where `ids` does not number the rows of `x`."""
    check_floating(name, x=x)
    check_ids(name, "ids", ids)
    if len(ids.shape) != 1 or x.shape[:1] != ids.shape:
        raise ShapeError(f"{name}: ids {ids.shape} must hold one number for each row of x {x.shape}")
    return x.shape[1:]


def check_ids(name: str, label: str, ids: Spec) -> None:
    """Raise unless `ids` are integers."""
    if ids.dtype.kind not in "iu":
        raise DtypeError(f"{name}: {label} is {ids.dtype.name}; expected an integer dtype")


def as_rows(x: Array) -> Array:
    """[R, ...] as contiguous [R, C]."""
    return contiguous(x).reshape(x.shape[0], math.prod(x.shape[1:]))


def as_index(ids: Array) -> Array:
    """Flat, contiguous int64."""
    return cast(Array, contiguous(ids, int64).reshape(-1))


class SegmentSum(Op):
    """y[s] = sum of the rows x[r] with ids[r] = s, in the order of r; negative ids add nothing."""

    num_segments: Length
    native = True

    def infer(self, x: Spec, ids: Spec) -> Spec:
        return Spec((self.num_segments, *_members("segment_sum", x, ids)), x.dtype)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        copy(outs[0], np.broadcast_to(constant(np.zeros((), outs[0].dtype)), outs[0].shape))
        rows.add(as_rows(outs[0]), as_index(ins[1]), as_rows(ins[0]), drop=True, name="segment_sum")

    def vjp(self, g: Tensor, y: Tensor, x: Tensor, ids: Tensor) -> Any:
        return lambda: segment_take(g, ids), None


class SegmentTake(Op):
    """y[r] = x[ids[r]], a row of zeros where ids[r] is negative."""

    native_bf16 = native = True

    def infer(self, x: Spec, ids: Spec) -> Spec:
        check_ids("segment_take", "ids", ids)
        if len(ids.shape) != 1 or not x.shape:
            raise ShapeError(f"segment_take: ids {ids.shape} must have one dimension, x {x.shape} at least one")
        return Spec((*ids.shape, *x.shape[1:]), x.dtype)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        rows.take(outs[0], contiguous(ins[0]), as_index(ins[1]), drop=True, name="segment_take")

    def vjp(self, g: Tensor, y: Tensor, x: Tensor, ids: Tensor) -> Any:
        return lambda: segment_sum(g, ids, num_segments=x.shape[0]), None


class SegmentExtremum(Op):
    """y[s] = max (or min) of the rows x[r] with ids[r] = s, and the row that attains it (int32, the first of equals); 0
    and -1 for a segment without rows."""

    num_segments: Length
    largest: bool = True

    def infer(self, x: Spec, ids: Spec) -> tuple[Spec, Spec]:
        shape = (self.num_segments, *_members("segment_max" if self.largest else "segment_min", x, ids))
        return Spec(shape, x.dtype), Spec(shape, int32)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        name = "segment_max" if self.largest else "segment_min"
        rows.extremum(as_rows(outs[0]), as_rows(outs[1]), as_rows(ins[0]), as_index(ins[1]), self.largest, name=name)

    def vjp(self, g: Any, y: Any, x: Tensor, ids: Tensor) -> Any:
        return (None, None) if g[0] is None else (lambda: self._gradient(g[0], y[1], x), None)

    def _gradient(self, g: Tensor, winner: Tensor, x: Tensor) -> Tensor:
        flat = (1, self.num_segments, math.prod(x.shape[1:]))
        return reshape(apply(Place(x.shape[:1]), reshape(g, flat), reshape(winner, flat)), x.shape)


class SegmentCount(Op):
    """The number of rows in each segment, int64."""

    num_segments: Length
    vjp = not_differentiable("a count is an integer")

    def infer(self, ids: Spec) -> Spec:
        check_ids("segment_count", "ids", ids)
        return Spec((self.num_segments,), int64)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        ids = as_index(ins[0])
        if ids.size and ids.max() >= self.num_segments:  # before anything is as long as an id
            raise ShapeError(f"segment_count: id {ids.max()} is outside the {self.num_segments} segments")
        outs[0][...] = np.bincount(ids[ids >= 0], minlength=self.num_segments)


def segment_sum(x: Tensor, ids: Tensor, *, num_segments: int) -> Tensor:
    """y[s] = sum of the rows x[r] with ids[r] = s.    x [R, ...], ids int [R] below num_segments -> [num_segments, ...]

    Rows with a negative id are left out; a segment without rows is 0.
    """
    return apply(SegmentSum(num_segments), x, ids)


def segment_take(x: Tensor, ids: Tensor) -> Tensor:
    """y[r] = x[ids[r]]: spread segment values x [S, ...] over the rows; zeros where ids[r] is negative."""
    return apply(SegmentTake(), x, ids)


def segment_count(ids: Tensor, *, num_segments: int) -> Tensor:
    """How many rows each segment has, int64 [num_segments]."""
    return apply(SegmentCount(num_segments), ids)


def segment_mean(x: Tensor, ids: Tensor, *, num_segments: int) -> Tensor:
    """`segment_sum` divided by the number of rows; a segment without rows is 0."""
    count = maximum(segment_count(ids, num_segments=num_segments), 1)
    shape = (num_segments,) + (1,) * (x.ndim - 1)
    return segment_sum(x, ids, num_segments=num_segments) / reshape(astype(count, x.dtype), shape)


def segment_max(x: Tensor, ids: Tensor, *, num_segments: int) -> Tensor:
    """Maximum of each segment's rows, per column; arguments as in `segment_sum`. The gradient goes to the first of
    equal values."""
    return apply(SegmentExtremum(num_segments, True), x, ids)[0]


def segment_min(x: Tensor, ids: Tensor, *, num_segments: int) -> Tensor:
    """Minimum of each segment's rows, per column; arguments as in `segment_sum`. The gradient goes to the first of
    equal values."""
    return apply(SegmentExtremum(num_segments, False), x, ids)[0]


def segment_softmax(x: Tensor, ids: Tensor, *, num_segments: int) -> Tensor:
    """y[r] = exp(x[r]) / (sum of exp(x[q]) over the rows q of r's segment), per column; ids must not be negative.

    The segment's maximum is subtracted first, so nothing overflows.
    """
    highest = segment_max(x.detach(), ids, num_segments=num_segments)
    e = exp(x - segment_take(highest, ids))
    return e / segment_take(segment_sum(e, ids, num_segments=num_segments), ids)


__all__ = [
    "segment_count", "segment_max", "segment_mean", "segment_min", "segment_softmax", "segment_sum", "segment_take",
]  # fmt: skip
