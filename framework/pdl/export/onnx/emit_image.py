"""Convolutions and normalisations over images: channels first, as ONNX wants them."""

from __future__ import annotations

from typing import Any

import numpy as np

from pdl.export.onnx.emit_math import activated
from pdl.export.onnx.graph import Graph, symbolic
from pdl.export.onnx.registry import First, Result, emits
from pdl.ops.activation import _activation_of
from pdl.ops.batchnorm import ACTIVATIONS, BatchNorm, BatchNormEval
from pdl.ops.conv import Conv, ConvDx
from pdl.ops.epilogue import ConvAct
from pdl.ops.norm import GroupNorm
from pdl.ops.norm_conv import NormConv
from pdl.program.ir import Value


# -- convolutions ------------------------------------------------------------------------------------------------------
def oihw(g: Graph, w: Value) -> str:
    """A weight [*kernel, C / groups, O] as ONNX's [O, C / groups, *kernel]."""
    rank = len(w.spec.shape)
    order = (rank - 1, rank - 2, *range(rank - 2))
    array = g.array(w)
    if array is not None:
        return g.constant(array.transpose(order), name=w.name)
    return g.transpose(g.plain(w), order)


def pads(padding: Any) -> list[int]:
    """((before, after), ...) as all befores, then all afters."""
    return [int(p[0]) for p in padding] + [int(p[1]) for p in padding]


def convolution(g: Graph, op: Any, x: str, w: Value, b: Value | None) -> str:
    """Conv, of x channels first."""
    dilation = getattr(op, "dilation", (1,) * len(op.stride))
    return g.node(
        "Conv", x, oihw(g, w), g.optional(b), kernel_shape=list(w.spec.shape[:-2]), strides=list(op.stride),
        pads=pads(op.padding), dilations=list(dilation), group=op.groups,
    )  # fmt: skip


@emits(Conv)
def conv(g: Graph, op: Conv, x: Value, w: Value, b: Value | None = None) -> Result:
    """Conv."""
    return First(convolution(g, op, g.first(x), w, b))


@emits(ConvAct)
def conv_act(g: Graph, op: ConvAct, x: Value, w: Value, b: Value | None, residual: Value | None) -> Result:
    """Conv, Add, activation."""
    y = convolution(g, op, g.first(x), w, b)
    y = y if residual is None else g.node("Add", y, g.first(residual))
    return First(activated(g, _activation_of(op.activation, op.values) if op.activation else None, x.spec, y))


@emits(ConvDx)
def transposed(g: Graph, op: ConvDx, x: Value, w: Value) -> Result:
    """ConvTranspose: its weight [O of the forward convolution, C / groups, *kernel] is that of Conv."""
    steps = zip(op.size, x.spec.shape[1:-1], w.spec.shape, op.stride, op.padding, op.dilation, strict=False)
    more = [
        n - ((out - 1) * stride + dilation * (kernel - 1) + 1 - before - after)
        for n, out, kernel, stride, (before, after), dilation in steps
    ]
    # where ends of the input were never read, the result is longer by up to a stride: output_padding
    return First(g.node(
        "ConvTranspose", g.first(x), oihw(g, w), kernel_shape=list(w.spec.shape[:-2]), strides=list(op.stride),
        pads=pads(op.padding), dilations=list(op.dilation), group=op.groups, output_padding=more,
    ))  # fmt: skip


# -- normalisations ----------------------------------------------------------------------------------------------------
def filled(g: Graph, value: Value | None, number: float, like: Value) -> str:
    """A per-channel value, or `number` in every channel."""
    if value is not None:
        return g.plain(value)
    return g.constant(np.full(like.spec.shape, number, like.spec.dtype))


def batch_norm(g: Graph, x: str, eps: float, channels: tuple[Value | None, ...]) -> str:
    """BatchNormalization of x channels first."""
    mean, var, scale, shift = channels
    assert mean is not None
    assert var is not None
    names = filled(g, scale, 1, mean), filled(g, shift, 0, mean)
    return g.node("BatchNormalization", x, *names, g.plain(mean), g.plain(var), epsilon=float(eps))


