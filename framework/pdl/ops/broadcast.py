"""Broadcasting and its adjoint: an array repeated along dimensions, and summed over them again."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, cast

import numpy as np

from pdl import dims
from pdl.dtype import Array, DType, bfloat16, float32
from pdl.errors import ShapeError
from pdl.kernels.copies import contiguous, copy
from pdl.kernels.launch import constant, now
from pdl.kernels.pointwise import extremes, sums
from pdl.ops.attributes import Length
from pdl.ops.base import Arrays, Op, Spec, apply, cast_array
from pdl.ops.checks import broadcast_shapes
from pdl.tensor import Tensor, TensorLike, as_tensor


def fill(y: Array, value: float) -> None:
    """y = value, by a kernel, so that a native op may do it."""
    copy(y, np.broadcast_to(constant(np.array(value, y.dtype)), y.shape))


class BroadcastTo(Op):
    """x repeated (without a copy) along new leading dimensions and those of size 1."""

    shape: tuple[Length, ...]

    def infer(self, x: Spec) -> Spec:
        if broadcast_shapes("broadcast_to", x.shape, self.shape) != self.shape:
            raise ShapeError(f"broadcast_to: {x.shape} does not broadcast to the smaller {self.shape}")
        return Spec(self.shape, x.dtype)

    def view(self, x: Array) -> Array:
        return np.broadcast_to(x, self.shape)

    def vjp(self, g: Tensor, y: Tensor, x: Tensor) -> Tensor:
        return unbroadcast(g, x.shape)


class SumTo(Op):
    """Sum x over the dimensions along which `shape` was broadcast to x's shape."""

    shape: tuple[Length, ...]
    native_bf16 = native = True

    def infer(self, x: Spec) -> Spec:
        if broadcast_shapes("sum_to", self.shape, x.shape) != x.shape:
            raise ShapeError(f"sum_to: {self.shape} does not broadcast to {x.shape}")
        return Spec(self.shape, x.dtype)

    def cpu(self, outs: Arrays, ins: Arrays) -> None:
        (x,), (y,) = ins, outs
        lead = x.ndim - len(self.shape)
        axes = tuple(i for i in range(x.ndim) if i < lead or (self.shape[i - lead] == 1 and x.shape[i] != 1))
        sum_into(y.reshape((1,) * lead + self.shape), x, axes)

    def vjp(self, g: Tensor, y: Tensor, x: Tensor) -> Tensor:
        return broadcast_to(g, x.shape)


def sum_into(out: Array, x: Array, axes: tuple[int, ...], divisor: float = 1.0) -> None:
    """Sum of x over `axes` into `out`, which keeps them with size 1, divided by `divisor`."""
    if x.dtype == bfloat16 or x.dtype.kind == "f":
        sizes = _around(x.shape, axes)
        if sizes is not None and out.flags.c_contiguous:
            return sums(out, contiguous(x), *sizes, divisor)
    now("a sum over axes that are no neighbours is left to NumPy")
    if x.dtype == bfloat16:
        wide = np.empty(out.shape, np.float32)
        sum_into(wide, cast_array(x, float32), axes, divisor)
        return np.copyto(out, wide, casting="unsafe")
    np.add.reduce(x, axis=axes, out=out, keepdims=True)
    if divisor != 1:
        np.divide(out, divisor, out)


def extreme_into(out: Array, x: Array, axes: tuple[int, ...], *, largest: bool) -> None:
    """The largest (or smallest) element of x over `axes` into `out`, which keeps them with size 1; NaN if one is."""
    real = x.dtype == bfloat16 or x.dtype.kind == "f"
    sizes = _around(x.shape, axes) if real and x.size and out.flags.c_contiguous else None
    if sizes is not None:
        return extremes(out, contiguous(x), *sizes, largest)
    now("extremes of integers, or over axes that are no neighbours, are left to NumPy")
    ufunc = np.maximum if largest else np.minimum
    if out.size and not x.size:
        out[...] = neutral(ufunc, out.dtype)
    elif out.size:
        ufunc.reduce(x, axes, out=out, keepdims=True)


def neutral(ufunc: np.ufunc, dtype: DType) -> Any:
    """The number of a dtype that changes no number beside it, for np.maximum or np.minimum."""
    if dtype.kind == "b":
        return ufunc is np.minimum
    if dtype.kind in "iu":
        return np.iinfo(dtype).min if ufunc is np.maximum else np.iinfo(dtype).max
    return -np.inf if ufunc is np.maximum else np.inf


@lru_cache(maxsize=4096)
def _around(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, int, int] | None:
    """The number of elements before, along and after `axes`; None where these are not neighbours."""
    along = [i for i in axes if shape[i] != 1]
    if not along:
        return math.prod(shape), 1, 1
    first, last = along[0], along[-1]
    if any(shape[i] != 1 and i not in axes for i in range(first, last)):
        return None
    return math.prod(shape[:first]), math.prod(shape[first : last + 1]), math.prod(shape[last + 1 :])


def unbroadcast(g: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The gradient of broadcasting from `shape`: `g` summed over what was repeated."""
    return g if g.shape == shape else apply(SumTo(shape), g)


def sum_to(x: TensorLike, shape: tuple[int, ...]) -> Tensor:
    """Sum `x` down to `shape`, which must broadcast to x's shape: the adjoint of `broadcast_to`."""
    return unbroadcast(as_tensor(x), tuple(shape))


# -- the public functions ----------------------------------------------------------------------------------------------
def broadcast_to(x: TensorLike, shape: Sequence[int]) -> Tensor:
    """`x` repeated along new leading dimensions and those of size 1, without a copy."""
    x, shape = as_tensor(x), tuple(shape)
    if x.shape == shape and all(map(dims.same, x.shape, shape)):
        return x
    return cast(Tensor, apply(BroadcastTo(shape), x))


def broadcast_arrays(*arrays: TensorLike) -> tuple[Tensor, ...]:
    """All inputs broadcast to their common shape."""
    tensors = [as_tensor(x) for x in arrays]
    shape = broadcast_shapes("broadcast_arrays", *[t.shape for t in tensors])
    return tuple(broadcast_to(t, shape) for t in tensors)


__all__ = ["broadcast_arrays", "broadcast_to", "sum_to"]
