"""Normalisation on channels-last tensors x [N, ..., C]: batch, layer, RMS, group, instance and local response norm.

Every norm is y = (x - mean) rstd scale + shift with rstd = 1 / sqrt(var + eps); they differ in what mean and (biased)
variance are taken over. In bfloat16 the statistics are float32.
"""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np

from pdl.dtype import DType, bfloat16, float32
from pdl.errors import DtypeError, ShapeError, UsageError
from pdl.kernels import norm as kernels
from pdl.ops.activation import relu as relu_of
from pdl.ops.base import Arrays, Fused, Op, Spec, apply, demand_floating, not_differentiable
from pdl.ops.cast import astype
from pdl.ops.elementwise import maximum, rsqrt, sqrt, square, where
from pdl.ops.linalg import matmul
from pdl.ops.logic import greater
from pdl.ops.reduce import mean, sum
from pdl.ops.shape import reshape
from pdl.tensor import Tensor, TensorLike, as_tensor

_c = np.ascontiguousarray


def _wide(dtype: DType) -> DType:
    """The dtype of statistics."""
    return float32 if dtype == bfloat16 else dtype


def _check(name: str, x: Spec, **channels: Spec | None) -> int:
    """The number of channels; raises where x is no float, empty, or a per-channel input does not fit."""
    demand_floating(name, x=x)
    if not x.shape or 0 in x.shape:
        raise ShapeError(f"{name}: x {x.shape} has no values to normalise")
    for label, spec in channels.items():
        if spec is None:
            continue
        if spec.shape != x.shape[-1:]:
            raise ShapeError(f"{name}: {label} {spec.shape} does not fit the {x.shape[-1]} channels of x {x.shape}")
        if spec.dtype not in (x.dtype, _wide(x.dtype)):
            raise DtypeError(f"{name}: {label} is {spec.dtype.name} beside x in {x.dtype.name}; astype one of them")
    return x.shape[-1]


def _like(x: Spec, residual: Spec | None) -> None:
    if residual is not None and residual != x:
        raise ShapeError(
            f"batch_norm: residual {residual.shape} {residual.dtype.name} is not like x {x.shape} {x.dtype.name}"
        )


def _affine(x: Tensor, scale: Tensor | None, shift: Tensor | None) -> Tensor:
    x = x if scale is None else x * scale
    return x if shift is None else x + shift


def _parameter(spec: Spec | None, channels: int, dtype: DType) -> Spec:
    """What the gradient of a per-channel parameter is like (also where there is none)."""
    return spec if spec is not None else Spec((channels,), _wide(dtype))


# -- batch norm --------------------------------------------------------------------------------------------------------
class BatchNorm(Op):
    """y = (x - mean) rstd scale + shift (+ residual), then max(., 0) with `relu`; statistics over all axes but the
    last.

    Outputs y, mean [C], var [C] (biased), rstd [C].
    """

    eps: float = 1e-5
    relu: bool = False

    def infer(self, x: Spec, scale: Spec | None, shift: Spec | None, residual: Spec | None) -> tuple[Spec, ...]:
        channels = _check("batch_norm", x, scale=scale, shift=shift)
        _like(x, residual)
        if math.prod(x.shape) == channels:
            raise ShapeError(
                f"batch_norm: x {x.shape} has one value for each channel, which has no variance; use a larger batch"
            )
        stats = Spec((channels,), _wide(x.dtype))
        return x, stats, stats, stats

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        x, scale, shift, residual = ins
        residual = None if residual is None else _c(residual)
        kernels.batch_norm(*outs, _c(x), scale, shift, self.eps, relu=self.relu, residual=residual)

    def vjp(
        self, g: Any, y: Any, x: Tensor, scale: Tensor | None, shift: Tensor | None, residual: Tensor | None
    ) -> Any:
        (gy, g_mean, g_var, g_rstd), (out, mu, var, rstd) = g, y
        both = self.relu and residual is not None
        dx = dscale = dshift = dresidual = None
        if gy is not None:
            op = BatchNormGrad(self.eps, self.relu)
            dx, dscale, dshift, *rest = apply(op, gy, x, scale, shift, mu, var, rstd, out if both else None)
            dresidual = rest[0] if both else gy
        if g_rstd is not None:
            g_var = g_rstd * rstd * square(rstd) * -0.5 if g_var is None else g_var - g_rstd * rstd * square(rstd) * 0.5
        for part in (g_mean, None if g_var is None else (x - mu) * g_var * 2):
            if part is not None:
                share = astype(part, x.dtype) * (x.shape[-1] / x.size) + x * 0
                dx = share if dx is None else dx + share
        return dx, dscale, dshift, dresidual


