"""Products of matrices, layer norm, softmax, embeddings, attention."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pdl.export.onnx.emit_math import activated
from pdl.export.onnx.graph import Graph, fixed, symbolic
from pdl.export.onnx.registry import NOT_WRITTEN, Result, emits
from pdl.ops.activation import _activation_of
from pdl.ops.attention import ScaledDotProductAttention
from pdl.ops.decompose import Det, LogAbsDet
from pdl.ops.embedding import Embedding
from pdl.ops.epilogue import LinearAct
from pdl.ops.layer_norm import AddLayerNorm, LayerNorm
from pdl.ops.linalg import Linear, MatMul
from pdl.ops.softmax import LogSoftmax, Softmax
from pdl.program.ir import Value


# -- products ----------------------------------------------------------------------------------------------------------
def product(g: Graph, x: Value, w: Value, b: Value | None) -> str:
    """Gemm for matrices, MatMul and Add for more dimensions. Where x is an image flattened, w's rows change places
    instead of the image's values.
    """
    if len(x.spec.shape) != 2:
        y = g.node("MatMul", g.plain(x), g.plain(w))
        return y if b is None else g.node("Add", y, g.plain(b))
    flat, array = g.flattened(x), g.array(w)
    if flat is not None and array is not None:
        name, shape = flat
        moved = array.reshape(*shape, -1).transpose(len(shape) - 1, *range(len(shape) - 1), len(shape))
        return g.node("Gemm", name, g.constant(moved.reshape(array.shape), name=w.name), g.optional(b))
    return g.node("Gemm", g.plain(x), g.plain(w), g.optional(b))


@emits(Linear)
def linear(g: Graph, op: Linear, x: Value, w: Value, b: Value | None = None) -> Result:
    """x w + b."""
    return product(g, x, w, b)


@emits(LinearAct)
def linear_act(g: Graph, op: LinearAct, x: Value, w: Value, b: Value | None = None) -> Result:
    """f(x w + b), and x w + b where f's gradient would need it."""
    z = product(g, x, w, b)
    y = activated(g, _activation_of(op.activation, op.values), x.spec, z)
    return (y, z) if len(g.outputs) > 1 else y


@emits(Det)
def determinant(g: Graph, op: Det, x: Value) -> Result:
    """Det."""
    return g.node("Det", g.plain(x))


@emits(LogAbsDet)
def log_abs_determinant(g: Graph, op: LogAbsDet, x: Value) -> Result:
    """Sign(Det) and Log(Abs(Det)): a determinant beyond the dtype's range is lost."""
    made = g.node("Det", g.plain(x))
    return g.node("Sign", made), g.node("Log", g.node("Abs", made))


@emits(MatMul)
def matmul(g: Graph, op: MatMul, a: Value, b: Value) -> Result:
    """MatMul."""
    return g.node("MatMul", g.plain(a), g.plain(b))


@emits(Softmax, LogSoftmax)
def softmax(g: Graph, op: Softmax, x: Value) -> Result:
    """Softmax or LogSoftmax."""
    name, axis, wrap = g.axis(x, op.axis)
    return wrap(g.node(type(op).__name__, name, axis=axis))


@emits(Embedding)
def embedding(g: Graph, op: Embedding, table: Value, index: Value) -> Result:
    """Gather of rows."""
    return g.node("Gather", g.plain(table), g.plain(index), axis=0)


# -- layer norm --------------------------------------------------------------------------------------------------------
def normalised(g: Graph, x: str, value: Value, op: Any, scale: Value | None, shift: Value | None) -> str:
    """LayerNormalization from opset 17 on, RMS norm from 23 on; before, in reductions."""
    spec = value.spec
    gain = g.optional(scale)
    if g.opset >= (17 if op.centred else 23):
        kind = "LayerNormalization" if op.centred else "RMSNormalization"
        unit = gain or g.constant(np.ones(spec.shape[-1], spec.dtype))
        inside = [g.optional(shift)] if op.centred else []
        y = g.node(kind, x, unit, *inside, axis=-1, epsilon=float(op.eps))
        return y if shift is None or inside else g.node("Add", y, g.plain(shift))
    last = [len(spec.shape) - 1]
    y = g.node("Sub", x, g.reduce("ReduceMean", x, last)) if op.centred else x
    root = g.node("Sqrt", g.node("Add", g.reduce("ReduceMean", g.node("Mul", y, y), last), g.like(op.eps, spec)))
    y = g.node("Div", y, root)
    y = y if gain is None else g.node("Mul", y, gain)
    return y if shift is None else g.node("Add", y, g.plain(shift))


@emits(LayerNorm)
def layer_norm(g: Graph, op: LayerNorm, x: Value, scale: Value | None, shift: Value | None) -> Result:
    """The norm; what it keeps is for training."""
    return normalised(g, g.plain(x), x, op, scale, shift), None, *([None] if op.centred else [])


