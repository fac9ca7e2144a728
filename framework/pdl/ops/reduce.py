"""Reductions over axes.

`axis` is an int, a tuple of ints, or None for all; `keepdims` leaves the reduced dimensions with size 1.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeAlias, cast

import numpy as np

from pdl.dtype import Array, DType, bool_, float32, int64, is_complex, is_differentiable, kind
from pdl.errors import DtypeError, ShapeError
from pdl.ops.attributes import AboveZero, Axis
from pdl.ops.base import Arrays, Op, Spec, apply, not_differentiable
from pdl.ops.broadcast import broadcast_to, extreme_into, sum_into
from pdl.ops.cast import astype, conj
from pdl.ops.checks import normalize_axes
from pdl.ops.elementwise import abs, exp, sqrt, square, where
from pdl.ops.logic import equal
from pdl.ops.running import accumulator, cumprod, in_dtype
from pdl.ops.shape import concat, flip, moveaxis, reshape
from pdl.tensor import Tensor, TensorLike, as_tensor

AxisLike: TypeAlias = "int | Sequence[int] | None"


class Reduction(Op, abstract=True):
    """One value for the elements along `axes`; with `keepdims` these stay with size 1."""

    axes: tuple[Axis, ...]
    keepdims: bool = False
    kinds: ClassVar[str] = "bifc"
    nonempty: ClassVar[bool] = False
    one_axis: ClassVar[bool] = False

    def infer(self, x: Spec) -> Spec:
        name, axes = type(self).__name__.lower(), normalize_axes(type(self).__name__.lower(), self.axes, len(x.shape))
        if axes != self.axes:
            raise ShapeError(f"{name}: the op's axes {self.axes} of {x.shape} must be counted from the front, in order")
        if self.one_axis and len(axes) != 1:
            raise ShapeError(f"{name}: takes one axis, not {axes}")
        if kind(x.dtype) not in self.kinds:
            raise DtypeError(f"{name}: {x.dtype.name} has no {name}")
        kept = [1 if i in axes else n for i, n in enumerate(x.shape) if self.keepdims or i not in axes]
        if not self.takes_nothing() and builtins.any(not x.shape[a] for a in axes) and builtins.all(kept):
            raise ShapeError(f"{name}: {x.shape} has no elements along {axes}, and no elements have no {name}")
        return Spec(tuple(kept), self.result(x.dtype))

    def takes_nothing(self) -> bool:
        """Whether no elements have a result."""
        return not self.nonempty

    def result(self, dtype: DType) -> DType:
        """The dtype of the outcome."""
        return dtype

    def spread(self, y: Tensor, x: Tensor) -> Tensor:
        """`y` with the reduced dimensions back, so that it broadcasts with `x`."""
        if self.keepdims or self.axes == tuple(range(len(self.axes))):  # leading dimensions come back by themselves
            return y
        return reshape(y, tuple(1 if i in self.axes else n for i, n in enumerate(x.shape)))

    def kept(self, out: Array, x: Array) -> Array:
        """`out` with the reduced dimensions."""
        return out if self.keepdims else out.reshape([1 if i in self.axes else n for i, n in enumerate(x.shape)])


class Sum(Reduction):
    """Sum over axes; bools and integers sum in 64 bits."""

    native_bf16 = native = True

    def result(self, dtype: DType) -> DType:
        return accumulator(dtype)

    def cpu(self, outs: Arrays, ins: Arrays) -> None:
        sum_into(self.kept(outs[0], ins[0]), ins[0], self.axes)

    def vjp(self, g: Tensor, y: Tensor, x: Tensor) -> Tensor:
        return broadcast_to(self.spread(g, x), x.shape)


class Mean(Reduction):
    """Arithmetic mean over axes."""

    kinds = "fc"
    native_bf16 = native = True

    def cpu(self, outs: Arrays, ins: Arrays) -> None:
        x, y = ins[0], outs[0]
        sum_into(self.kept(y, x), x, self.axes, x.size // builtins.max(1, y.size))

    def vjp(self, g: Tensor, y: Tensor, x: Tensor) -> Tensor:
        return broadcast_to(self.spread(g * (builtins.max(1, y.size) / builtins.max(1, x.size)), x), x.shape)


class Prod(Reduction):
    """Product over axes; bools and integers multiply in 64 bits."""

    def result(self, dtype: DType) -> DType:
        return accumulator(dtype)

    def cpu(self, outs: Arrays, ins: Arrays) -> None:
        np.multiply.reduce(ins[0], axis=self.axes, out=outs[0], keepdims=self.keepdims)

    def vjp(self, g: Tensor, y: Tensor, x: Tensor) -> Tensor:
        """Products of all the others, from the left and from the right, so that zeros do no harm."""
        back = tuple(range(-len(self.axes), 0))
        moved = moveaxis(x, self.axes, back)
        kept = moved.shape[: moved.ndim - len(self.axes)]
        rows = reshape(moved, (*kept, math.prod(moved.shape[len(kept) :])))
        others = _before(rows) * flip(_before(flip(rows, axis=-1)), axis=-1)
        return self.spread(g, x) * conj(moveaxis(reshape(others, moved.shape), back, self.axes))


def _before(x: Tensor) -> Tensor:
    """Products of all elements before each, along the last axis."""
    if not x.shape[-1]:
        return x
    one = Tensor(np.ones((*x.shape[:-1], 1), x.dtype))
    return cumprod(concat([one, x[..., :-1]], axis=-1), axis=-1)


class Extreme(Reduction, abstract=True):
    """The largest or smallest element. No elements are refused; with `neutral` they have the one of the dtype that
    changes none beside it."""

    neutral: bool = False
    kinds = "bif"
    nonempty = True
    largest: ClassVar[bool]
    native_bf16 = native = True

    def takes_nothing(self) -> bool:
        return self.neutral

    def cpu(self, outs: Arrays, ins: Arrays) -> None:
        extreme_into(self.kept(outs[0], ins[0]), ins[0], self.axes, largest=self.largest)

    def vjp(self, g: Tensor, y: Tensor, x: Tensor) -> Tensor:
        chosen = astype(equal(x, self.spread(y, x)), x.dtype)
        share = self.spread(g, x) / sum(chosen, axis=self.axes, keepdims=True)
        return chosen * share


class Max(Extreme):
    """The largest element over axes, NaN if one is; elements that tie share the gradient evenly."""

    largest = True


class Min(Extreme):
    """The smallest element over axes, NaN if one is; elements that tie share the gradient evenly."""

    largest = False


class LogSumExp(Reduction):
    """log of the sum of e^x over axes, without overflow."""

    kinds = "f"
    nonempty = True

    def cpu(self, outs: Arrays, ins: Arrays) -> None:
        x, y = ins[0], self.kept(outs[0], ins[0])
        if not y.size:
            return
        top = np.maximum.reduce(x, self.axes, keepdims=True)
        top = np.where(np.isfinite(top), top, 0)
        np.add.reduce(np.exp(x - top), axis=self.axes, out=y, keepdims=True)
        np.add(np.log(y, y), top, y)

    def vjp(self, g: Tensor, y: Tensor, x: Tensor) -> Tensor:
        finite = where(equal(y, -np.inf), 0, y)
        return self.spread(g, x) * exp(x - self.spread(finite, x))


class Norm(Reduction):
    """(sum of |x|^ord)^(1/ord) over axes, x real; its gradient is 0 where the norm is 0."""

    ord: AboveZero = 2.0
    kinds = "f"

    def cpu(self, outs: Arrays, ins: Arrays) -> None:
        y = outs[0]
        powers = np.square(ins[0]) if self.ord == 2 else np.abs(ins[0]) ** self.ord
        np.add.reduce(powers, axis=self.axes, out=y, keepdims=self.keepdims)
        np.sqrt(y, y) if self.ord == 2 else np.power(y, 1 / self.ord, y)

    def vjp(self, g: Tensor, y: Tensor, x: Tensor) -> Tensor:
        zero = equal(y, 0)
        scale = where(zero, 0, g / where(zero, 1, y) ** (self.ord - 1))
        slope = x if self.ord == 2 else where(equal(x, 0), 0, x * abs(where(equal(x, 0), 1, x)) ** (self.ord - 2))
        return slope * self.spread(scale, x)


class AllTrue(Reduction):
    """True where every element over axes is."""

    vjp = not_differentiable("its values are bools")

    def result(self, dtype: DType) -> DType:
        return bool_

    def cpu(self, outs: Arrays, ins: Arrays) -> None:
        np.all(ins[0], self.axes, outs[0], self.keepdims)


class AnyTrue(Reduction):
    """True where at least one element over axes is."""

    vjp = not_differentiable("its values are bools")

    def result(self, dtype: DType) -> DType:
        return bool_

    def cpu(self, outs: Arrays, ins: Arrays) -> None:
        np.any(ins[0], self.axes, outs[0], self.keepdims)


class ArgMax(Reduction):
    """Index of the first largest element along one axis."""

    kinds = "bif"
    nonempty = one_axis = True
    vjp = not_differentiable("argmax is piecewise constant")

    def result(self, dtype: DType) -> DType:
        return int64

    def cpu(self, outs: Arrays, ins: Arrays) -> None:
        if outs[0].size:
            np.argmax(ins[0], self.axes[0], outs[0], keepdims=self.keepdims)


class ArgMin(Reduction):
    """Index of the first smallest element along one axis."""

    kinds = "bif"
    nonempty = one_axis = True
    vjp = not_differentiable("argmin is piecewise constant")

    def result(self, dtype: DType) -> DType:
        return int64

    def cpu(self, outs: Arrays, ins: Arrays) -> None:
        if outs[0].size:
            np.argmin(ins[0], self.axes[0], outs[0], keepdims=self.keepdims)


def _reduce(op: type[Reduction], x: TensorLike, axis: AxisLike, keepdims: bool, **attributes: Any) -> Tensor:
    x = as_tensor(x)
    axes = normalize_axes(op.__name__.lower(), cast("int | tuple[int, ...] | None", axis), x.ndim)
    return cast(Tensor, apply(op(axes, keepdims, **attributes), x))


def _to_float(x: TensorLike) -> Tensor:
    x = as_tensor(x)
    return x if is_differentiable(x.dtype) else astype(x, float32)


def sum(x: TensorLike, axis: AxisLike = None, *, keepdims: bool = False, dtype: Any = None) -> Tensor:
    """Sum over `axis`, in x's dtype or `dtype`; bools and integers sum in int64, unsigned ones in uint64."""
    if dtype is None:
        return _reduce(Sum, x, axis, keepdims)
    return in_dtype(lambda v: _reduce(Sum, v, axis, keepdims), x, dtype)


