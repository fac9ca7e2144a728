"""Products and determinants."""

from __future__ import annotations

from typing import Any

import numpy as np

from pdl import ops
from pdl.errors import ShapeError
from pdl.onnx.eager import computed, in_single, scalar
from pdl.onnx.registry import Context, onnx_op
from pdl.onnx.values import array, in_numpy, tensor


@onnx_op("Einsum", since=12)
@in_single
def _einsum(ctx: Context, *xs: Any, equation: str) -> Any:
    """Products summed over the letters that the output lacks."""
    if in_numpy(*xs):
        return np.asarray(np.einsum(equation, *[array(x) for x in xs]))
    return ops.einsum(equation, *[tensor(x) for x in xs])


@onnx_op("Det", since=11)
@computed
def _det(ctx: Context, x: Any) -> Any:
    """The determinants of square matrices [..., n, n]."""
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ShapeError(f"{ctx.node.label()}: x {x.shape} must be [..., n, n]")
    return np.asarray(np.linalg.det(x.astype(np.float64))).astype(x.dtype)


@onnx_op("CumProd", since=26)
@computed
def _cumprod(ctx: Context, x: Any, axis: Any, *, exclusive: int = 0, reverse: int = 0) -> Any:
    """Products of all elements up to each (`exclusive`: before it), `reverse`: from the end."""
    along = int(scalar(axis, "the axis")) % x.ndim
    y = np.flip(x, along) if reverse else x
    if exclusive:
        one = np.ones_like(np.take(y, [0], along)) if y.shape[along] else y
        y = np.concatenate([one, np.delete(y, -1, along)], along) if y.shape[along] else y
    made = np.cumprod(y, along, dtype=x.dtype)
    return np.flip(made, along) if reverse else made
