"""Batch norm of channels-last tensors x [N, ..., C], with an activation and a residual in the same pass over memory.

y = f((x - mean) rstd scale + shift (+ residual)), rstd = 1 / sqrt(var + eps), var the biased variance. x and y may be
bfloat16; scale, shift and the statistics are then float32 (bfloat16 ones are widened first).
"""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np

from pdl.dtype import Array, bfloat16, float32
from pdl.errors import ShapeError, UsageError
from pdl.kernels import batch_norm as kernels
from pdl.kernels import pointwise
from pdl.kernels.copies import contiguous as _c
from pdl.kernels.copies import convert
from pdl.kernels.launch import constant
from pdl.kernels.memory import empty
from pdl.ops.activation import Activation, Hardswish, Hardtanh, Relu, Silu
from pdl.ops.attributes import Factor, Probability
from pdl.ops.base import Arrays, Fused, Op, Spec, apply, cast_array, not_differentiable
from pdl.ops.cast import astype
from pdl.ops.checks import check_floating
from pdl.ops.elementwise import rsqrt, square
from pdl.ops.norm import _affine, _check, _parameter, _wide
from pdl.ops.reduce import sum
from pdl.tensor import Tensor, TensorLike, as_tensor

#: the activations that the kernels know, as ops
ACTIVATIONS: dict[str, Activation] = {
    "relu": Relu(), "relu6": Hardtanh(0.0, 6.0), "hardswish": Hardswish(), "silu": Silu(),
}  # fmt: skip
#: those whose slope follows from their value, so that a residual may come before them
_FROM_VALUE = (None, "relu", "relu6")


def check_activation(name: str, activation: str | None) -> None:
    """Raise unless the kernels know `activation`."""
    if activation is not None and activation not in ACTIVATIONS:
        raise UsageError(f"{name}: activation is {activation!r}; expected None or one of {', '.join(ACTIVATIONS)}")


def activate(activation: str | None, z: Tensor) -> Tensor:
    """f(z), by its op."""
    return z if activation is None else cast(Tensor, apply(ACTIVATIONS[activation], z))


def activation_vjp(activation: str | None, g: Tensor, z: Tensor) -> Tensor:
    """g f'(z)."""
    return g if activation is None else g * ACTIVATIONS[activation].slope(z)


def wide_parameter(p: Array | None) -> Array | None:
    """A per-channel array as the kernels take it: contiguous, bfloat16 widened to float32."""
    if p is None:
        return None
    return cast_array(p, float32) if p.dtype == bfloat16 else cast(Array, _c(p))


class WideOutputs:
    """Stands in for bfloat16 outputs of a kernel that writes per-channel values in float32: `arrays`, then
    `finish()`.
    """

    def __init__(self, outs: Arrays) -> None:
        self.outs = outs
        self.arrays = [empty(y.shape, float32) if y.dtype == bfloat16 else y for y in outs]

    def finish(self) -> None:
        """Round what was widened into the outputs."""
        for y, wide in zip(self.outs, self.arrays, strict=True):
            if y is not wide:
                convert(y, wide)


def _check_residual(x: Spec, residual: Spec | None, activation: str | None) -> None:
    check_activation("batch_norm", activation)
    if residual is None:
        return
    if residual != x:
        raise ShapeError(
            f"batch_norm: residual {residual.shape} {residual.dtype.name} is not like x {x.shape} {x.dtype.name}"
        )
    if activation not in _FROM_VALUE:
        raise UsageError(f"batch_norm: {activation} behind a residual is an op of its own; see pdl.batch_norm")