def mean(x: TensorLike, axis: AxisLike = None, *, keepdims: bool = False) -> Tensor:
    """Arithmetic mean over `axis`; integers in float32."""
    return _reduce(Mean, _to_float(x), axis, keepdims)


def prod(x: TensorLike, axis: AxisLike = None, *, keepdims: bool = False, dtype: Any = None) -> Tensor:
    """Product over `axis`, in x's dtype or `dtype`; bools and integers multiply in int64, unsigned ones in uint64."""
    return in_dtype(lambda v: _reduce(Prod, v, axis, keepdims), x, dtype)


def max(x: TensorLike, axis: AxisLike = None, *, keepdims: bool = False) -> Tensor:
    """The largest element over `axis`, NaN if one is; elements that tie share the gradient evenly."""
    return _reduce(Max, x, axis, keepdims)


def min(x: TensorLike, axis: AxisLike = None, *, keepdims: bool = False) -> Tensor:
    """The smallest element over `axis`, NaN if one is; elements that tie share the gradient evenly."""
    return _reduce(Min, x, axis, keepdims)


def var(x: TensorLike, axis: AxisLike = None, *, correction: float = 0, keepdims: bool = False) -> Tensor:
    """Variance over `axis`: the squared distances from the mean, summed and divided by (n - correction)."""
    x = _to_float(x)
    off = x - mean(x, axis=axis, keepdims=True)
    total = sum(square(abs(off) if is_complex(x.dtype) else off), axis=axis, keepdims=keepdims)
    count = x.size / total.size - correction if total.size else 0
    return total * (1 / count) if count > 0 else total / 0


