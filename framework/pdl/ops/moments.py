"""Mean and variance of each channel over the samples of several processes, for batch norm that is trained by all.

Each takes those of its own samples, all are joined, and normalising by them is `batch_norm_eval`: gradients flow
through the statistics of all. An op finds the other processes by its attribute `across`, which is no part of its value:
in a program that is read from a file a process stands alone.
"""

from __future__ import annotations

from typing import Any, ClassVar, Protocol, Self, cast

import numpy as np

from pdl.dtype import Array, float64, int64
from pdl.errors import ShapeError
from pdl.kernels import norm_conv as kernels
from pdl.kernels.copies import contiguous as _c
from pdl.kernels.copies import copy
from pdl.kernels.memory import empty
from pdl.ops.attributes import Step
from pdl.ops.base import Arrays, Fused, Identity, Op, Spec, apply
from pdl.ops.cast import astype
from pdl.ops.checks import check_floating, check_shapes
from pdl.ops.elementwise import square
from pdl.ops.norm import _check, _wide
from pdl.ops.reduce import mean as mean_of
from pdl.ops.shape import concat
from pdl.tensor import Tensor


class Across(Protocol):
    """Processes that run the same ops in the same order."""

    def rows(self, mine: Array) -> Array:
        """[processes, ...]: the arrays of all, which have one shape."""


class Moments(Fused):
    """x [..., C] as it is, with mean [C] and biased variance [C] over all its axes but the last.

    x is among the outputs so that the gradient of the three is made in one pass over memory.
    """

    native_bf16 = native = True
    overwrites: ClassVar[dict[int, int]] = {0: 0}

    def infer(self, x: Spec) -> tuple[Spec, ...]:
        stats = Spec((_check("moments", x),), _wide(x.dtype))
        if len(x.shape) < 2:
            raise ShapeError(f"moments: x {x.shape} has one dimension; expected [..., channels]")
        return x, stats, stats

    def run(self, ins: tuple[Any, ...]) -> Arrays:
        outs = (ins[0].view(), *[empty(*spec) for spec in self.specs(ins)[1:]])
        self.cpu(outs, ins)
        return outs

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        same, (x,) = outs[0], ins
        if same.ctypes.data != x.ctypes.data or same.strides != x.strides:
            copy(same, x)
        kernels.moments(*outs[1:], _c(same))

    def compose(self, x: Tensor) -> tuple[Tensor, ...]:
        axes, wide = tuple(range(x.ndim - 1)), astype(x, _wide(x.dtype))
        centre = mean_of(wide, axis=axes)
        return cast(Tensor, apply(Identity(), x)), centre, mean_of(square(wide - centre), axis=axes)

    def vjp(self, g: Any, y: Any, x: Tensor) -> Any:
        (gx, *of_stats), (same, mu, _) = g, y
        if of_stats == [None, None]:
            return gx
        parts = [mu * 0 if part is None else part for part in of_stats]
        return apply(MomentsGrad(), same * 0 if gx is None else gx, same, mu, *parts)


class MomentsGrad(Fused):
    """g + g_mean / n + (x - mean) 2 g_var / n, n values a channel."""

    native_bf16 = native = True
    inplace = True

    def infer(self, g: Spec, x: Spec, mean: Spec, g_mean: Spec, g_var: Spec) -> Spec:
        name = "gradient of moments"
        stats = (_check(name, x, mean=mean, g_mean=g_mean, g_var=g_var),)
        check_floating(name, g=g)
        check_shapes(name, g=(g, x.shape), mean=(mean, stats), g_mean=(g_mean, stats), g_var=(g_var, stats))
        return x

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        (dx,), (g, x, *stats) = outs, ins
        kernels.moments_grad(dx, _c(g, x.dtype), _c(x), *[_c(s, _wide(x.dtype)) for s in stats])

    def compose(self, g: Tensor, x: Tensor, mu: Tensor, g_mean: Tensor, g_var: Tensor) -> Tensor:
        n = x.size // x.shape[-1]
        return g + g_mean / n + (x - mu) * (g_var * 2 / n)


