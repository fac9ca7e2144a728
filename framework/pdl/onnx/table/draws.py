"""Random numbers, from pdl's generator, or where a node has a seed from one that it starts.

ONNX leaves the generator open: a seed gives the same values at every run of pdl, not those of another runtime.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pdl import random
from pdl.errors import UsageError
from pdl.onnx.eager import computed
from pdl.onnx.registry import Context, NeedsValue, onnx_op
from pdl.onnx.values import dtype_of, require_room
from pdl.tensor import _Tracing


def _generator(ctx: Context, seed: float | None) -> np.random.Generator:
    """Where the numbers come from; a trace must not draw them once for all runs."""
    if _Tracing.recorder is not None:
        raise NeedsValue(f"{ctx.node.label()} draws random numbers at every run")
    if seed is None:
        return random.generator()
    return np.random.default_rng(np.frombuffer(np.float64(seed).tobytes(), np.uint64))


def _shape(ctx: Context, sizes: Any) -> tuple[int, ...]:
    require_room(ctx.node.label(), sizes, 8)
    return tuple(int(n) for n in sizes)


@onnx_op("RandomUniform")
def _uniform(
    ctx: Context, *, shape: Any, dtype: int = 1, high: float = 1.0, low: float = 0.0, seed: float | None = None
) -> Any:
    """Numbers in [low, high)."""
    made = _generator(ctx, seed).uniform(low, high, _shape(ctx, shape))
    return np.asarray(made).astype(dtype_of(dtype, ctx.node.label()))


@onnx_op("RandomUniformLike")
def _uniform_like(
    ctx: Context, x: Any, *, dtype: int | None = None, high: float = 1.0, low: float = 0.0, seed: float | None = None
) -> Any:
    """Numbers in [low, high) in the shape of x."""
    made = _generator(ctx, seed).uniform(low, high, _shape(ctx, x.shape))
    return np.asarray(made).astype(x.dtype if dtype is None else dtype_of(dtype, ctx.node.label()))


@onnx_op("RandomNormal")
def _normal(
    ctx: Context, *, shape: Any, dtype: int = 1, mean: float = 0.0, scale: float = 1.0, seed: float | None = None
) -> Any:
    """Normal numbers of this mean and deviation."""
    made = _generator(ctx, seed).normal(mean, scale, _shape(ctx, shape))
    return np.asarray(made).astype(dtype_of(dtype, ctx.node.label()))


@onnx_op("RandomNormalLike")
def _normal_like(
    ctx: Context, x: Any, *, dtype: int | None = None, mean: float = 0.0, scale: float = 1.0, seed: float | None = None
) -> Any:
    """Normal numbers of this mean and deviation in the shape of x."""
    made = _generator(ctx, seed).normal(mean, scale, _shape(ctx, x.shape))
    return np.asarray(made).astype(x.dtype if dtype is None else dtype_of(dtype, ctx.node.label()))


@onnx_op("Bernoulli", since=15)
@computed
def _bernoulli(ctx: Context, x: Any, *, dtype: int | None = None, seed: float | None = None) -> Any:
    """1 with the probability x, else 0."""
    hit = _generator(ctx, seed).random(_shape(ctx, x.shape)) < x.astype(np.float64)
    return np.asarray(hit).astype(x.dtype if dtype is None else dtype_of(dtype, ctx.node.label()))


@onnx_op("Multinomial", since=7)
@computed
def _multinomial(ctx: Context, x: Any, *, dtype: int = 6, sample_size: int = 1, seed: float | None = None) -> Any:
    """Classes drawn by their unnormalised log-probabilities x [N, classes]; [N, sample_size]."""
    require_room(ctx.node.label(), (len(x), sample_size, x.shape[1]), 8)
    noise = _generator(ctx, seed).gumbel(size=(len(x), sample_size, x.shape[1]))
    made = np.argmax(x.astype(np.float64)[:, None] + noise, axis=2)
    return made.astype(dtype_of(dtype, ctx.node.label()))


def dropped(ctx: Context, x: Any, rate: float, seed: int | None) -> Any:
    """x / (1 - rate) where a mask holds, else 0, and the mask, which holds with probability 1 - rate.

    With a seed it is that of ONNX's reference implementation, NumPy's generator of 2006.
    """
    if not 0 < rate < 1:
        raise UsageError(f"{ctx.node.label()}: ratio {rate} is outside [0, 1)")
    source, values = _generator(ctx, None), ctx.value(x, "its values")
    shape = _shape(ctx, values.shape)
    uniform = source.random(shape) if seed is None else np.random.RandomState(seed).uniform(size=shape)
    mask = np.asarray(uniform) >= rate
    return (values * mask / (1 - rate)).astype(values.dtype), mask
