"""Attention, in matrix products and a softmax."""

from __future__ import annotations

import math

import numpy as np

from pdl.dtype import bool_
from pdl.errors import ShapeError, UsageError
from pdl.ops.activation import dropout
from pdl.ops.base import as_tensors, broadcast_shapes
from pdl.ops.elementwise import where
from pdl.ops.linalg import matmul
from pdl.ops.shape import swapaxes
from pdl.ops.softmax import softmax
from pdl.tensor import Tensor, TensorLike, as_tensor


def scaled_dot_product_attention(
    q: TensorLike,
    k: TensorLike,
    v: TensorLike,
    *,
    mask: TensorLike | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    dropout_p: float = 0.0,
) -> Tensor:
    """softmax(q k^T scale + mask) v for q [..., L, E], k [..., S, E], v [..., S, D] -> [..., L, D]. Vaswani et al.,
    arXiv 1706.03762.

    `mask` broadcasts to [..., L, S]: bool (False: kept out) or floats that are added. `is_causal`: position i sees the
    keys
    0..i. `scale` is 1 / sqrt(E) by default. `dropout_p` drops attention weights (leave it 0 in evaluation). A query
    whose keys are
    all kept out gives NaN.
    """
    q, k, v = as_tensors(q, k, v)
    _check(q, k, v)
    scores = matmul(q * (1 / math.sqrt(q.shape[-1]) if scale is None else scale), swapaxes(k, -1, -2))
    if is_causal:
        if mask is not None:
            raise UsageError("scaled_dot_product_attention: give mask or is_causal, not both")
        mask = Tensor(np.tri(q.shape[-2], k.shape[-2], dtype=np.bool_))
    if mask is not None:
        mask = as_tensor(mask)
        if not _broadcasts(mask.shape, scores.shape):
            raise ShapeError(
                f"scaled_dot_product_attention: mask {mask.shape} does not broadcast to the scores {scores.shape}"
            )
        scores = where(mask, scores, -math.inf) if mask.dtype == bool_ else scores + mask
    return matmul(dropout(softmax(scores), p=dropout_p), v)


def _broadcasts(small: tuple[int, ...], large: tuple[int, ...]) -> bool:
    last = large[len(large) - len(small) :]
    return len(small) <= len(large) and all(a in (1, b) for a, b in zip(small, last, strict=True))


def _check(q: Tensor, k: Tensor, v: Tensor) -> None:
    if min(q.ndim, k.ndim, v.ndim) < 2:
        raise ShapeError(
            f"scaled_dot_product_attention: q {q.shape}, k {k.shape}, v {v.shape} need at least two dimensions"
        )
    if q.shape[-1] != k.shape[-1]:
        raise ShapeError(
            f"scaled_dot_product_attention: q {q.shape} has {q.shape[-1]} features, k {k.shape} has {k.shape[-1]}"
        )
    if k.shape[-2] != v.shape[-2]:
        raise ShapeError(
            f"scaled_dot_product_attention: k {k.shape} has {k.shape[-2]} positions, v {v.shape} has {v.shape[-2]}"
        )
    broadcast_shapes("scaled_dot_product_attention", q.shape[:-2], k.shape[:-2], v.shape[:-2])


__all__ = ["scaled_dot_product_attention"]
