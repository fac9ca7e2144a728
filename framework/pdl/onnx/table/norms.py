"""Normalisations other than those of batches and layers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pdl import ops
from pdl.errors import ShapeError, UsageError
from pdl.onnx.eager import in_single
from pdl.onnx.layouts import bias, channels_first, channels_last
from pdl.onnx.registry import Context, onnx_op
from pdl.onnx.table.shape import places
from pdl.onnx.values import tensor
from pdl.tensor import Tensor


@onnx_op("RMSNormalization", since=23)
@in_single
def _rms_norm(ctx: Context, x: Any, scale: Any, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1) -> Any:
    """scale x / sqrt(mean x^2 + epsilon) over `axis` and all after it (Zhang and Sennrich, arXiv 1910.07467)."""
    x = tensor(x)
    axes = tuple(range(axis % x.ndim, x.ndim))
    return x * ops.rsqrt(ops.mean(ops.square(x), axis=axes, keepdims=True) + epsilon) * tensor(scale)


@onnx_op("GroupNormalization", since=18)
@in_single
def _group_norm_18(ctx: Context, x: Any, scale: Any, shift: Any, *, epsilon: float = 1e-5, num_groups: int) -> Any:
    """Group normalisation with one scale and shift a group."""
    each = x.shape[1] // num_groups
    scale, shift = (ops.repeat(tensor(v), each) for v in (scale, shift))
    return _group_norm(ctx, x, scale, shift, num_groups, epsilon)


@onnx_op("GroupNormalization", since=21)
@in_single
def _group_norm_21(
    ctx: Context, x: Any, scale: Any, shift: Any, *, epsilon: float = 1e-5, num_groups: int, stash_type: int = 1
) -> Any:
    """Each sample's groups of channels brought to mean 0 and variance 1, then scaled (arXiv 1803.08494)."""
    return _group_norm(ctx, x, bias(ctx, scale), bias(ctx, shift), num_groups, epsilon)


def _group_norm(ctx: Context, x: Any, scale: Any, shift: Any, groups: int, epsilon: float) -> Tensor:
    if x.shape[1] % groups:
        raise ShapeError(f"{ctx.node.label()}: {groups} groups do not divide the channels of x {tuple(x.shape)}")
    return channels_first(ops.group_norm(channels_last(x), scale, shift, groups=groups, eps=epsilon))


@onnx_op("LRN")
@in_single
def _lrn(ctx: Context, x: Any, *, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> Any:
    """x / (bias + alpha / size sum x^2)^beta over `size` channels about each, (size - 1) // 2 of them before."""
    x = tensor(x)
    before = (size - 1) // 2
    widths = [(0, 0)] * x.ndim
    widths[1] = (before, size - 1 - before)
    squares = ops.pad(ops.square(x), widths)
    total: Any = squares[:, : x.shape[1]]
    for i in range(1, size):
        total = total + squares[:, i : i + x.shape[1]]
    return x * ops.pow(total * (alpha / size) + bias, -beta)


@onnx_op("LpNormalization")
@in_single
def _lp_norm(ctx: Context, x: Any, *, axis: int = -1, p: int = 2) -> Any:
    """x / (sum |x|^p)^(1/p) along an axis; 0 where that is 0."""
    if p not in (1, 2):
        raise UsageError(f"{ctx.node.label()}: p = {p}; 1 and 2 are supported")
    x = tensor(x)
    size = ops.sum(ops.abs(x) if p == 1 else ops.square(x), axis=axis, keepdims=True)
    size = ops.sqrt(size) if p == 2 else size
    one = tensor(np.ones((), x.dtype))
    return x / ops.where(ops.equal(size, 0), one, size)


@onnx_op("MeanVarianceNormalization", since=9)
@in_single
def _mvn(ctx: Context, x: Any, *, axes: Any = (0, 2, 3)) -> Any:
    """(x - mean) / (sqrt(mean (x - mean)^2) + 1e-9) over the axes."""
    x, along = tensor(x), tuple(axes)
    off = x - ops.mean(x, axis=along, keepdims=True)
    return off / (ops.sqrt(ops.mean(ops.square(off), axis=along, keepdims=True)) + 1e-9)


@onnx_op("Hardmax", since=13)
def _hardmax(ctx: Context, x: Any, *, axis: int = -1) -> Any:
    """1 at the first largest value along the axis, 0 elsewhere."""
    x = tensor(x)
    return _first_largest(x, axis % x.ndim)


@onnx_op("Hardmax")
def _hardmax_1(ctx: Context, x: Any, *, axis: int = 1) -> Any:
    """Before opset 13: over `axis` and all axes after it together."""
    x = tensor(x)
    first = axis % x.ndim
    flat = ops.reshape(x, (math.prod(x.shape[:first]), math.prod(x.shape[first:])))
    return ops.reshape(_first_largest(flat, 1), x.shape)


def _first_largest(x: Tensor, axis: int) -> Tensor:
    size = x.shape[axis]
    if type(size) is int and not size:
        return x
    at = tensor(np.arange(size)) if type(size) is int else places(size)
    if type(size) is not int:  # a last one, never the first largest of any: of nothing there is none
        x = ops.pad(x, [(0, int(i == axis)) for i in range(x.ndim)], value=-math.inf)
    place = ops.argmax(x, axis=axis, keepdims=True)
    at = ops.reshape(at, [size if i == axis else 1 for i in range(x.ndim)])
    return ops.astype(ops.equal(place, at), x.dtype)
