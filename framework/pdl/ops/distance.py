"""Distances of all pairs of rows of two matrices."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias, get_args

from pdl.errors import ShapeError, UsageError
from pdl.hints import Choice
from pdl.kernels import distance as kernels
from pdl.kernels.copies import contiguous
from pdl.ops.base import Arrays, Fused, Spec, apply
from pdl.ops.checks import check_floating, check_specs
from pdl.ops.elementwise import abs, sign, sqrt, square, where
from pdl.ops.logic import equal
from pdl.ops.reduce import sum
from pdl.ops.shape import concat, expand_dims
from pdl.tensor import Tensor, TensorLike, as_tensor

Metric = Literal["l1", "l2", "complex"]
MetricName: TypeAlias = Annotated[str, Choice(get_args(Metric))]


class CDist(Fused):
    """d [N, K] between the rows of x [N, D] and y [K, D], without the differences [N, K, D] in memory."""

    metric: MetricName
    native = True

    def infer(self, x: Spec, y: Spec) -> Spec:
        check_floating("cdist", x=x, y=y)
        if len(x.shape) != 2 or len(y.shape) != 2 or x.shape[1] != y.shape[1] or x.dtype != y.dtype:
            raise ShapeError(
                f"cdist: x {x.shape} {x.dtype.name} and y {y.shape} {y.dtype.name}; expected [N, D] and [K, D] of one "
                "dtype"
            )
        if self.metric == "complex" and x.shape[1] % 2:
            raise ShapeError(f"cdist: {x.shape[1]} columns are no real and imaginary parts; their number must be even")
        return Spec((x.shape[0], y.shape[0]), x.dtype)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        kernels.forward(outs[0], contiguous(ins[0]), contiguous(ins[1]), self.metric)

    def compose(self, x: Tensor, y: Tensor) -> Tensor:
        u = expand_dims(x, axis=1) - expand_dims(y, axis=0)
        if self.metric == "l1":
            return sum(abs(u), axis=2)
        return sqrt(sum(square(u), axis=2)) if self.metric == "l2" else sum(_moduli(u), axis=2)

    def vjp(self, g: Tensor, y: Tensor, *ins: Tensor) -> Any:
        if self.metric == "l2":
            none = equal(y, 0.0)
            g = where(none, 0.0, g / where(none, 1.0, y))
        return apply(CDistGrad(self.metric), g, *ins)


class CDistGrad(Fused):
    """(dx, dy) of `CDist` from the gradient g [N, K] of d; for the metric l2 from g / d. Where two rows meet in a
    column (or a complex number), that column has no gradient."""

    metric: MetricName
    native = True

    def infer(self, g: Spec, x: Spec, y: Spec) -> tuple[Spec, Spec]:
        check_specs("gradient of cdist", g=(g, CDist(self.metric).infer(x, y)))
        return x, y

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        g, x, y = (contiguous(each) for each in ins)
        kernels.backward(outs[0], outs[1], g, x, y, self.metric)

    def compose(self, g: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        u = expand_dims(x, axis=1) - expand_dims(y, axis=0)
        if self.metric == "l1":
            u = sign(u)
        elif self.metric == "complex":
            size = _moduli(u)
            size = where(equal(size, 0.0), 1.0, size)
            u = u / concat([size, size], axis=2)
        each = expand_dims(g, axis=2) * u
        return sum(each, axis=1), -sum(each, axis=0)


def _moduli(u: Tensor) -> Tensor:
    half = u.shape[-1] // 2
    return sqrt(square(u[..., :half]) + square(u[..., half:]))


def cdist(x: TensorLike, y: TensorLike, *, metric: Metric = "l2") -> Tensor:
    """Distances of all pairs of rows.    x [N, D], y [K, D] -> d [N, K]

    l1       sum_d |x_d - y_d|
    l2       sqrt(sum_d (x_d - y_d)^2)
    complex  sum_d |x_d - y_d| of D / 2 complex numbers, the real parts in the first half of the columns, the imaginary
             ones in the second

    Memory grows with N K, not with N K D. The gradient of |0| is taken for 0.
    """
    if metric not in get_args(Metric):
        raise UsageError(f"cdist: metric={metric!r} is none of {', '.join(get_args(Metric))}")
    found: Tensor = apply(CDist(metric), as_tensor(x), as_tensor(y))
    return found


__all__ = ["cdist"]