class BatchNormGrad(Fused):
    """Gradients of BatchNorm for given statistics: dx, dscale, dshift and, where `y` is given (relu and residual),
    dresidual.

    With g' = g where the relu lets through: dshift = sum g', dscale = sum g' xhat,
    dx = scale rstd (g' - dshift / n - xhat dscale / n), dresidual = g'.
    """

    eps: float = 1e-5
    relu: bool = False

    def infer(
        self,
        g: Spec,
        x: Spec,
        scale: Spec | None,
        shift: Spec | None,
        mean: Spec,
        var: Spec,
        rstd: Spec,
        y: Spec | None,
    ) -> tuple[Spec, ...]:
        channels = _check("gradient of batch_norm", x, scale=scale, shift=shift)
        made = (x, _parameter(scale, channels, x.dtype), _parameter(shift, channels, x.dtype))
        return made if y is None else (*made, x)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        g, x, scale, shift, mu, _, rstd, y = ins
        dresidual, y = (None, None) if y is None else (outs[3], _c(y))
        kernels.batch_norm_grad(
            *outs[:3], _c(g), _c(x), mu, rstd, scale, shift, relu=self.relu, y=y, dresidual=dresidual
        )

    def compose(self, g: Tensor, x: Tensor, scale: Tensor | None, shift: Tensor | None, mu: Tensor, var: Tensor, rstd:
    Tensor,
                y: Tensor | None) -> tuple[Tensor, ...]:  # fmt: skip
        axes, n = tuple(range(x.ndim - 1)), x.size // x.shape[-1]
        root = rsqrt(var + self.eps)
        hat = (x - mu) * root
        if self.relu:
            g = where(greater(_affine(hat, scale, shift) if y is None else y, 0), g, 0)
        dshift, dscale = sum(g, axis=axes), sum(g * hat, axis=axes)
        dx = (g - dshift / n - hat * (dscale / n)) * (root if scale is None else root * scale)
        return (dx, dscale, dshift) if y is None else (dx, dscale, dshift, g)


class RunningAverage(Op):
    """running + share (factor now - running), the moving average of a statistic."""

    share: float
    factor: float = 1.0
    vjp = not_differentiable("running statistics are not learned")

    def infer(self, running: Spec, now: Spec) -> Spec:
        if running.shape != now.shape:
            raise ShapeError(f"running_average: running {running.shape} and now {now.shape} differ")
        return running

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        running, now = ins
        outs[0][...] = running + self.share * (now * self.factor - running)


class BatchNormEval(Fused):
    """y = (x - mean) / sqrt(var + eps) scale + shift (+ residual), then max(., 0) with `relu`; mean and var are
    given.
    """

    eps: float = 1e-5
    relu: bool = False

    def infer(
        self, x: Spec, mean: Spec, var: Spec, scale: Spec | None, shift: Spec | None, residual: Spec | None
    ) -> Spec:
        _check("batch_norm_eval", x, mean=mean, var=var, scale=scale, shift=shift)
        _like(x, residual)
        return x

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        x, mu, var, scale, shift, residual = ins
        a = (1 if scale is None else scale) / np.sqrt(var + var.dtype.type(self.eps))
        b = np.zeros_like(a) if shift is None else shift
        kernels.scale_shift(
            outs[0], _c(x), a, b, centre=mu, relu=self.relu, residual=None if residual is None else _c(residual)
        )

    def compose(
        self, x: Tensor, mu: Tensor, var: Tensor, scale: Tensor | None, shift: Tensor | None, residual: Tensor | None
    ) -> Tensor:
        root = rsqrt(var + self.eps)
        y = _affine((x - mu) * root, scale, shift)
        y = y if residual is None else y + residual
        return relu_of(y) if self.relu else y


