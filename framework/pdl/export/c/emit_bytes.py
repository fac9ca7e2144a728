"""Quantised nets: the same integers as the runtime's."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pdl.dtype import Array
from pdl.export.c.emit_dense import MOST_ROWS, PANEL, _Row, as_row, padded, shifted, window
from pdl.export.c.emit_layers import pool_of, shape_of
from pdl.export.c.registry import Refused, emits
from pdl.export.c.source import Source, Strided, number
from pdl.ops.pool import AdaptiveAvgPool
from pdl.ops.quant import (
    DequantizeLinear,
    QAdd,
    QAvgPool,
    QConv,
    QGlobalMean,
    QLinear,
    QMap,
    QMaxPool,
    QuantizeLinear,
)
from pdl.program.ir import Node

#: bytes of an address, at most
POINTER = 8


def _then(c: Source, op: Any) -> str:
    """The struct `Then` of what follows a sum."""
    low, high = op.bounds()
    residual = getattr(op, "residual_scale", 0.0) / op.unit()
    return c.struct(
        "Then", zero=0 if op.y_scale is None else op.y_zero, residual_zero=getattr(op, "residual_zero", 0),
        residual_scale=number(residual), low=number(low), high=number(high),
        after=number(op.after() or 0.0),
    )  # fmt: skip


def _targets(c: Source, node: Node) -> tuple[str, str]:
    """The outputs `y` and `wide` of a kernel: bytes or floats."""
    at = c.at(node.outputs[0])
    return (at, "0") if node.outputs[0].spec.dtype.name == "uint8" else ("0", at)


def fours(w: Array) -> Array:
    """Weights [rows, taps of a row times inputs, outputs] int8 as [outputs / PANEL][rows][inputs / 4][PANEL][4], zeros
    where there are none."""
    rows, inputs, outputs = w.shape
    made = np.zeros((rows, -(-inputs // 4) * 4, -(-outputs // PANEL) * PANEL), np.int8)
    made[:, :inputs, :outputs] = w
    return made.reshape(rows, made.shape[1] // 4, 4, -1, PANEL).transpose(3, 0, 1, 4, 2)


def tap_pairs(w: Array) -> Array:
    """Weights [taps, channels] int8 as [taps / 2][channels][2], zeros behind the last of an odd number."""
    made = np.zeros((-(-len(w) // 2) * 2, w.shape[1]), np.int8)
    made[: len(w)] = w
    return made.reshape(-1, 2, w.shape[1]).transpose(0, 2, 1)


def _product(c: Source, node: Node, op: Any, xs: Any, ys: Any, w: Array) -> None:
    """A convolution of bytes with the window of `op`."""
    own: Any = node.op
    x, _, w_scale, bias, residual = node.inputs
    scale = c.constant(w_scale, "scales").astype(np.float64)
    factors = (scale * (own.x_scale / own.unit())).astype(np.float32)
    sums = w.astype(np.int64).sum(axis=tuple(range(w.ndim - 1)))
    b = (0 if bias is None else c.constant(bias, "bias").astype(np.int64)) - own.x_zero * sums
    b = b.astype(np.int64).astype(np.uint32).view(np.int32)
    g, then, groups, outputs = (
        window(c, op, xs, ys, w.shape, (-math.inf, math.inf)),
        _then(c, own),
        op.groups,
        w.shape[-1],
    )
    y, wide = _targets(c, node)
    of, more = c.at(x), c.at(residual)
    if groups == xs[-1] == outputs and groups > 1:
        each_tap = w.reshape(-1, outputs)
        edge = POINTER * (len(each_tap) + 1)
        room = c.scratch(edge + outputs)
        c.call(
            "qdepthwise", y, wide, of, c.array(tap_pairs(each_tap)), c.array(b), c.array(factors), more, own.x_zero,
            f"(const uint8_t **){room}", shifted(room, edge), g, then,
        )  # fmt: skip
        return
    each, inputs = outputs // groups, w.shape[-2]
    rows, taps = (1, 1, *w.shape[:-2])[-2:]
    within = not any(n for ends in op.padding for n in ends)
    joined = taps == 1 or (op.dilation[-1] == 1 and groups == 1)
    room = "0" if joined and within else c.scratch(MOST_ROWS * rows * taps * inputs)
    for group in range(groups):
        part = slice(group * each, (group + 1) * each)
        c.call(
            "qconv", shifted(y, group * each), shifted(wide, group * each), shifted(of, group * inputs),
            c.array(fours(w[..., part].reshape(rows, taps * inputs, each))), c.array(padded(b[part], each, np.int32)),
            c.array(factors[part]), shifted(more, group * each), room, own.x_zero, g, then,
        )  # fmt: skip


@emits(QConv)
def qconv(c: Source, node: Node) -> None:
    """Direct sums in int32."""
    _product(
        c, node, node.op, shape_of(node.inputs[0]), shape_of(node.outputs[0]), c.constant(node.inputs[1], "weights")
    )


@emits(QLinear)
def qlinear(c: Source, node: Node) -> None:
    """A convolution of single pixels."""
    assert node.inputs[0] is not None
    xs, ys = as_row(node.inputs[0]), as_row(node.outputs[0])
    _product(c, node, _Row(), xs, ys, c.constant(node.inputs[1], "weights")[None])


@emits(QAdd)
def qadd(c: Source, node: Node) -> None:
    """Sums of two arrays of bytes."""
    op: Any = node.op
    a, b = node.inputs
    scales = number(op.a_scale / op.unit()), number(op.b_scale / op.unit())
    size = math.prod(shape_of(a))
    c.call(
        "qadd", c.at(node.outputs[0]), c.at(a), c.at(b), size, op.a_zero, scales[0], op.b_zero, scales[1], _then(c, op)
    )


@emits(QMap)
def qmap(c: Source, node: Node) -> None:
    """A table of 256 bytes."""
    x, table = node.inputs
    y = node.outputs[0]
    shape = shape_of(x)
    look = Strided(c.at(table), "uint8_t", (0,) * len(shape))
    c.nest(shape, {"y": c.dense(y), "x": c.dense(x), "table": look}, "{y} = (&{table})[{x}];")


@emits(QMaxPool)
def qmax_pool(c: Source, node: Node) -> None:
    """Windows from tables."""
    c.call("qmax_pool", c.at(node.outputs[0]), c.at(node.inputs[0]), pool_of(c, node.op, node.inputs[0]))  # type: ignore[arg-type]


@emits(QAvgPool, QGlobalMean)
def qavg_pool(c: Source, node: Node) -> None:
    """Windows from tables; all cells where the mean is over them."""
    op: Any = node.op
    windows = op
    if isinstance(op, QGlobalMean):
        rank = len(shape_of(node.inputs[0])) - 2
        if rank > 2:
            raise Refused("of its three spatial axes: kernels here have one or two")
        windows = AdaptiveAvgPool((1,) * rank)
    pool = pool_of(c, windows, node.inputs[0], op.x_scale / op.unit())
    c.call("qavg_pool", *_targets(c, node), c.at(node.inputs[0]), op.x_zero, pool, _then(c, op))


def _points(c: Source, node: Node) -> tuple[tuple[int, int, int], Array, Array]:
    """[outer, n, inner] of an array with a scale and a zero point for each of n, and these."""
    op: Any = node.op
    x, scale, zero = node.inputs
    s, z, shape = c.constant(scale, "scale"), c.constant(zero, "zero point"), shape_of(x)
    if s.ndim == 0:
        return (1, 1, math.prod(shape)), s.reshape(1), z.reshape(1)
    axis = op.axis % len(shape)
    return (math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])), s, z


@emits(QuantizeLinear)
def quantise(c: Source, node: Node) -> None:
    """As ONNX has it."""
    around, scale, zero = _points(c, node)
    bounds = np.iinfo(zero.dtype)
    into = f"(uint8_t *){c.at(node.outputs[0])}"
    points = c.array(scale), c.array(zero.astype(np.int32), "int")
    c.call("quantise", into, c.at(node.inputs[0]), *points, *around, int(bounds.min), int(bounds.max))


@emits(DequantizeLinear)
def dequantise(c: Source, node: Node) -> None:
    """(q - zero) scale"""
    around, scale, zero = _points(c, node)
    q, y = node.inputs[0], node.outputs[0]
    assert q is not None
    along = (0, 1, 0) if len(scale) > 1 else (0, 0, 0)
    dense = (around[1] * around[2], around[2], 1)
    arrays = {
        "y": Strided(c.at(y), "float", dense),
        "q": Strided(c.at(q), c.dense(q).kind, dense),
        "scale": Strided(c.array(scale.astype(np.float32)), "float", along),
        "zero": Strided(c.array(zero.astype(np.int32), "int"), "int", along),
    }
    c.nest(around, arrays, "{y} = (float)({q} - {zero}) * {scale};")
