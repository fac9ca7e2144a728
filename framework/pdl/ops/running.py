"""Running sums and products along an axis, linear recurrences, differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from pdl.dtype import DType, as_dtype, bool_, int64, is_differentiable, kind, uint64
from pdl.errors import ShapeError
from pdl.ops.attributes import Axis
from pdl.ops.base import Arrays, Op, Spec, apply
from pdl.ops.cast import astype, conj
from pdl.ops.checks import normalize_axis
from pdl.ops.elementwise import not_equal, subtract
from pdl.ops.shape import concat, flip
from pdl.ops.table import pair
from pdl.tensor import Tensor, TensorLike, as_tensor


def accumulator(dtype: DType) -> DType:
    """The dtype of sums and products: int64 for bools and signed integers, uint64 for unsigned ones, else the same."""
    return dtype if is_differentiable(dtype) else uint64 if dtype.kind == "u" else int64


def in_dtype(function: Callable[[Tensor], Tensor], x: TensorLike, dtype: Any) -> Tensor:
    """`function`, a sum or product, in `dtype` (None: x's own, 64 bits for integers).

    Integers to integers are computed in 64 bits and cut then, which gives the same bits; all else is cast before.
    """
    x = as_tensor(x)
    if dtype is None:
        return function(x)
    dtype = as_dtype(dtype)
    if kind(dtype) == "i" and not is_differentiable(x.dtype):
        return astype(function(x), dtype)
    return astype(function(astype(x, dtype)), dtype)


class Running(Op, abstract=True):
    """Element i is the reduction of the elements up to and including i."""

    axis: Axis = -1

    def infer(self, x: Spec) -> Spec:
        normalize_axis(type(self).__name__.lower(), self.axis, len(x.shape))
        return Spec(x.shape, accumulator(x.dtype))


class CumSum(Running):
    """Running sum along an axis."""

    def cpu(self, outs: Arrays, ins: Arrays) -> None:
        np.add.accumulate(ins[0], self.axis, out=outs[0], dtype=outs[0].dtype)

    def vjp(self, g: Tensor, y: Tensor, x: Tensor) -> Tensor:
        return flip(cumsum(flip(g, axis=self.axis), axis=self.axis), axis=self.axis)


class CumProd(Running):
    """Running product along an axis."""

    def cpu(self, outs: Arrays, ins: Arrays) -> None:
        np.multiply.accumulate(ins[0], self.axis, out=outs[0], dtype=outs[0].dtype)

    def vjp(self, g: Tensor, y: Tensor, x: Tensor) -> Tensor:
        """dx_i = y_{i-1} s_i with s_i = g_i + x_{i+1} s_{i+1}: no division, so zeros do no harm."""
        axis = self.axis
        back = flip(linear_scan(flip(conj(_shift(x, -1, axis)), axis=axis), flip(g, axis=axis), axis=axis), axis=axis)
        return back * conj(_shift(y, 1, axis, first=1))


def _shift(x: Tensor, by: int, axis: int, first: float = 0) -> Tensor:
    """x one place later (`by` = 1, with `first` in front) or earlier (-1, with a 0 at the end) along `axis`."""
    axis %= x.ndim
    if not x.shape[axis]:
        return x
    part = (slice(None),) * axis
    edge = Tensor(np.full((*x.shape[:axis], 1, *x.shape[axis + 1 :]), first, x.dtype))
    return concat([edge, x[(*part, slice(None, -1))]] if by > 0 else [x[(*part, slice(1, None))], edge], axis=axis)


class LinearScan(Op):
    """y_t = a_t y_{t-1} + b_t along an axis, with y_{-1} = 0."""

    axis: Axis = -1

    def infer(self, a: Spec, b: Spec) -> Spec:
        normalize_axis("linear_scan", self.axis, len(a.shape))
        if a != b:
            raise ShapeError(
                f"linear_scan: a is {a.shape} {a.dtype.name}, b is {b.shape} {b.dtype.name}; they must be alike"
            )
        return a

    def cpu(self, outs: Arrays, ins: Arrays) -> None:
        a, b, y = (np.moveaxis(v, self.axis, 0) for v in (*ins, outs[0]))
        y[:1] = b[:1]
        for t in range(1, len(y)):
            np.multiply(a[t], y[t - 1], y[t, ...])
            np.add(y[t], b[t], y[t, ...])

    def vjp(self, g: Tensor, y: Tensor, a: Tensor, b: Tensor) -> Any:
        axis = self.axis
        back = flip(linear_scan(flip(conj(_shift(a, -1, axis)), axis=axis), flip(g, axis=axis), axis=axis), axis=axis)
        return lambda: back * conj(_shift(y, 1, axis)), back


def cumsum(x: TensorLike, axis: int = -1) -> Tensor:
    """Running sum along `axis`; bools and integers in int64, unsigned ones in uint64."""
    return cast(Tensor, apply(CumSum(axis), as_tensor(x)))


def cumprod(x: TensorLike, axis: int = -1) -> Tensor:
    """Running product along `axis`; bools and integers in int64, unsigned ones in uint64."""
    return cast(Tensor, apply(CumProd(axis), as_tensor(x)))


def cumulative_sum(
    x: TensorLike, axis: int | None = None, *, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """Running sum along `axis` (None: the only one of a 1-D `x`), in x's dtype (integers in 64 bits) or `dtype`; with
    `include_initial` the 0 that it starts from comes first."""
    return _running(CumSum, x, axis, dtype, 0 if include_initial else None)


def cumulative_prod(
    x: TensorLike, axis: int | None = None, *, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """Running product along `axis` (None: the only one of a 1-D `x`), in x's dtype (integers in 64 bits) or `dtype`;
    with `include_initial` the 1 that it starts from comes first."""
    return _running(CumProd, x, axis, dtype, 1 if include_initial else None)


def _running(op: type[Running], x: TensorLike, axis: int | None, dtype: Any, initial: int | None) -> Tensor:
    x = as_tensor(x)
    name = "cumulative_sum" if op is CumSum else "cumulative_prod"
    if axis is None and x.ndim != 1:
        raise ShapeError(f"{name}: x {x.shape} has {x.ndim} dimensions; axis says along which")
    along = normalize_axis(name, -1 if axis is None else axis, x.ndim)
    y = in_dtype(lambda v: cast(Tensor, apply(op(along), v)), x, dtype)
    if initial is None:
        return y
    first = Tensor(np.full((*x.shape[:along], 1, *x.shape[along + 1 :]), initial, y.dtype))
    return concat([first, y], axis=along)


def linear_scan(a: TensorLike, b: TensorLike, *, axis: int = -1) -> Tensor:
    """The linear recurrence y_t = a_t y_{t-1} + b_t along `axis`, with y_{-1} = 0; a and b have one shape."""
    return cast(Tensor, apply(LinearScan(axis), *pair(a, b)))


def diff(
    x: TensorLike,
    n: int = 1,
    axis: int = -1,
    *,
    prepend: TensorLike | None = None,
    append: TensorLike | None = None,
) -> Tensor:
    """Differences of neighbours along `axis`, x[i + 1] - x[i], taken `n` times; those of bools are where they differ.
    `prepend` and `append` are joined to `x` first."""
    if n < 0:
        raise ShapeError(f"diff: n is {n}; differences are taken 0 times or more")
    x = as_tensor(x)
    along = normalize_axis("diff", axis, x.ndim)
    joined = [v for v in (prepend, x, append) if v is not None]
    x = concat(joined, axis=along) if len(joined) > 1 else x
    part = (slice(None),) * along
    for _ in range(n):
        later, earlier = x[(*part, slice(1, None))], x[(*part, slice(None, -1))]
        x = not_equal(later, earlier) if x.dtype == bool_ else subtract(later, earlier)
    return x


__all__ = ["cumprod", "cumsum", "cumulative_prod", "cumulative_sum", "diff", "linear_scan"]