def running_average(running: Tensor, now: Tensor, *, share: float, factor: float = 1.0) -> Tensor:
    """running + share (factor now - running): one step of a moving average; carries no gradient."""
    return cast(Tensor, apply(RunningAverage(share, factor), running, now))


def _activation(name: str, activation: str | None) -> bool:
    if activation not in (None, "relu"):
        raise UsageError(f"{name}: activation is {activation!r}; expected None or 'relu'")
    return activation is not None


def batch_norm(
    x: TensorLike,
    scale: Tensor | None = None,
    shift: Tensor | None = None,
    *,
    eps: float = 1e-5,
    activation: str | None = None,
    residual: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Normalise x [N, ..., C] by the statistics of this batch; returns (y, mean [C], var [C]).

    scale, shift [C] or None (ones, zeros). `var` is biased (divided by n = N * ...); running statistics usually keep
    ``var * n / (n - 1)``. `residual` (like x) is added to the result, then ``activation="relu"`` applied: both in the
    same
    pass over memory. Ioffe and Szegedy, arXiv 1502.03167.
    """
    op = BatchNorm(float(eps), _activation("batch_norm", activation))
    y, mu, var, _ = apply(op, as_tensor(x), scale, shift, residual)
    return y, mu, var


def batch_norm_eval(
    x: TensorLike,
    mean: Tensor,
    var: Tensor,
    scale: Tensor | None = None,
    shift: Tensor | None = None,
    *,
    eps: float = 1e-5,
    activation: str | None = None,
    residual: Tensor | None = None,
) -> Tensor:
    """`batch_norm` of x [N, ..., C] with given statistics mean, var [C]: y alone."""
    op = BatchNormEval(float(eps), _activation("batch_norm_eval", activation))
    return cast(Tensor, apply(op, as_tensor(x), mean, var, scale, shift, residual))


# -- layer and RMS norm ------------------------------------------------------------------------------------------------
class LayerNorm(Op):
    """y = (x - mean) rstd scale + shift over the last axis; not `centred`: RMS norm, without mean.

    Outputs y, rstd [...] and, centred, mean [...].
    """

    eps: float = 1e-5
    centred: bool = True

    def infer(self, x: Spec, scale: Spec | None, shift: Spec | None) -> tuple[Spec, ...]:
        _check("layer_norm" if self.centred else "rms_norm", x, scale=scale, shift=shift)
        stats = Spec(x.shape[:-1], _wide(x.dtype))
        return (x, stats, stats) if self.centred else (x, stats)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        x, scale, shift = ins
        kernels.layer_norm(outs[0], outs[2] if self.centred else None, outs[1], _c(x), scale, shift, self.eps)

    def vjp(self, g: Any, y: Any, x: Tensor, scale: Tensor | None, shift: Tensor | None) -> Any:
        mu = y[2] if self.centred else None
        dx, dscale, dshift = apply(LayerNormGrad(self.eps, self.centred), g[0], x, scale, shift, y[1], mu)
        return dx, dscale, dshift


class LayerNormGrad(Fused):
    """dx = rstd (u - mean(u) - xhat mean(u xhat)), u = g scale (RMS norm: without mean(u)); dscale = sum g xhat, dshift
    = sum g.
    """

    eps: float = 1e-5
    centred: bool = True

    def infer(
        self, g: Spec, x: Spec, scale: Spec | None, shift: Spec | None, rstd: Spec, mean: Spec | None
    ) -> tuple[Spec, ...]:
        channels = _check("gradient of layer_norm", x, scale=scale, shift=shift)
        return x, _parameter(scale, channels, x.dtype), _parameter(shift, channels, x.dtype)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        g, x, scale, _, rstd, mu = ins
        kernels.layer_norm_grad(*outs, _c(g), _c(x), mu, rstd, scale)

    def compose(
        self, g: Tensor, x: Tensor, scale: Tensor | None, shift: Tensor | None, rstd: Tensor, mu: Tensor | None
    ) -> tuple[Tensor, ...]:
        centre = x - mean(x, axis=-1, keepdims=True) if self.centred else x
        root = rsqrt(mean(square(centre), axis=-1, keepdims=True) + self.eps)
        hat, u = centre * root, g if scale is None else g * scale
        inner = u - hat * mean(u * hat, axis=-1, keepdims=True)
        dx = root * (inner - mean(u, axis=-1, keepdims=True) if self.centred else inner)
        axes = tuple(range(x.ndim - 1))
        return dx, sum(g * hat, axis=axes), sum(g, axis=axes)


def layer_norm(
    x: TensorLike, scale: Tensor | None = None, shift: Tensor | None = None, *, dims: int = 1, eps: float = 1e-5
) -> Tensor:
    """Normalise over the last `dims` axes; scale and shift have their sizes, or are None. Ba et al., arXiv
    1607.06450.
    """
    return _over_last(LayerNorm(float(eps)), "layer_norm", as_tensor(x), scale, shift, dims)


def rms_norm(x: TensorLike, scale: Tensor | None = None, *, dims: int = 1, eps: float = 1e-6) -> Tensor:
    """x / sqrt(mean x^2 + eps) scale over the last `dims` axes. Zhang and Sennrich, arXiv 1910.07467."""
    return _over_last(LayerNorm(float(eps), False), "rms_norm", as_tensor(x), scale, None, dims)


def _over_last(op: Op, name: str, x: Tensor, scale: Tensor | None, shift: Tensor | None, dims: int) -> Tensor:
    if not 1 <= dims <= x.ndim:
        raise ShapeError(f"{name}: dims {dims} is outside [1, {x.ndim}] of x {x.shape}")
    if dims == 1:
        return cast(Tensor, apply(op, x, scale, shift)[0])
    last = x.shape[x.ndim - dims :]
    for label, p in (("scale", scale), ("shift", shift)):
        if p is not None and p.shape != last:
            raise ShapeError(f"{name}: {label} {p.shape} does not fit the last {dims} sizes {last} of x {x.shape}")
    size = math.prod(last)
    flat = [None if p is None else reshape(p, (size,)) for p in (scale, shift)]
    return reshape(apply(op, reshape(x, (*x.shape[: x.ndim - dims], size)), *flat)[0], x.shape)


# -- group and instance norm -------------------------------------------------------------------------------------------
class GroupNorm(Op):
    """y = (x - mean) rstd scale + shift, statistics over each sample's positions and each of `groups` runs of channels.

    Outputs y, mean [N, groups], rstd [N, groups].
    """

    groups: int
    eps: float = 1e-5

    def infer(self, x: Spec, scale: Spec | None, shift: Spec | None) -> tuple[Spec, ...]:
        channels = _check("group_norm", x, scale=scale, shift=shift)
        if len(x.shape) < 2 or self.groups < 1 or channels % self.groups:
            raise ShapeError(
                f"group_norm: the {channels} channels of x {x.shape} do not divide into {self.groups} groups"
            )
        stats = Spec((x.shape[0], self.groups), _wide(x.dtype))
        return x, stats, stats

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        x, scale, shift = ins
        kernels.group_norm(*outs, _c(x), scale, shift, self.groups, self.eps)

    def vjp(self, g: Any, y: Any, x: Tensor, scale: Tensor | None, shift: Tensor | None) -> Any:
        return apply(GroupNormGrad(self.groups, self.eps), g[0], x, scale, shift, y[1], y[2])


class GroupNormGrad(Fused):
    """dx = rstd (u - mean(u) - xhat mean(u xhat)) over each group, u = g scale; dscale = sum g xhat, dshift = sum g."""

    groups: int
    eps: float = 1e-5

    def infer(
        self, g: Spec, x: Spec, scale: Spec | None, shift: Spec | None, mean: Spec, rstd: Spec
    ) -> tuple[Spec, ...]:
        channels = _check("gradient of group_norm", x, scale=scale, shift=shift)
        return x, _parameter(scale, channels, x.dtype), _parameter(shift, channels, x.dtype)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        g, x, scale, _, mu, rstd = ins
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


__all__ = [
    "batch_norm", "batch_norm_eval", "group_norm", "instance_norm", "layer_norm", "local_response_norm", "normalize",
    "rms_norm", "running_average",
]  # fmt: skip
