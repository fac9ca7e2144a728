"""Normalisation on channels-last tensors x [N, ..., C]: group, instance and local response norm.

Every norm is y = (x - mean) rstd scale + shift with rstd = 1 / sqrt(var + eps); they differ in what mean and (biased)
variance are taken over. In bfloat16 the statistics are float32.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from pdl.dtype import DType, bfloat16, float32
from pdl.errors import DtypeError, ShapeError, UsageError
from pdl.kernels import norm as kernels
from pdl.kernels.copies import contiguous as _c
from pdl.ops.attributes import Step
from pdl.ops.base import Arrays, Fused, Op, Spec, apply
from pdl.ops.broadcast import fill
from pdl.ops.cast import astype
from pdl.ops.checks import check_floating
from pdl.ops.elementwise import maximum, rsqrt, sqrt, square
from pdl.ops.linalg import matmul
from pdl.ops.reduce import mean, sum
from pdl.ops.shape import reshape
from pdl.tensor import Tensor, TensorLike, as_tensor


def _wide(dtype: DType) -> DType:
    """The dtype of statistics."""
    return float32 if dtype == bfloat16 else dtype


def _check(name: str, x: Spec, *, empty: bool = False, **channels: Spec | None) -> int:
    """The number of channels; raises where x is no float, empty (unless it may be), or a per-channel input does not
    fit."""
    check_floating(name, x=x)
    if not x.shape or (0 in x.shape and not empty):
        raise ShapeError(f"{name}: x {x.shape} has no values to normalise")
    for label, spec in channels.items():
        if spec is None:
            continue
        if spec.shape != x.shape[-1:]:
            raise ShapeError(f"{name}: {label} {spec.shape} does not fit the {x.shape[-1]} channels of x {x.shape}")
        if spec.dtype not in (x.dtype, _wide(x.dtype)):
            raise DtypeError(f"{name}: {label} is {spec.dtype.name} beside x in {x.dtype.name}; astype one of them")
    return x.shape[-1]


def _affine(x: Tensor, scale: Tensor | None, shift: Tensor | None) -> Tensor:
    x = x if scale is None else x * scale
    return x if shift is None else x + shift


def _parameter(spec: Spec | None, channels: int, dtype: DType) -> Spec:
    """What the gradient of a per-channel parameter is like (also where there is none)."""
    return spec if spec is not None else Spec((channels,), _wide(dtype))


# -- group and instance norm -------------------------------------------------------------------------------------------
def _zero(outs: Arrays) -> None:
    """Outputs of an array without values: sums of none are 0."""
    for y in outs:
        fill(y, 0)


class GroupNorm(Op):
    """y = (x - mean) rstd scale + shift, statistics over each sample's positions and each of `groups` runs of channels.

    Outputs y, mean [N, groups], rstd [N, groups].
    """

    groups: Step
    eps: float = 1e-5
    native = True

    def infer(self, x: Spec, scale: Spec | None, shift: Spec | None) -> tuple[Spec, ...]:
        channels = _check("group_norm", x, empty=True, scale=scale, shift=shift)
        if len(x.shape) < 2 or self.groups < 1 or channels % self.groups:
            raise ShapeError(
                f"group_norm: the {channels} channels of x {x.shape} do not divide into {self.groups} groups"
            )
        stats = Spec((x.shape[0], self.groups), _wide(x.dtype))
        return x, stats, stats

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        x, scale, shift = ins
        if not x.size:
            return _zero(outs)
        parameters = (None if p is None else _c(p) for p in (scale, shift))
        kernels.group_norm(*outs, _c(x), *parameters, self.groups, self.eps)

    def vjp(self, g: Any, y: Any, x: Tensor, scale: Tensor | None, shift: Tensor | None) -> Any:
        return apply(GroupNormGrad(self.groups, self.eps), g[0], x, scale, shift, y[1], y[2])


class GroupNormGrad(Fused):
    """dx = rstd (u - mean(u) - xhat mean(u xhat)) over each group, u = g scale; dscale = sum g xhat, dshift = sum g."""

    groups: Step
    eps: float = 1e-5

    def infer(
        self, g: Spec, x: Spec, scale: Spec | None, shift: Spec | None, mean: Spec, rstd: Spec
    ) -> tuple[Spec, ...]:
        channels = _check("gradient of group_norm", x, scale=scale, shift=shift)
        return x, _parameter(scale, channels, x.dtype), _parameter(shift, channels, x.dtype)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        g, x, scale, _, mu, rstd = ins
        scale = None if scale is None else _c(scale)
        kernels.group_norm_grad(*outs, _c(g), _c(x), mu, rstd, scale, self.groups)

    def compose(
        self, g: Tensor, x: Tensor, scale: Tensor | None, shift: Tensor | None, mu: Tensor, rstd: Tensor
    ) -> tuple[Tensor, ...]:
        grouped = (x.shape[0], -1, self.groups, x.shape[-1] // self.groups)

        def average(v: Tensor) -> Tensor:
            return mean(v, axis=(1, 3), keepdims=True)

        values, u = reshape(x, grouped), reshape(g if scale is None else g * scale, grouped)
        centre = values - average(values)
        root = rsqrt(average(square(centre)) + self.eps)
        hat = centre * root
        dx = reshape(root * (u - average(u) - hat * average(u * hat)), x.shape)
        axes = tuple(range(x.ndim - 1))
        return dx, sum(g * reshape(hat, x.shape), axis=axes), sum(g, axis=axes)


def group_norm(
    x: TensorLike, scale: Tensor | None = None, shift: Tensor | None = None, *, groups: int, eps: float = 1e-5
) -> Tensor:
    """Normalise x [N, ..., C] over each sample's positions and each run of C / groups channels. Wu and He, arXiv
    1803.08494.
    """
    return cast(Tensor, apply(GroupNorm(groups, float(eps)), as_tensor(x), scale, shift)[0])


def instance_norm(
    x: TensorLike, scale: Tensor | None = None, shift: Tensor | None = None, *, eps: float = 1e-5
) -> Tensor:
    """Normalise each channel of each sample of x [N, ..., C] over its positions. Ulyanov et al., arXiv 1607.08022."""
    x = as_tensor(x)
    return group_norm(x, scale, shift, groups=x.shape[-1] if x.ndim else 1, eps=eps)


# -- the rest ----------------------------------------------------------------------------------------------------------
def local_response_norm(
    x: TensorLike, *, size: int = 5, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """x / (k + alpha / size sum x^2)^beta, the sum over `size` neighbouring channels (size // 2 before). Krizhevsky et
    al., 2012.
    """
    x = as_tensor(x)
    if size < 1:
        raise UsageError(f"local_response_norm: size {size} must be at least 1")
    offset = np.arange(x.shape[-1])[:, None] - np.arange(x.shape[-1])
    near = (offset >= -(size // 2)) & (offset <= (size - 1) // 2)
    sums = matmul(square(x), astype(as_tensor(near), x.dtype))
    return x * (sums * (alpha / size) + k) ** -beta


def normalize(x: TensorLike, *, axis: int | tuple[int, ...] = -1, eps: float = 1e-12) -> Tensor:
    """x / max(|x|, eps), |x| the Euclidean length along `axis`."""
    x = as_tensor(x)
    return x / sqrt(maximum(sum(square(x), axis=axis, keepdims=True), eps**2))


__all__ = ["group_norm", "instance_norm", "local_response_norm", "normalize"]
