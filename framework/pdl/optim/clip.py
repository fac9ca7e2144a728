"""Bounds on gradients, between backward and update."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial

import numpy as np

from pdl.dtype import Array, DType, bfloat16, float32, real_of
from pdl.errors import NumericalError, UsageError
from pdl.kernels import update as kernels
from pdl.kernels.runtime import flushed
from pdl.ops.sparse import SparseGrad
from pdl.tensor import Tensor


def clip_grad_norm_(
    params: Tensor | Iterable[Tensor], max_norm: float, *, norm_type: float = 2.0, error_if_nonfinite: bool = False
) -> float:
    """Scale all gradients by min(1, max_norm / (norm + 1e-6)), where norm is that of all of them as one vector; returns
    norm.

    `norm_type` is the p of the norm (inf: the largest magnitude). A norm that is not finite makes the gradients NaN, or
    raises.
    """
    if max_norm < 0 or norm_type <= 0:
        raise UsageError(f"clip_grad_norm_: max_norm {max_norm} must be >= 0 and norm_type {norm_type} > 0")
    owners = _with_gradient(params)
    norm = total_norm((p.grad for p in owners if p.grad is not None), norm_type)
    if error_if_nonfinite and not math.isfinite(norm):
        raise NumericalError(f"clip_grad_norm_: the norm of the gradients is {norm}")
    scale = max_norm / (norm + 1e-6)
    if not scale >= 1:
        with np.errstate(invalid="ignore"):  # infinity times 0
            for p in owners:  # new arrays: two parameters may share one gradient
                p.grad = _changed(p.grad, lambda x: x * np.asarray(scale, x.dtype if x.dtype.kind != "c" else float32))
    return norm


def clip_scale(params: Tensor | Iterable[Tensor], max_norm: float) -> tuple[float, float]:
    """(norm, scale): the L2 norm of all gradients as one vector, and the factor of `clip_grad_norm_` to hand to
    `Optimizer.step(scale=...)`, which applies it as it reads them. The gradients stay as they are.
    """
    norm = total_norm(p.grad for p in _with_gradient(params) if p.grad is not None)
    return norm, bound(norm, max_norm)


def bound(norm: float, max_norm: float) -> float:
    """The factor min(1, max_norm / (norm + 1e-6)); NaN for a norm that is none."""
    scale = max_norm / (norm + 1e-6)
    return 1.0 if scale >= 1 else scale


def clip_grad_value_(params: Tensor | Iterable[Tensor], clip_value: float) -> None:
    """Clip every element of all (real) gradients to [-clip_value, clip_value]."""
    if clip_value < 0:
        raise UsageError(f"clip_grad_value_: clip_value {clip_value} must be >= 0")
    for p in _with_gradient(params):
        assert p.grad is not None
        bound = np.asarray(clip_value, p.grad.dtype)
        p.grad = _changed(p.grad, partial(np.clip, a_min=-bound, a_max=bound))


def total_norm(tensors: Iterable[Tensor], norm_type: float = 2.0) -> float:
    """The p-norm of all tensors as one vector, summed in float64 in a fixed order."""
    if math.isinf(norm_type):
        return max((float(np.abs(_numbers(t)).max(initial=0.0)) for t in tensors), default=0.0)
    arrays = [_numbers(t) for t in tensors]
    if norm_type != 2.0:
        return float(sum((np.abs(x) ** norm_type).sum(dtype=np.float64) for x in arrays) ** (1 / norm_type))
    by_dtype: dict[DType, list[Array]] = {}
    for x in arrays:
        real = np.ascontiguousarray(x).reshape(-1).view(real_of(x.dtype))
        by_dtype.setdefault(real.dtype, []).append(real)
    return math.sqrt(sum(float(kernels.sum_squares(xs).sum()) for xs in by_dtype.values()))


def _numbers(g: Tensor) -> Array:
    """The numbers of a gradient; of a sparse one those of its rows."""
    x = g.values.data if isinstance(g, SparseGrad) else g.data
    return x.astype(float32) if x.dtype == bfloat16 else x


def _changed(g: Tensor | None, function: Callable[[Array], Array]) -> Tensor | None:
    """A gradient with new numbers; denormal ones count as 0."""
    if isinstance(g, SparseGrad):
        return SparseGrad(g.shape, g.rows, Tensor._wrap(flushed(function, g.values.data)))
    return None if g is None else Tensor._wrap(flushed(function, g.data))


def _with_gradient(params: Tensor | Iterable[Tensor]) -> list[Tensor]:
    return [p for p in ([params] if isinstance(params, Tensor) else params) if p.grad is not None]
