"""Layer norm and RMS norm over the last axes, alone or fused with the sum (and the dropout) in front of them.

y = (x - mean) rstd scale + shift with rstd = 1 / sqrt(var + eps), var biased; RMS norm leaves the mean out. In bfloat16
the statistics are float32.
"""

from __future__ import annotations

import math
from typing import Any, cast

from pdl.dtype import Array
from pdl.errors import ShapeError, UsageError
from pdl.kernels import layer_norm as kernels
from pdl.kernels.copies import contiguous as _c
from pdl.kernels.copies import convert
from pdl.kernels.launch import now
from pdl.kernels.memory import empty
from pdl.ops.attributes import Probability
from pdl.ops.base import Arrays, Fused, Op, Spec, apply
from pdl.ops.dropout import Dropout, check_seed, draw_seed, seed_number
from pdl.ops.elementwise import rsqrt, square
from pdl.ops.norm import _affine, _check, _parameter, _wide, _zero
from pdl.ops.reduce import mean, sum
from pdl.ops.shape import reshape
from pdl.tensor import Tensor, TensorLike, as_tensor


def _name(centred: bool) -> str:
    return "layer_norm" if centred else "rms_norm"


def _parameters(x: Array, *given: Array | None) -> tuple[Array | None, ...]:
    """Scale and shift in the dtype of the arithmetic."""
    wide = _wide(x.dtype)
    return tuple(_c(p, wide) for p in given)


def _number(seed: Array) -> int:
    now("layer_norm: the seed of dropout is read")
    return seed_number(seed)


def _gradient(outs: Arrays, g: Array, x: Array, mu: Array | None, rstd: Array, scale: Array | None, **how: Any) -> None:
    """Calls the kernel for outs = dx, dscale, dshift, the last two in any floating dtype."""
    if not x.size:
        return _zero(outs)
    wide = _wide(x.dtype)
    sums = [d if d.dtype == wide else empty(d.shape, wide) for d in outs[1:]]
    kernels.layer_norm_grad(outs[0], *sums, _c(g), _c(x), mu, rstd, *_parameters(x, scale), **how)
    for d, made in zip(outs[1:], sums, strict=True):
        if d is not made:
            convert(d, made)


class LayerNorm(Op):
    """y = (x - mean) rstd scale + shift over the last axis; not `centred`: RMS norm, without mean.

    Outputs y, rstd [...] and, centred, mean [...].
    """

    eps: float = 1e-5
    centred: bool = True
    native_bf16 = native = True

    def infer(self, x: Spec, scale: Spec | None, shift: Spec | None) -> tuple[Spec, ...]:
        _check(_name(self.centred), x, empty=True, scale=scale, shift=shift)
        stats = Spec(x.shape[:-1], _wide(x.dtype))
        return (x, stats, stats) if self.centred else (x, stats)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        if not ins[0].size:
            return _zero(outs)
        x = _c(ins[0])
        mean = outs[2] if self.centred else None
        kernels.layer_norm(outs[0], mean, outs[1], x, *_parameters(x, *ins[1:]), self.eps)

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
    native_bf16 = native = True

    def infer(
        self, g: Spec, x: Spec, scale: Spec | None, shift: Spec | None, rstd: Spec, mean: Spec | None
    ) -> tuple[Spec, ...]:
        return _gradient_specs(x, scale, shift)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        g, x, scale, _, rstd, mu = ins
        _gradient(outs, g, x, mu, rstd, scale)

    def compose(
        self, g: Tensor, x: Tensor, scale: Tensor | None, shift: Tensor | None, rstd: Tensor, mu: Tensor | None
    ) -> tuple[Tensor, ...]:
        return _gradient_in_ops(g, x, scale, self.eps, self.centred)


def _gradient_specs(x: Spec, scale: Spec | None, shift: Spec | None) -> tuple[Spec, Spec, Spec]:
    channels, dtype = x.shape[-1], x.dtype
    return x, _parameter(scale, channels, dtype), _parameter(shift, channels, dtype)


def _gradient_in_ops(g: Tensor, x: Tensor, scale: Tensor | None, eps: float, centred: bool) -> tuple[Tensor, ...]:
    hat, root = _normalised(x, eps, centred)
    u = g if scale is None else g * scale
    inner = u - hat * mean(u * hat, axis=-1, keepdims=True)
    dx = root * (inner - mean(u, axis=-1, keepdims=True) if centred else inner)
    axes = tuple(range(x.ndim - 1))
    return dx, sum(g * hat, axis=axes), sum(g, axis=axes)


def _normalised(x: Tensor, eps: float, centred: bool) -> tuple[Tensor, Tensor]:
    """xhat and rstd."""
    centre = x - mean(x, axis=-1, keepdims=True) if centred else x
    root = rsqrt(mean(square(centre), axis=-1, keepdims=True) + eps)
    return centre * root, root