class BatchNorm(Op):
    """y = f((x - mean) rstd scale + shift (+ residual)), f the activation; statistics over all axes but the last.

    Outputs y, mean [C], var [C] (biased), rstd [C].
    """

    native_bf16 = native = True
    eps: float = 1e-5
    activation: str | None = None

    def infer(self, x: Spec, scale: Spec | None, shift: Spec | None, residual: Spec | None) -> tuple[Spec, ...]:
        channels = _check("batch_norm", x, scale=scale, shift=shift)
        _check_residual(x, residual, self.activation)
        if math.prod(x.shape) == channels:
            raise ShapeError(
                f"batch_norm: x {x.shape} has one value for each channel, which has no variance; use a larger batch"
            )
        stats = Spec((channels,), _wide(x.dtype))
        return x, stats, stats, stats

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        x, scale, shift, residual = ins
        kernels.batch_norm(*outs, _c(x), wide_parameter(scale), wide_parameter(shift),
                           None if residual is None else _c(residual), self.eps, self.activation)  # fmt: skip

    def vjp(
        self, g: Any, y: Any, x: Tensor, scale: Tensor | None, shift: Tensor | None, residual: Tensor | None
    ) -> Any:
        (gy, g_mean, g_var, g_rstd), (out, mu, var, rstd) = g, y
        both = self.activation is not None and residual is not None
        dx = dscale = dshift = dresidual = None
        if gy is not None:
            op = BatchNormGrad(self.eps, self.activation)
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
    """Gradients of BatchNorm for given statistics: dx, dscale, dshift and, where `y` is given (an activation and a
    residual), dresidual.

    With g' = g f'(.): dshift = sum g', dscale = sum g' xhat, dx = scale rstd (g' - dshift / n - xhat dscale / n),
    dresidual = g'.
    """

    native_bf16 = native = True
    eps: float = 1e-5
    activation: str | None = None

    def infer(
        self, g: Spec, x: Spec, scale: Spec | None, shift: Spec | None, mean: Spec, var: Spec, rstd: Spec,
        y: Spec | None,
    ) -> tuple[Spec, ...]:  # fmt: skip
        channels = _check("gradient of batch_norm", x, scale=scale, shift=shift)
        made = (x, _parameter(scale, channels, x.dtype), _parameter(shift, channels, x.dtype))
        return made if y is None else (*made, x)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        g, x, scale, shift, mu, _, rstd, y = ins
        dresidual, y = (None, None) if y is None else (outs[3], _c(y))
        sums = WideOutputs(outs[1:3])
        kernels.batch_norm_grad(outs[0], *sums.arrays, dresidual, _c(g), _c(x), y, wide_parameter(mu),
                                wide_parameter(rstd), wide_parameter(scale), wide_parameter(shift),
                                self.activation)  # fmt: skip
        sums.finish()

    def compose(
        self, g: Tensor, x: Tensor, scale: Tensor | None, shift: Tensor | None, mu: Tensor, var: Tensor, rstd: Tensor,
        y: Tensor | None,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        axes, n = tuple(range(x.ndim - 1)), x.size // x.shape[-1]
        root = rsqrt(var + self.eps)
        hat = (x - mu) * root
        g = activation_vjp(self.activation, g, _affine(hat, scale, shift) if y is None else y)
        dshift, dscale = sum(g, axis=axes), sum(g * hat, axis=axes)
        dx = (g - dshift / n - hat * (dscale / n)) * (root if scale is None else root * scale)
        return (dx, dscale, dshift) if y is None else (dx, dscale, dshift, g)


class BatchNormEval(Fused):
    """y = f((x - mean) / sqrt(var + eps) scale + shift (+ residual)), f the activation; mean and var are given."""

    native_bf16 = native = True
    eps: float = 1e-5
    activation: str | None = None

    def infer(
        self, x: Spec, mean: Spec, var: Spec, scale: Spec | None, shift: Spec | None, residual: Spec | None
    ) -> Spec:
        _check("batch_norm_eval", x, empty=True, mean=mean, var=var, scale=scale, shift=shift)
        _check_residual(x, residual, self.activation)
        return x

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        x, *channels, residual = ins
        if not x.size:
            return
        kernels.batch_norm_apply(outs[0], _c(x), *map(wide_parameter, channels),
                                 None if residual is None else _c(residual), self.eps, self.activation)  # fmt: skip

    def compose(
        self, x: Tensor, mu: Tensor, var: Tensor, scale: Tensor | None, shift: Tensor | None, residual: Tensor | None
    ) -> Tensor:
        y = _affine((x - mu) * rsqrt(var + self.eps), scale, shift)
        return activate(self.activation, y if residual is None else y + residual)

    def vjp(self, g: Any, y: Any, *ins: Any) -> Any:
        *others, residual = ins
        both = self.activation is not None and residual is not None
        op = BatchNormEvalGrad(self.eps, self.activation)
        made = apply(op, g, *others, y if both else None)
        return (*made[:5], made[5] if both else g)


class BatchNormEvalGrad(Fused):
    """Gradients of BatchNormEval: dx, dmean, dvar, dscale, dshift and, where `y` is given (an activation and a
    residual), dresidual.

    With g' = g f'(.): dx = g' scale rstd, dmean = -sum dx, dvar = -sum g' (x - mean) scale rstd^3 / 2, dshift = sum g',
    dscale = sum g' xhat, dresidual = g'. One pass over memory.
    """

    native_bf16 = native = True
    eps: float = 1e-5
    activation: str | None = None

    def infer(
        self, g: Spec, x: Spec, mean: Spec, var: Spec, scale: Spec | None, shift: Spec | None, y: Spec | None
    ) -> tuple[Spec, ...]:
        channels = _check("gradient of batch_norm_eval", x, mean=mean, var=var, scale=scale, shift=shift)
        made = (x, mean, var, _parameter(scale, channels, x.dtype), _parameter(shift, channels, x.dtype))
        return made if y is None else (*made, x)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        g, x, *channels, y = ins
        dresidual, y = (None, None) if y is None else (outs[5], _c(y))
        sums = WideOutputs(outs[1:5])
        kernels.batch_norm_apply_grad(outs[0], *sums.arrays, dresidual, _c(g), _c(x), y,
                                      *map(wide_parameter, channels), self.eps, self.activation)  # fmt: skip
        sums.finish()

    def compose(
        self, g: Tensor, x: Tensor, mu: Tensor, var: Tensor, scale: Tensor | None, shift: Tensor | None,
        y: Tensor | None,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        axes = tuple(range(x.ndim - 1))
        root = rsqrt(var + self.eps)
        centre, slope = x - mu, root if scale is None else root * scale
        g = activation_vjp(self.activation, g, _affine(centre * root, scale, shift) if y is None else y)
        dshift, moment = sum(g, axis=axes), sum(g * centre, axis=axes)
        made = g * slope, dshift * slope * -1, moment * slope * square(root) * -0.5, moment * root, dshift
        return made if y is None else (*made, g)


def _split(activation: str | None, residual: Tensor | None) -> tuple[str | None, str | None]:
    """The activation for the kernel, and the one that has to follow as an op of its own."""
    late = residual is not None and activation not in _FROM_VALUE
    return (None, activation) if late else (activation, None)


class RunningAverage(Op):
    """running + share (factor now - running), the moving average of a statistic."""

    share: Probability
    factor: Factor = 1.0
    native = True
    vjp = not_differentiable("running statistics are not learned")

    def infer(self, running: Spec, now: Spec) -> Spec:
        check_floating("running_average", running=running)
        if running.shape != now.shape:
            raise ShapeError(f"running_average: running {running.shape} and now {now.shape} differ")
        return running

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        running, now = _c(ins[0]), _c(ins[1], ins[0].dtype)
        share, factor = (constant(np.array(v, running.dtype)) for v in (self.share, self.factor))
        step = empty(running.shape, running.dtype)
        pointwise.binary("multiply", step, now, factor)
        pointwise.binary("subtract", step, step, running)
        pointwise.binary("multiply", step, step, share)
        pointwise.binary("add", outs[0], running, step)


def running_average(running: Tensor, now: Tensor, *, share: float, factor: float = 1.0) -> Tensor:
    """running + share (factor now - running): one step of a moving average; carries no gradient."""
    return cast(Tensor, apply(RunningAverage(share, factor), running, now))


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
    ``var * n / (n - 1)``. `residual` (like x) is added to the result, then the `activation` applied (relu, relu6,
    hardswish, silu): both in the same pass over memory. Ioffe and Szegedy, arXiv 1502.03167.
    """
    check_activation("batch_norm", activation)
    now, late = _split(activation, residual)
    y, mu, var, _ = apply(BatchNorm(float(eps), now), as_tensor(x), scale, shift, residual)
    return activate(late, y), mu, var


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
    check_activation("batch_norm_eval", activation)
    now, late = _split(activation, residual)
    op = BatchNormEval(float(eps), now)
    return activate(late, cast(Tensor, apply(op, as_tensor(x), mean, var, scale, shift, residual)))


__all__ = ["batch_norm", "batch_norm_eval", "running_average"]
