"""Bounds on gradients, between backward and update."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from pdl.dtype import DType, bfloat16, float32, real_of
from pdl.errors import NumericalError, UsageError
from pdl.kernels import update as kernels
from pdl.tensor import Array, Tensor


def clip_grad_norm_(
    params: Tensor | Iterable[Tensor], max_norm: float, *, norm_type: float = 2.0, error_if_nonfinite: bool = False
) -> float:
    """Scale all gradients by min(1, max_norm / (norm + 1e-6)), where norm is that of all of them as one vector; returns
    norm.

    `norm_type` is the p of the norm (inf: the largest magnitude). A norm that is not finite leaves NaN behind, or
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
        for p in owners:
            assert p.grad is not None
            factor = np.asarray(scale, p.grad.dtype if p.grad.dtype.kind != "c" else float32)
            with np.errstate(invalid="ignore"):  # infinity times 0
                p.grad = Tensor._wrap(p.grad.data * factor)  # a new array: two parameters may share one gradient
    return norm


def clip_grad_value_(params: Tensor | Iterable[Tensor], clip_value: float) -> None:
    """Clip every element of all (real) gradients to [-clip_value, clip_value]."""
    if clip_value < 0:
        raise UsageError(f"clip_grad_value_: clip_value {clip_value} must be >= 0")
    for p in _with_gradient(params):
        assert p.grad is not None
        bound = np.asarray(clip_value, p.grad.dtype)
        p.grad = Tensor._wrap(np.minimum(np.maximum(p.grad.data, -bound), bound))


def total_norm(tensors: Iterable[Tensor], norm_type: float = 2.0) -> float:
    """The p-norm of all tensors as one vector, summed in float64 in a fixed order."""
    if math.isinf(norm_type):
        return max((float(np.abs(_wide(t.data)).max(initial=0.0)) for t in tensors), default=0.0)
    arrays = [_wide(t.data) for t in tensors]
    if norm_type != 2.0:
        return float(sum((np.abs(x) ** norm_type).sum(dtype=np.float64) for x in arrays) ** (1 / norm_type))
    by_dtype: dict[DType, list[Array]] = {}
    for x in arrays:
        real = np.ascontiguousarray(x).reshape(-1).view(real_of(x.dtype))
        by_dtype.setdefault(real.dtype, []).append(real)
    return math.sqrt(sum(float(kernels.sum_squares(xs).sum()) for xs in by_dtype.values()))


def _wide(x: Array) -> Array:
    return x.astype(float32) if x.dtype == bfloat16 else x


def _with_gradient(params: Tensor | Iterable[Tensor]) -> list[Tensor]:
    return [p for p in ([params] if isinstance(params, Tensor) else params) if p.grad is not None]
