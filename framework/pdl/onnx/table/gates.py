"""Activations that are no op of pdl's own."""

from __future__ import annotations

from typing import Any

import numpy as np

from pdl import ops
from pdl.errors import ShapeError
from pdl.onnx.eager import in_single
from pdl.onnx.registry import Context, onnx_op
from pdl.onnx.values import in_numpy, tensor


@onnx_op("Celu", since=12)
@in_single
def _celu(ctx: Context, x: Any, *, alpha: float = 1.0) -> Any:
    """max(0, x) + min(0, alpha (e^(x / alpha) - 1)) (Barron, arXiv 1704.07483)."""
    return ops.celu(tensor(x), alpha=alpha)


@onnx_op("ThresholdedRelu")
@in_single
def _thresholded_relu(ctx: Context, x: Any, *, alpha: float = 1.0) -> Any:
    """x above alpha, else 0."""
    x = tensor(x)
    return ops.where(ops.greater(x, alpha), x, tensor(np.zeros((), x.dtype)))


@onnx_op("Shrink", since=9)
def _shrink(ctx: Context, x: Any, *, bias: float = 0.0, lambd: float = 0.5) -> Any:
    """x + bias below -lambd, x - bias above lambd, 0 between."""
    if in_numpy(x):
        y = np.where(x < -lambd, x + bias, np.where(x > lambd, x - bias, 0))
        return y.astype(x.dtype)
    x = tensor(x)
    zero = tensor(np.zeros((), x.dtype))
    return ops.where(ops.less(x, -lambd), x + bias, ops.where(ops.greater(x, lambd), x - bias, zero))


@onnx_op("Swish", since=24)
@in_single
def _swish(ctx: Context, x: Any, *, alpha: float = 1.0) -> Any:
    """x sigmoid(alpha x) (Ramachandran et al., arXiv 1710.05941)."""
    x = tensor(x)
    return ops.silu(x) if alpha == 1 else x * ops.sigmoid(x * alpha)


@onnx_op("SwiGLU", since=28)
@in_single
def _swiglu(ctx: Context, a: Any, b: Any, *, alpha: float = 1.0) -> Any:
    """a sigmoid(alpha a) b (Shazeer, arXiv 2002.05202)."""
    if tuple(a.shape) != tuple(b.shape):
        raise ShapeError(f"{ctx.node.label()}: a {tuple(a.shape)} and b {tuple(b.shape)} must have one shape")
    return _swish(ctx, tensor(a), alpha=alpha) * tensor(b)