# -- with the sum in front ---------------------------------------------------------------------------------------------
class AddLayerNorm(Fused):
    """t = residual + dropout(x), y = (t - mean) rstd scale + shift over the last axis; not `centred`: RMS norm.

    Outputs y, t, rstd [...] and, centred, mean [...]. A seed [] is given where dropout_p is not 0.
    """

    eps: float = 1e-5
    dropout_p: Probability = 0.0
    centred: bool = True
    native_bf16 = native = True

    def infer(
        self, x: Spec, residual: Spec, scale: Spec | None, shift: Spec | None, seed: Spec | None
    ) -> tuple[Spec, ...]:
        _check("add_layer_norm", x, empty=True, scale=scale, shift=shift)
        if residual != x:
            raise ShapeError(
                f"add_layer_norm: residual {residual.shape} {residual.dtype.name} is not like x {x.shape} "
                f"{x.dtype.name}"
            )
        if seed is not None:
            check_seed("add_layer_norm", seed)
        stats = Spec(x.shape[:-1], _wide(x.dtype))
        return (x, x, stats, stats) if self.centred else (x, x, stats)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        x, residual, scale, shift, seed = ins
        if not x.size:
            return _zero(outs)
        y, total, rstd = outs[:3]
        mean = outs[3] if self.centred else None
        how = {} if seed is None else {"dropout": self.dropout_p, "seed": _number(seed)}
        kernels.layer_norm(
            y, mean, rstd, _c(x), *_parameters(x, scale, shift), self.eps, total=total, residual=_c(residual), **how
        )

    def compose(
        self, x: Tensor, residual: Tensor, scale: Tensor | None, shift: Tensor | None, seed: Tensor | None
    ) -> tuple[Tensor, ...]:
        total = residual + (x if seed is None else apply(Dropout(self.dropout_p), x, seed))
        hat, root = _normalised(total, self.eps, self.centred)
        made = _affine(hat, scale, shift), total, reshape(root, x.shape[:-1])
        return (*made, mean(total, axis=-1)) if self.centred else made

    def vjp(self, g: Any, y: Any, x: Tensor, residual: Tensor, scale: Any, shift: Any, seed: Any) -> Any:
        if any(d is not None for d in g[2:]):
            return super().vjp(g, y, x, residual, scale, shift, seed)
        if g[0] is None:
            return (g[1] if seed is None else apply(Dropout(self.dropout_p), g[1], seed)), g[1], None, None, None
        mu = y[3] if self.centred else None
        op = AddLayerNormGrad(self.eps, self.dropout_p, self.centred)
        made = apply(op, g[0], g[1], y[1], scale, shift, y[2], mu, seed)
        return made[0], made[0 if seed is None else 3], made[1], made[2], None


class AddLayerNormGrad(Fused):
    """dx, dscale, dshift and, with a seed, dresidual, from the gradients of y and t: dresidual is LayerNormGrad's dx at
    t plus the gradient of t, and dx is its dropout.
    """

    eps: float = 1e-5
    dropout_p: Probability = 0.0
    centred: bool = True
    native_bf16 = native = True

    def infer(
        self,
        g: Spec,
        g_total: Spec | None,
        total: Spec,
        scale: Spec | None,
        shift: Spec | None,
        rstd: Spec,
        mean: Spec | None,
        seed: Spec | None,
    ) -> tuple[Spec, ...]:
        made = _gradient_specs(total, scale, shift)
        if seed is not None:
            check_seed("add_layer_norm", seed)
        return made if seed is None else (*made, total)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        g, g_total, total, scale, _, rstd, mu, seed = ins
        how: dict[str, Any] = {} if g_total is None else {"g_total": _c(g_total)}
        if seed is not None:
            how |= {"dresidual": outs[3], "dropout": self.dropout_p, "seed": _number(seed)}
        _gradient(outs[:3], g, total, mu, rstd, scale, **how)

    def compose(
        self,
        g: Tensor,
        g_total: Tensor | None,
        total: Tensor,
        scale: Tensor | None,
        shift: Tensor | None,
        rstd: Tensor,
        mu: Tensor | None,
        seed: Tensor | None,
    ) -> tuple[Tensor, ...]:
        d, dscale, dshift = _gradient_in_ops(g, total, scale, self.eps, self.centred)
        d = d if g_total is None else d + g_total
        return (d, dscale, dshift) if seed is None else (apply(Dropout(self.dropout_p), d, seed), dscale, dshift, d)


# -- public functions --------------------------------------------------------------------------------------------------
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


def add_layer_norm(
    x: TensorLike,
    residual: Tensor,
    scale: Tensor | None = None,
    shift: Tensor | None = None,
    *,
    eps: float = 1e-5,
    dropout_p: float = 0.0,
    centred: bool = True,
) -> tuple[Tensor, Tensor]:
    """The layer norm of t = residual + dropout(x) over the last axis, and t; the end of a branch of a transformer, in
    one pass over memory.    x, residual [..., C]; scale, shift [C] or None

    `centred` False: RMS norm. `dropout_p` is 0 in evaluation; see `dropout`.
    """
    if not 0 <= dropout_p < 1:
        raise UsageError(f"add_layer_norm: dropout_p {dropout_p} is outside [0, 1)")
    op = AddLayerNorm(float(eps), float(dropout_p), centred)
    y, total, *_ = apply(op, as_tensor(x), residual, scale, shift, draw_seed() if dropout_p else None)
    return y, total


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


__all__ = ["add_layer_norm", "layer_norm", "rms_norm"]
