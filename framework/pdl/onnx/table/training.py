"""Optimisers of ai.onnx.preview.training, one step each."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pdl.errors import UsageError
from pdl.onnx.eager import computed, scalar
from pdl.onnx.registry import Context, onnx_op

DOMAIN = "ai.onnx.preview.training"


def _columns(ctx: Context, xs: tuple[Any, ...], parts: int) -> list[tuple[Any, ...]]:
    """(x, gradient, state, ...) of each parameter, from all x, all gradients, all states."""
    if not xs or len(xs) % parts:
        raise UsageError(f"{ctx.node.label()}: {len(xs)} inputs are not {parts} for each parameter")
    count = len(xs) // parts
    return [xs[i::count] for i in range(count)]


def _rows(made: list[tuple[Any, ...]]) -> tuple[Any, ...]:
    """All new x, all new states, in the dtype of the first."""
    return tuple(np.asarray(v, row[0].dtype) for row in zip(*made, strict=True) for v in row)


@onnx_op("Adagrad", domain=DOMAIN)
@computed
def _adagrad(
    ctx: Context, r: Any, t: Any, *xs: Any, decay_factor: float = 0.0, epsilon: float = 1e-6,
    norm_coefficient: float = 0.0,
) -> Any:  # fmt: skip
    """h += g^2; x -= r / (1 + t decay) g / (sqrt(h) + epsilon) (Duchi et al. 2011)."""
    rate = scalar(r, "R") / (1 + scalar(t, "T") * decay_factor)
    made = []
    for x, g, h in _columns(ctx, xs, 3):
        g = norm_coefficient * x + g
        h = h + g * g
        made.append((x - rate * g / (np.sqrt(h) + epsilon), h))
    return _rows(made)


@onnx_op("Adam", domain=DOMAIN)
@computed
def _adam(
    ctx: Context, r: Any, t: Any, *xs: Any, alpha: float = 0.9, beta: float = 0.999, epsilon: float = 1e-6,
    norm_coefficient: float = 0.0, norm_coefficient_post: float = 0.0,
) -> Any:  # fmt: skip
    """v, h: averages of g and g^2; x -= r v / (sqrt(h) + epsilon), r corrected for their start (arXiv 1412.6980)."""
    rate, step = scalar(r, "R"), scalar(t, "T")
    if step > 0:
        rate *= math.sqrt(1 - beta**step) / (1 - alpha**step)
    made = []
    for x, g, v, h in _columns(ctx, xs, 4):
        g = norm_coefficient * x + g
        v, h = alpha * v + (1 - alpha) * g, beta * h + (1 - beta) * g * g
        made.append(((1 - norm_coefficient_post) * (x - rate * v / (np.sqrt(h) + epsilon)), v, h))
    return _rows(made)


@onnx_op("Momentum", domain=DOMAIN)
@computed
def _momentum(
    ctx: Context, r: Any, t: Any, *xs: Any, alpha: float, beta: float, mode: str, norm_coefficient: float
) -> Any:
    """v = alpha v + beta g (g at the first step); x -= r v, or with Nesterov x -= r (g + alpha v)."""
    rate = scalar(r, "R")
    share = beta if scalar(t, "T") > 0 else 1.0
    made = []
    for x, g, v in _columns(ctx, xs, 3):
        g = norm_coefficient * x + g
        v = alpha * v + share * g
        made.append((x - rate * (g + alpha * v if mode == "nesterov" else v), v))
    return _rows(made)
