"""Pooling, norms, softmax, resizing, recurrent layers, attention."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pdl.export.c.emit_pointwise import function
from pdl.export.c.registry import Refused, emits
from pdl.export.c.source import Source, Strided, number
from pdl.ops.attention import ScaledDotProductAttention
from pdl.ops.batchnorm import ACTIVATIONS, BatchNormEval
from pdl.ops.layer_norm import AddLayerNorm, LayerNorm
from pdl.ops.norm import GroupNorm
from pdl.ops.pool import AdaptiveAvgPool, AdaptiveMaxPool, AvgPool, MaxPool, _Pool, _windows
from pdl.ops.resize import Resize, _matrix
from pdl.ops.rnn import Recurrent
from pdl.ops.rotary import Rotate
from pdl.ops.softmax import LogSoftmax, Softmax
from pdl.program.ir import Node, Value


def shape_of(value: Value | None) -> tuple[int, ...]:
    """Its sizes, as numbers."""
    assert value is not None
    return tuple(map(int, value.spec.shape))


def require_float(node: Node) -> None:
    """Refused unless the first input is float32."""
    first = next(v for v in node.inputs if v is not None)
    if first.spec.dtype.name != "float32":
        raise Refused(f"it computes in {first.spec.dtype.name}; kernels here are of float32")


# -- pooling -----------------------------------------------------------------------------------------------------------
def pool_of(c: Source, op: _Pool, x: Value | None, factor: float | None = None) -> str:
    """The struct `Pool` of windows over x; shares are times a factor in float32, as quantised pooling has them."""
    shape = shape_of(x)
    if op.rank() > 2:
        raise Refused("of its three spatial axes: kernels here have one or two")
    w = _windows(op, shape[1:-1])
    sizes = (1,) * (4 - len(shape)) + shape[1:-1]
    outs = (1,) * (2 - len(w.size)) + tuple(w.size)
    ends = np.split(np.asarray(w.lo), [1, 1 + outs[0]]), np.split(np.asarray(w.hi), [1, 1 + outs[0]])
    low, high = ([c.array(part.astype(np.int32), "int") for part in each[1:]] for each in ends)
    shares = [part.astype(np.float64) for part in np.split(np.asarray(w.scale), [1, 1 + outs[0]])]
    share = (shares[0][0] * shares[1][:, None] * shares[2]).astype(np.float32)
    if factor is not None:
        share *= np.float32(factor)
    return c.struct(
        "Pool", images=shape[0], channels=shape[-1], sizes=_braces(sizes), outs=_braces(outs),
        steps=_braces(w.step[1:]), low=_braces(low), high=_braces(high), share=c.array(share),
    )  # fmt: skip


def _braces(values: Any) -> str:
    return f"{{{', '.join(map(str, values))}}}"


@emits(MaxPool, AdaptiveMaxPool)
def max_pool(c: Source, node: Node) -> None:
    """Windows from tables."""
    require_float(node)
    if node.op.indexed:  # type: ignore[attr-defined]
        raise Refused("its positions are read")
    c.call("max_pool", c.at(node.outputs[0]), c.at(node.inputs[0]), pool_of(c, node.op, node.inputs[0]))  # type: ignore[arg-type]


@emits(AvgPool, AdaptiveAvgPool)
def avg_pool(c: Source, node: Node) -> None:
    """Windows from tables."""
    require_float(node)
    c.call("avg_pool", c.at(node.outputs[0]), c.at(node.inputs[0]), pool_of(c, node.op, node.inputs[0]))  # type: ignore[arg-type]


# -- norms, softmax ----------------------------------------------------------------------------------------------------
@emits(BatchNormEval)
def batch_norm(c: Source, node: Node) -> None:
    """A factor and a summand for each channel, folded here where all is constant."""
    require_float(node)
    op: Any = node.op
    x, mean, var, scale, shift, residual = node.inputs
    m, v = c.constant(mean, "mean"), c.constant(var, "variance")
    factor = 1 / np.sqrt(v.astype(np.float64) + op.eps)
    factor = factor if scale is None else factor * c.constant(scale, "scale")
    more = -m * factor + (0 if shift is None else c.constant(shift, "shift"))
    y, shape = node.outputs[0], shape_of(x)
    along = (0,) * (len(shape) - 1) + (1,)
    arrays = {"y": c.dense(y), "x": c.dense(x)}
    arrays |= {
        name: Strided(c.array(value.astype(np.float32)), "float", along) for name, value in (("f", factor), ("m", more))
    }
    body = "{x} * {f} + {m}"
    if residual is not None:
        arrays["r"] = c.dense(residual)
        body += " + {r}"
    c.nest(shape, arrays, f"{{y}} = {body};")
    if op.activation is not None:
        activation: Any = ACTIVATIONS[op.activation]
        c.nest(
            shape, {"y": c.dense(y)}, "{y} = " + function(c, activation.kernel, activation.parameters(), "{y}") + ";"
        )


@emits(LayerNorm)
def layer_norm(c: Source, node: Node) -> None:
    """Over rows; statistics are not written."""
    op: Any = node.op
    _norm(c, node, node.outputs[0], node.inputs[0], node.inputs[1], node.inputs[2], op)


@emits(AddLayerNorm)
def add_layer_norm(c: Source, node: Node) -> None:
    """The sum, which is an output too, then the norm."""
    op: Any = node.op
    require_float(node)
    x, residual, scale, shift, seed = node.inputs
    if seed is not None:
        raise Refused("it drops values at random")
    y, total = node.outputs[:2]
    c.nest(shape_of(x), {"y": c.dense(total), "a": c.dense(x), "b": c.dense(residual)}, "{y} = {a} + {b};")
    _norm(c, node, y, total, scale, shift, op)


def _norm(c: Source, node: Node, y: Value, x: Value | None, scale: Value | None, shift: Value | None, op: Any) -> None:
    require_float(node)
    shape = shape_of(x)
    rows = math.prod(shape[:-1])
    c.call("layer_norm", c.at(y), c.at(x), c.at(scale), c.at(shift), rows, shape[-1], number(op.eps), int(op.centred))


@emits(GroupNorm)
def group_norm(c: Source, node: Node) -> None:
    """Over the cells and the channels of each group."""
    op: Any = node.op
    require_float(node)
    x, scale, shift = node.inputs
    shape = shape_of(x)
    cells = math.prod(shape[1:-1])
    c.call(
        "group_norm", c.at(node.outputs[0]), c.at(x), c.at(scale), c.at(shift), shape[0], cells, shape[-1], op.groups,
        number(op.eps),
    )  # fmt: skip


@emits(Softmax, LogSoftmax)
def softmax(c: Source, node: Node) -> None:
    """Along one axis."""
    op: Any = node.op
    require_float(node)
    shape = shape_of(node.inputs[0])
    axis = op.axis % len(shape)
    around = math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])
    c.call("softmax", c.at(node.outputs[0]), c.at(node.inputs[0]), *around, int(op.logarithm))


@emits(Resize)
def resize(c: Source, node: Node) -> None:
    """A sparse matrix along one axis."""
    op: Any = node.op
    require_float(node)
    shape = shape_of(node.inputs[0])
    n = shape[op.axis]
    m = _matrix(n, op.size, op.mode, op.align_corners, op.antialias, False)
    tables = [c.array(m.start.astype(np.int32), "int"), c.array(m.source.astype(np.int32), "int")]
    around = math.prod(shape[: op.axis]), op.size, n, math.prod(shape[op.axis + 1 :])
    c.call("mix", c.at(node.outputs[0]), c.at(node.inputs[0]), *tables, c.array(m.weight.astype(np.float32)), *around)


# -- sequences ---------------------------------------------------------------------------------------------------------
@emits(Recurrent)
def recurrent(c: Source, node: Node) -> None:
    """All steps of a layer; what gradients would need is not written."""
    op: Any = node.op
    require_float(node)
    gates, h0, c0, w, bias, lengths = node.inputs
    if lengths is not None:
        raise Refused("it takes lengths of sequences, which a fixed shape has not")
    shape, hidden = shape_of(gates), shape_of(w)[0]
    y, state = node.outputs[:2]
    carry = c.at(node.outputs[2]) if op.cell == "lstm" else "0"
    room = c.scratch(shape[2] * 4)
    kind = ("rnn", "gru", "lstm").index(op.cell)
    c.call(
        "recurrent", c.at(y), c.at(state), carry, f"(float *){room}", c.at(gates), c.at(h0), c.at(c0), c.at(w),
        c.at(bias), kind, shape[0], shape[1], hidden, int(op.reverse),
    )  # fmt: skip


@emits(ScaledDotProductAttention)
def attention(c: Source, node: Node) -> None:
    """A head at a time, row by row."""
    op: Any = node.op
    require_float(node)
    q, k, v, mask, seed = node.inputs
    if seed is not None or (k is None) != (v is None):
        raise Refused("it drops values at random, or reads keys and values in a form without a kernel")
    shape, y = shape_of(q), node.outputs[0]
    heads = op.heads or 1
    *batch, rows, columns = shape
    if k is None:  # q, k and v side by side
        own = columns // 3
        parts, depth, keys = [(q, 0, columns), (q, own, columns), (q, 2 * own, columns)], own // heads, rows
        width = own // heads
    else:
        keys = shape_of(k)[-2]
        width, depth = columns // heads, shape_of(v)[-1] // heads
        if shape_of(k)[-1] != columns or shape_of(k)[:-2] != tuple(batch) or shape_of(v)[:-2] != tuple(batch):
            raise Refused("its keys have fewer heads, or other leading sizes, than its queries")
        parts = [(q, 0, columns), (k, 0, columns), (v, 0, shape_of(v)[-1])]
    scale = op.scale if op.scale is not None else 1 / math.sqrt(width)
    lead = (*batch, heads) if op.heads else tuple(batch)
    scores = c.scratch(keys * 4)
    indices = [f"b{i}" for i in range(len(lead))]
    for index, size in zip(indices, lead, strict=True):
        c.open(f"for (long {index} = 0; {index} < {size}; {index}++)")
    number_of = "0"
    for index, size in zip(indices[: len(batch)], batch, strict=True):
        number_of = f"({number_of} * {size} + {index})" if number_of != "0" else index
    head = indices[-1] if op.heads else "0"
    places = [
        f"{c.at(part)} + {number_of} * {count * step} + {first} + {head} * {wide}"
        for (part, first, step), count, wide in zip(parts, (rows, keys, keys), (width, width, depth), strict=True)
    ]
    out = heads * depth
    into = f"{c.at(y)} + {number_of} * {rows * out} + {head} * {depth}"
    allowed = added = "0"
    apart = 0
    if mask is not None:
        own_shape = shape_of(mask)
        full = (1,) * (len(lead) + 2 - len(own_shape)) + own_shape
        if full[-1] != keys:
            raise Refused("its mask has one value for all keys")
        strides = [0 if n == 1 else math.prod(full[i + 1 :]) for i, n in enumerate(full)]
        apart = strides[-2]
        at = " + ".join([c.at(mask), *(f"{i} * {s}" for i, s in zip(indices, strides, strict=False) if s)])
        allowed, added = (at, "0") if mask.spec.dtype.name == "bool" else ("0", at)
    c.call(
        "attention", into, f"(float *){scores}", *places, allowed, added, rows, keys, width, depth,
        *(step for _, _, step in parts), out, apart, number(scale), int(op.is_causal),
    )  # fmt: skip
    c.close(len(lead))


@emits(Rotate)
def rotate(c: Source, node: Node) -> None:
    """Rotary positions."""
    op: Any = node.op
    require_float(node)
    x, cosine, sine = node.inputs
    shape = shape_of(x)
    turns = math.prod(shape_of(cosine)[:-1])
    c.call(
        "rotate", c.at(node.outputs[0]), c.at(x), c.at(cosine), c.at(sine), math.prod(shape[:-1]), turns, shape[-1],
        op.heads, op.size, "-1" if op.back else "1",
    )  # fmt: skip