class Joined(Op, abstract=True):
    """An op that all processes run together; its `across` is kept beside the attributes."""

    recorded = True
    across: ClassVar[Across | None] = None

    def over(self, across: Across | None) -> Self:
        """This op, which is new, among these processes."""
        self.__dict__["across"] = across
        return self

    def __eq__(self, other: object) -> bool:
        return super().__eq__(other) and self.across is getattr(other, "across", None)

    __hash__ = Op.__hash__

    def rows(self, mine: Array) -> Array:
        """[processes, ...] in float64: what all have."""
        mine = mine.astype(float64, copy=False)
        return mine[None] if self.across is None else self.across.rows(mine)


class JoinMoments(Joined):
    """Mean, biased variance [C] and count [] over the samples of all processes, from mean and var [C] over the `n` of
    this one.

    mean = sum n_r mean_r / N, var = sum n_r (var_r + (mean_r - mean)^2) / N, summed in float64 in the order of the
    processes: all get the same bits. Chan et al., 1979.
    """

    n: Step

    def infer(self, mean: Spec, var: Spec) -> tuple[Spec, ...]:
        check_floating("join_moments", mean=mean, var=var)
        if len(mean.shape) != 1 or mean != var:
            raise ShapeError(
                f"join_moments: mean {mean.shape} {mean.dtype.name} and var {var.shape} {var.dtype.name} must be alike "
                "and have one dimension"
            )
        return mean, var, Spec((), int64)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        channels = 1 + len(ins[0])
        mine = np.empty(2 * channels - 1, float64)
        mine[0], mine[1:channels], mine[channels:] = self.n, *ins
        rows = self.rows(mine)
        counts, means, variances = rows[:, :1], rows[:, 1:channels], rows[:, channels:]
        total = counts.sum()
        if total == 1:
            raise ShapeError(
                "batch_norm: all processes together have one value for each channel, which has no variance; use a "
                "larger batch"
            )
        mean, var, count = outs
        centre = (counts * means).sum(axis=0)
        centre /= total
        spread = means - centre
        spread *= spread
        spread += variances
        spread *= counts
        mean[...] = centre
        var[...] = spread.sum(axis=0) / total
        count[...] = total

    def vjp(self, g: Any, y: Any, mean: Tensor, var: Tensor) -> Any:
        g_mean, g_var, _ = g
        zero = y[0] * 0
        parts = [zero if part is None else part for part in (g_mean, g_var)]
        total = cast(Tensor, apply(SumAcross().over(self.across), concat(parts)))
        share = self.n / astype(y[2], mean.dtype)
        g_mean, g_var = total[: mean.size] * share, total[mean.size :] * share
        return g_mean + (mean - y[0]) * g_var * 2, g_var


class SumAcross(Joined):
    """The sum of x over all processes, in float64 in their order; its gradient is the sum of theirs."""

    def infer(self, x: Spec) -> Spec:
        check_floating("sum_across", x=x)
        return x

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        outs[0][...] = self.rows(ins[0]).sum(axis=0)

    def vjp(self, g: Tensor, y: Tensor, x: Tensor) -> Tensor:
        return cast(Tensor, apply(SumAcross().over(self.across), g))


def moments(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """x [..., C], to be used in place of x from here on, and its mean and biased variance [C] over all axes but the
    last."""
    return cast("tuple[Tensor, Tensor, Tensor]", apply(Moments(), x))


def join_moments(mean: Tensor, var: Tensor, n: int, across: Across | None) -> tuple[Tensor, Tensor, Tensor]:
    """Mean, biased variance [C] and count [] over the samples of all processes, from mean and var [C] over the n of
    this one, of which the others may have more or fewer. The gradient is that of the sum of all their losses."""
    return cast("tuple[Tensor, Tensor, Tensor]", apply(JoinMoments(n).over(across), mean, var))