@emits(AddLayerNorm)
def add_layer_norm(
    g: Graph, op: AddLayerNorm, x: Value, residual: Value, scale: Value | None, shift: Value | None, seed: Value | None
) -> Result:
    """Add, and the norm."""
    if seed is not None:
        return NOT_WRITTEN
    total = g.node("Add", g.plain(residual), g.plain(x))
    return normalised(g, total, x, op, scale, shift), total, None, *([None] if op.centred else [])


# -- attention ---------------------------------------------------------------------------------------------------------
def heads_apart(g: Graph, x: str, value: Value, columns: int, heads: int, last: tuple[int, int]) -> str:
    """[..., L, heads E] as [..., heads, L, E] or, for keys, [..., heads, E, L]: `last` are the places of L and E."""
    lead = len(value.spec.shape) - 2
    apart = g.node("Reshape", x, g.constant([*[0] * (lead + 1), heads, columns // heads], np.int64))
    places = (lead, lead + 2)  # of L and E
    return g.transpose(apart, [*range(lead), lead + 1, places[last[0]], places[last[1]]])


def attention_inputs(g: Graph, op: ScaledDotProductAttention, q: Value, k: Value | None, v: Value | None) -> list[str]:
    """q [..., L, E], k [..., E, S], v [..., S, D], heads before L."""
    if k is None or v is None:
        size = fixed(q.spec.shape[-1]) // 3
        parts = split(g, g.plain(q), 3, size)
        sources, widths = [q] * 3, [size] * 3
    else:
        parts, sources = [g.plain(x) for x in (q, k, v)], [q, k, v]
        widths = [fixed(x.spec.shape[-1]) for x in (q, k, v)]
    swapped = [(0, 1), (1, 0), (0, 1)]
    if op.heads:
        rows = zip(parts, sources, widths, swapped, strict=True)
        return [heads_apart(g, name, x, width, op.heads, order) for name, x, width, order in rows]
    rank = len(sources[1].spec.shape)
    return [parts[0], g.transpose(parts[1], [*range(rank - 2), rank - 1, rank - 2]), parts[2]]


def split(g: Graph, x: str, count: int, size: int) -> list[str]:
    """Pieces of one size along the last axis."""
    return g.nodes_of("Split", x, g.constant([size] * count, np.int64), outputs=count, axis=-1)


@emits(ScaledDotProductAttention)
def attention(
    g: Graph, op: ScaledDotProductAttention, q: Value, k: Value | None, v: Value | None, mask: Value | None,
    seed: Value | None,
) -> Result:  # fmt: skip
    """Softmax(scale q k^T + mask) v, in four nodes and the moves of the heads."""
    if seed is not None:
        return NOT_WRITTEN
    rows, keys = q.spec.shape[-2], (q if k is None else k).spec.shape[-2]
    names = attention_inputs(g, op, q, k, v)
    scores = g.node("MatMul", g.node("Mul", names[0], g.like(op.scale, q.spec)), names[1])
    if op.is_causal:
        scores = g.node("Where", causal(g, rows, keys), scores, g.like(-math.inf, q.spec))
    if mask is not None:
        scores = masked(g, scores, mask, q)
    y = g.node("MatMul", g.node("Softmax", scores, axis=-1), names[2])
    if op.heads:
        lead = len(q.spec.shape) - 2
        y = g.transpose(y, [*range(lead), lead + 1, lead, lead + 2])
        width = q.spec.shape[-1] // 3 if v is None else v.spec.shape[-1]
        y = g.node("Reshape", y, g.constant([*[0] * (lead + 1), width], np.int64))
    return y, logarithms(g, scores) if g.read(1) else None


def masked(g: Graph, scores: str, mask: Value, q: Value) -> str:
    """Keys kept out where a bool mask is False; a float mask is added."""
    if mask.spec.dtype == np.bool_:
        return g.node("Where", g.plain(mask), scores, g.like(-math.inf, q.spec))
    return g.node("Add", scores, g.plain(mask))


def causal(g: Graph, rows: int, keys: int) -> str:
    """The lower triangle [rows, keys] of bools."""
    if not (symbolic(rows) or symbolic(keys)):
        return g.constant(np.tri(rows, keys, dtype=np.bool_))
    g.require(14)
    ones = g.node("Expand", g.constant(np.ones((1, 1), np.float32)), g.sizes([rows, keys]))
    return g.cast(g.node("Trilu", ones, upper=0), np.bool_)


def logarithms(g: Graph, scores: str) -> str:
    """The logarithms of the sums that the softmax divides by."""
    return g.reduce("ReduceLogSumExp", scores, [-1], keepdims=False)
