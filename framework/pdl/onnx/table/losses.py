"""Losses of classification: negative log likelihood, and cross-entropy of the softmax."""

from __future__ import annotations

from typing import Any

import numpy as np

from pdl.dtype import Array
from pdl.errors import IndexRangeError, UsageError
from pdl.onnx.eager import computed, rounded, to_single
from pdl.onnx.registry import Context, onnx_op


@onnx_op("NegativeLogLikelihoodLoss", since=12)
@computed
def _nll(
    ctx: Context, x: Any, target: Any, weight: Any = None, *, reduction: str = "mean", ignore_index: int | None = None
) -> Any:
    """-w[c] x[n, c, ...] at the target class c; "mean" divides the sum by that of the weights."""
    return rounded(_loss(ctx, to_single(x), target, weight, reduction, ignore_index), x.dtype)


@onnx_op("SoftmaxCrossEntropyLoss", since=12)
@computed
def _softmax_cross_entropy(
    ctx: Context, scores: Any, labels: Any, weights: Any = None, *, reduction: str = "mean",
    ignore_index: int | None = None,
) -> Any:  # fmt: skip
    """The negative log likelihood of log softmax(scores) over axis 1, and these logarithms."""
    x = to_single(scores)
    x = x - x.max(axis=1, keepdims=True)
    x = x - np.log(np.exp(x).sum(axis=1, keepdims=True))
    loss = _loss(ctx, x, labels, weights, reduction, ignore_index)
    return rounded(loss, scores.dtype), rounded(x, scores.dtype)


def _loss(ctx: Context, x: Array, target: Array, weight: Any, reduction: str, ignored: int | None) -> Array:
    """The loss of log-probabilities x [N, C, ...] for classes [N, ...]."""
    dead = np.zeros(target.shape, bool) if ignored is None else target == ignored
    c = np.where(dead, 0, target).astype(np.int64)
    if c.size and (c.min() < 0 or c.max() >= x.shape[1]):
        raise IndexRangeError(f"{ctx.node.label()}: targets from {c.min()} to {c.max()}, x has {x.shape[1]} classes")
    ones = np.ones(x.shape[1], x.dtype) if weight is None else weight.astype(x.dtype)
    w = np.where(dead, 0, ones[c]).astype(x.dtype)
    loss = -w * np.take_along_axis(x, c[:, None], axis=1)[:, 0]
    if reduction == "none":
        return np.asarray(loss)
    if reduction not in ("sum", "mean"):
        raise UsageError(f"{ctx.node.label()}: reduction {reduction!r} is not known")
    return np.asarray(loss.sum() / (w.sum() if reduction == "mean" else 1), x.dtype)
