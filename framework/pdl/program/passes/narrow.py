"""What is cut away is not computed: a slice moves before the row-wise ops that it cuts.

A classifier that reads the first token of an encoder, or the last of a language model, needs one row of the last
layer, not all: norm(linear(x))[:, 0] = norm(linear(x[:, 0])), and of attention one query with all keys.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pdl.ops.activation import Activation
from pdl.ops.attention import ScaledDotProductAttention
from pdl.ops.base import Op
from pdl.ops.elementwise import Clip
from pdl.ops.index import GetItem, Key
from pdl.ops.inference import LinearThen
from pdl.ops.layer_norm import AddLayerNorm, LayerNorm
from pdl.ops.linalg import Linear
from pdl.ops.table import BinaryOp, UnaryOp
from pdl.program.ir import Node, Program, Value
from pdl.program.passes.cleanup import merge_equal
from pdl.program.passes.measure import ROWS
from pdl.program.passes.rewrite import Rewriter, rewrite, same_shape

_ALL = (None, None, None)
#: how many of an op's first inputs are arrays of rows
_ROWS: dict[type[Op], int] = {Linear: 1, LayerNorm: 1, AddLayerNorm: 2}


def _cut(node: Node, walk: Rewriter) -> tuple[Node, Key] | None:
    """(the maker, the key) of a slice, the only reader of what was made, of half the rows at most, of whole rows."""
    maker = None if not isinstance(node.op, GetItem) or node.inputs[0] is None else node.inputs[0].node
    if maker is None or walk.single(node.inputs[0], type(maker.op)) is None or not isinstance(node.op, GetItem):
        return None
    value, key = maker.outputs[0], node.op.key
    rank = len(value.spec.shape)
    if node.inputs[0] is not value or None in key or not walk.dead(maker.outputs[1:]):
        return None
    if (len(key) == rank and key[-1] != _ALL) or 2 * node.outputs[0].nbytes > value.nbytes:
        return None
    return maker, key


def slice_rows(node: Node, walk: Rewriter) -> Value | None:
    """op(x)[key] = op(x[key]) for ops that treat each row alone."""
    found = _cut(node, walk)
    if found is None:
        return None
    maker, key = found
    inputs, op = list(maker.inputs), maker.op
    rows = list(range(_ROWS.get(type(op), 0)))
    if isinstance(op, LinearThen):
        rows = [0, 3]
    elif isinstance(op, UnaryOp | Activation | Clip | BinaryOp):
        rows = [i for i, v in enumerate(inputs) if v is not None and _like(v, maker.outputs[0])]
        if any(i not in rows and not _row(v) for i, v in enumerate(inputs)):
            return None
    if not rows or (isinstance(op, AddLayerNorm) and op.dropout_p):
        return None
    for i in rows:
        inputs[i] = None if inputs[i] is None else walk.emit(GetItem(key), inputs[i])
    return walk.emit(op, *inputs)


def _like(value: Value, out: Value) -> bool:
    return same_shape(value.spec.shape, out.spec.shape)


def _row(value: Value | None) -> bool:
    """Whether an operand has no axis but the last."""
    return value is not None and len(value.spec.shape) <= 1


def slice_queries(node: Node, walk: Rewriter) -> Value | None:
    """attention(q, k, v)[:, i] with that query alone."""
    found = _cut(node, walk)
    if found is None or not isinstance(found[0].op, ScaledDotProductAttention):
        return None
    (maker, key), op = found, found[0].op
    q, k, v, mask, seed = maker.inputs
    assert q is not None
    rank, entry = len(q.spec.shape), key[-1] if len(key) == len(q.spec.shape) - 1 else _ALL
    if not op.heads or op.is_causal or mask is not None or seed is not None or key[:-1] != (_ALL,) * (rank - 2):
        return None
    if not isinstance(entry, int) or type(entry) is not int:
        return None
    one = GetItem((*key[:-1], (entry, entry + 1 if entry != -1 else None, None)))
    parts = (walk.emit(one, q), k, v) if k is not None else _unpacked(q, one, walk)
    return walk.emit(GetItem((*key[:-1], 0)), walk.emit(op, *parts, None, None))


def _unpacked(x: Value, one: GetItem, walk: Rewriter) -> tuple[Value, Value, Value]:
    """The query that `one` cuts, all keys and all values of the three in x, the first from a product of its own."""
    layer = walk.single(x, Linear)
    width, arrays = x.spec.shape[-1] // 3, [walk.constant(v) for v in layer.inputs[1:]] if layer is not None else [None]
    if layer is None or arrays[0] is None or (layer.inputs[2] is not None and arrays[1] is None):
        return walk.emit(one, _columns(x, 0, width, walk)), _columns(x, 1, width, walk), _columns(x, 2, width, walk)
    first, rest = ([None if a is None else walk.capture(a[..., cut], v) for a, v in
                    zip(arrays, layer.inputs[1:], strict=True)] for cut in (np.s_[:width], np.s_[width:]))  # fmt: skip
    q = walk.emit(Linear(), walk.emit(one, layer.inputs[0]), *first)
    both = walk.emit(Linear(), layer.inputs[0], *rest)
    return q, _columns(both, 0, width, walk), _columns(both, 1, width, walk)


def _columns(x: Value, place: int, width: Any, walk: Rewriter) -> Value:
    """Part `place` of x along the last axis."""
    cut = (place * width, (place + 1) * width, None)
    return walk.emit(GetItem((*[_ALL] * (len(x.spec.shape) - 1), cut)), x)


def narrow_slices(program: Program) -> None:
    """Move slices in front of row-wise ops and of queries."""
    while rewrite(program, (slice_rows, slice_queries), ROWS):
        merge_equal(program)  # two readers of one value have cut it alike