@emits(BatchNormEval)
def batch_norm_eval(g: Graph, op: BatchNormEval, x: Value, *rest: Value | None) -> Result:
    """BatchNormalization, Add, activation."""
    *channels, residual = rest
    y = batch_norm(g, g.first(x), op.eps, tuple(channels))
    y = y if residual is None else g.node("Add", y, g.first(residual))
    return First(activated(g, ACTIVATIONS[op.activation] if op.activation else None, x.spec, y))


@emits(BatchNorm)
def batch_norm_of_batch(
    g: Graph, op: BatchNorm, x: Value, scale: Value | None, shift: Value | None, residual: Value | None
) -> Result:
    """The norm by the statistics of the batch itself, in reductions, and these statistics."""
    rank, name = len(x.spec.shape), g.first(x)
    axes, column = [0, *range(2, rank)], (-1, *(1,) * (rank - 2))
    mean = g.reduce("ReduceMean", name, axes)
    centred = g.node("Sub", name, mean)
    var = g.reduce("ReduceMean", g.node("Mul", centred, centred), axes)
    root = g.node("Reciprocal", g.node("Sqrt", g.node("Add", var, g.like(op.eps, x.spec))))
    y = g.node("Mul", centred, root)
    for kind, value in (("Mul", scale), ("Add", shift)):
        y = y if value is None else g.node(kind, y, per_channel(g, value, column))
    y = y if residual is None else g.node("Add", y, g.first(residual))
    statistics = [g.node("Reshape", v, g.constant([-1], np.int64)) for v in (mean, var, root)]
    return First(activated(g, ACTIVATIONS[op.activation] if op.activation else None, x.spec, y)), *statistics


@emits(NormConv)
def norm_conv(g: Graph, op: NormConv, x: Value, *rest: Value | None) -> Result:
    """BatchNormalization, activation, Conv; the statistics of the result are for training."""
    *channels, w = rest
    assert w is not None
    y = g.first(x)
    if channels[0] is not None:
        y = batch_norm(g, y, op.eps, tuple(channels))
        y = activated(g, ACTIVATIONS[op.activation] if op.activation else None, x.spec, y)
    made = First(convolution(g, op, y, w, None))
    return (made, None, None) if op.statistics else made


@emits(GroupNorm)
def group_norm(g: Graph, op: GroupNorm, x: Value, scale: Value | None, shift: Value | None) -> Result:
    """InstanceNormalization of [N, groups, run of channels and positions], then scale and shift; its kept statistics
    are for training.
    """
    rank, channels = len(x.spec.shape), x.spec.shape[-1]
    name, dtype = g.first(x), x.spec.dtype
    flat = g.node("Reshape", name, g.constant([0, op.groups, -1], np.int64))
    ones, zeros = (g.constant(np.full(op.groups, v, dtype)) for v in (1, 0))
    y = g.node("InstanceNormalization", flat, ones, zeros, epsilon=float(op.eps))
    y = g.node("Reshape", y, g.node("Shape", name))
    column = (channels, *(1,) * (rank - 2))
    for kind, value in (("Mul", scale), ("Add", shift)):
        if value is not None:
            y = g.node(kind, y, per_channel(g, value, column))
    return First(y), None, None


def per_channel(g: Graph, value: Value, shape: tuple[int, ...]) -> str:
    """A value [C] as [C, 1, ...], to meet [N, C, ...]."""
    array = g.array(value)
    if array is not None:
        return g.constant(array.reshape(shape), name=value.name)
    return g.node("Reshape", g.plain(value), g.sizes(shape))


def static(sizes: Any) -> bool:
    """Whether all sizes are known now."""
    return not any(symbolic(n) for n in sizes)