def std(x: TensorLike, axis: AxisLike = None, *, correction: float = 0, keepdims: bool = False) -> Tensor:
    """Standard deviation over `axis`: the square root of `var`; its gradient is infinite where that is 0."""
    return sqrt(var(x, axis=axis, correction=correction, keepdims=keepdims))


def logsumexp(x: TensorLike, axis: AxisLike = None, *, keepdims: bool = False) -> Tensor:
    """log of the sum of e^x over `axis`, without overflow; -inf where all of x are."""
    return _reduce(LogSumExp, _to_float(x), axis, keepdims)


def norm(x: TensorLike, axis: AxisLike = None, *, ord: float = 2, keepdims: bool = False) -> Tensor:
    """(sum of |x|^ord)^(1/ord) over `axis`; `ord` may be infinite. The gradient is 0 where the norm is."""
    x = _to_float(x)
    if ord == 1 or np.isinf(ord):
        reduce: Callable[..., Tensor] = sum if ord == 1 else max if ord > 0 else min
        return reduce(abs(x), axis=axis, keepdims=keepdims)
    if ord <= 0:
        raise ShapeError(f"norm: ord {ord} is not positive (nor -inf)")
    return _reduce(Norm, abs(x) if is_complex(x.dtype) else x, axis, keepdims, ord=float(ord))


def all(x: TensorLike, axis: AxisLike = None, *, keepdims: bool = False) -> Tensor:
    """True where every element over `axis` is nonzero (also where there is none)."""
    return _reduce(AllTrue, x, axis, keepdims)


def any(x: TensorLike, axis: AxisLike = None, *, keepdims: bool = False) -> Tensor:
    """True where at least one element over `axis` is nonzero."""
    return _reduce(AnyTrue, x, axis, keepdims)


def count_nonzero(x: TensorLike, axis: AxisLike = None, *, keepdims: bool = False) -> Tensor:
    """How many elements over `axis` are not 0, as int64."""
    return sum(astype(x, bool_), axis=axis, keepdims=keepdims)


def argmax(x: TensorLike, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """Index of the first largest element along `axis` (None: in the flattened `x`), int64."""
    return _index_of(ArgMax, x, axis, keepdims)


def argmin(x: TensorLike, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """Index of the first smallest element along `axis` (None: in the flattened `x`), int64."""
    return _index_of(ArgMin, x, axis, keepdims)


def _index_of(op: type[Reduction], x: TensorLike, axis: int | None, keepdims: bool) -> Tensor:
    x = as_tensor(x)
    if axis is None:
        found = _reduce(op, reshape(x, -1), 0, False)
        return reshape(found, (1,) * x.ndim) if keepdims else found
    return _reduce(op, x, axis, keepdims)


__all__ = [
    "all", "any", "argmax", "argmin", "count_nonzero", "logsumexp", "max", "mean", "min", "norm", "prod", "std", "sum",
    "var",
]  # fmt: skip
