"""Attention written as two products around a softmax becomes one op, whose scores are never whole in memory.

    softmax(scale q k^T (+ mask)) v,  the scale at the scores, at q, at k, or at two of them; also one for each head

Then the heads: where q, k and v are cut from [N, L, heads E] (one array each, or one for all three) and the result is
put together again, the op reads and writes those arrays as they are.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from pdl.dims import symbolic
from pdl.dtype import bfloat16, bool_
from pdl.ops.attention import ScaledDotProductAttention
from pdl.ops.base import OPS
from pdl.ops.elementwise import Where
from pdl.ops.index import GetItem
from pdl.ops.linalg import Linear, MatMul
from pdl.ops.shape import PermuteDims, Reshape
from pdl.ops.softmax import Softmax
from pdl.program.ir import Node, Program, Value
from pdl.program.passes.fold import drop_identity, merge_permutations
from pdl.program.passes.rewrite import Rewriter, on, rewrite, same_shape, same_spec

Add, Multiply, Divide = OPS["Add"], OPS["Multiply"], OPS["Divide"]


class Scaled(NamedTuple):
    """factor * value."""

    value: Value
    factor: float


def _scaled(value: Value, walk: Rewriter) -> Scaled:
    """What is left of a value without the constant numbers that it is multiplied with or divided by."""
    factor = 1.0
    while (node := walk.single(value, Multiply, Divide)) is not None:
        a, b = node.inputs
        number = walk.scalar(b)
        if number is None and type(node.op) is Multiply:
            (a, b), number = (b, a), walk.scalar(a)
        if number is None or a is None or not same_shape(a.spec.shape, value.spec.shape):
            break
        value, factor = a, factor * number if type(node.op) is Multiply else factor / number
    return Scaled(value, factor)


class Scores(NamedTuple):
    """scale heads q k^T + mask, k given as k^T; heads a factor for each head."""

    q: Value
    k_transposed: Value
    scale: float
    heads: Value | None
    mask: Value | None


def _scores(value: Value | None, walk: Rewriter) -> Scores | None:
    """The parts of what softmax is applied to."""
    mask = None
    masked = walk.single(value, Add, Where)
    if masked is not None:
        value, mask = _masked(masked, walk)
    inner = None if mask is None or mask.spec.dtype == bool_ else walk.single(value, Add)
    if inner is not None:  # a bias of positions and a mask of windows
        value, bias = _masked(inner, walk)
        if bias is None or not _broadcasts(bias.spec.shape, inner.outputs[0].spec.shape):
            return None
        mask = walk.emit(Add(), bias, mask)
    if value is None:
        return None
    value, outer, heads = _unscaled(value, walk)
    product = walk.single(value, MatMul)
    if product is None or any(v is None for v in product.inputs):
        return None
    q, k = (_scaled(v, walk) for v in product.inputs if v is not None)
    return Scores(q.value, k.value, outer * q.factor * k.factor, heads, mask)


def _unscaled(value: Value, walk: Rewriter) -> tuple[Value, float, Value | None]:
    """(scores, factor, heads) of factor * heads * scores, heads [heads, 1, 1] as attention by cosines has them."""
    value, factor = _scaled(value, walk)
    node = walk.single(value, Multiply)
    for scores, heads in () if node is None else (node.inputs, node.inputs[::-1]):
        if scores is None or heads is None or walk.constant(heads) is None:
            continue
        if heads.spec.shape[-2:] == (1, 1) and _broadcasts(heads.spec.shape, scores.spec.shape):
            scores, more = _scaled(scores, walk)
            return scores, factor * more, heads
    return value, factor, None


def _masked(node: Node, walk: Rewriter) -> tuple[Value | None, Value | None]:
    """(scores, mask) of scores + mask, and of where(mask, scores, -inf)."""
    if type(node.op) is Where:
        keep, scores, other = node.inputs
        return (scores, keep) if walk.scalar(other) == -math.inf else (None, None)
    for scores, mask in (node.inputs, node.inputs[::-1]):
        inner = scores if scores is None else _unscaled(scores, walk)[0]
        if walk.single(inner, MatMul) is not None or walk.single(scores, Add) is not None:
            return scores, mask
    return None, None


def add_without_reshape(node: Node, walk: Rewriter) -> Value | None:
    """reshape(reshape(x) + c) = x + c where the reshapes only put a dimension of size 1 in front, and take it away."""
    add = walk.single(node.inputs[0], Add) if isinstance(node.op, Reshape | OPS["Squeeze"]) else None
    for value, constant in () if add is None else (add.inputs, add.inputs[::-1]):
        before = walk.single(value, Reshape, OPS["ExpandDims"])
        array = walk.constant(constant)
        if before is None or array is None or before.inputs[0] is None:
            continue
        shape, x = before.outputs[0].spec.shape, before.inputs[0]
        if shape[0] != 1 or not same_shape(shape[1:], x.spec.shape) or not same_spec(x.spec, node.outputs[0].spec):
            continue
        if array.ndim <= len(shape) and same_shape(add.outputs[0].spec.shape, shape):  # type: ignore[union-attr]
            return walk.emit(Add(), x, walk.capture(array[0] if array.ndim == len(shape) else array, constant))
    return None


@on(MatMul)
def name_attention(node: Node, walk: Rewriter) -> Value | None:
    """softmax(scale q k^T + mask) v."""
    if not isinstance(node.op, MatMul):
        return None
    p, v = node.inputs
    softmax = walk.single(p, Softmax)
    if softmax is None or p is None or v is None or not isinstance(softmax.op, Softmax):
        return None
    rank = len(p.spec.shape)
    if softmax.op.axis not in (-1, rank - 1) or rank < 3 or (p.spec.dtype.kind != "f" and p.spec.dtype != bfloat16):
        return None
    found = _scores(softmax.inputs[0], walk)
    if found is None or len({len(x.spec.shape) for x in (found.q, found.k_transposed, v)}) != 1:
        return None
    mask = found.mask
    if mask is not None and (mask.spec.dtype not in (bool_, p.spec.dtype) or len(mask.spec.shape) > rank):
        return None
    if mask is not None and not _broadcasts(mask.spec.shape, p.spec.shape):
        return None
    k = walk.emit(PermuteDims((*range(rank - 2), rank - 1, rank - 2)), found.k_transposed)
    q = found.q if found.heads is None else walk.emit(Multiply(), found.q, found.heads)
    return walk.emit(ScaledDotProductAttention(found.scale), q, k, v, mask, None)


def _broadcasts(small: tuple[int, ...], large: tuple[int, ...]) -> bool:
    """Whether a mask's shape broadcasts to that of the scores, and leaves it as it is, for all sizes."""
    last = large[len(large) - len(small) :]
    return all((type(a) is int and a == 1) or same_shape((a,), (b,)) for a, b in zip(small, last, strict=True))


# -- heads -------------------------------------------------------------------------------------------------------------
_SWAP = (0, 2, 1, 3)
_ALL = (None, None, None)


@on(Reshape)
def join_heads(node: Node, walk: Rewriter) -> Value | None:
    """[N, L, heads E] in, [N, L, heads D] out, where q, k and v are cut into heads and the result is joined."""
    swapped = walk.single(node.inputs[0], PermuteDims) if isinstance(node.op, Reshape) else None
    attention = None if swapped is None else walk.single(swapped.inputs[0], ScaledDotProductAttention)
    if swapped is None or attention is None or not isinstance(attention.op, ScaledDotProductAttention):
        return None
    q, k, v, mask, seed = attention.inputs
    op, y = attention.op, swapped.outputs[0].spec.shape
    if swapped.op.axes != _SWAP or op.heads or not same_shape(node.outputs[0].spec.shape, (*y[:2], y[2] * y[3])):  # type: ignore[attr-defined]
        return None
    whole = _packed([q, k, v], walk)
    sources = [whole, None, None] if whole is not None else [_joined(x, walk) for x in (q, k, v)]
    if sources[0] is None or (whole is None and None in sources) or type(y[2]) is not int:
        return None
    fused = ScaledDotProductAttention(op.scale, y[2], op.is_causal, op.dropout_p)
    return walk.emit(fused, *sources, mask, seed)


def _joined(value: Value | None, walk: Rewriter) -> Value | None:
    """x [N, L, heads E] of a value [N, heads, L, E] that is cut from it."""
    permuted = walk.made_by(value, PermuteDims)
    cut = None if permuted is None else walk.made_by(permuted.inputs[0], Reshape)
    if permuted is None or cut is None or permuted.op.axes != _SWAP:  # type: ignore[attr-defined]
        return None
    x, shape = cut.inputs[0], cut.outputs[0].spec.shape
    fits = x is not None and same_shape(x.spec.shape, (*shape[:2], shape[2] * shape[3]))
    return x if fits else None


def _packed(values: list[Value | None], walk: Rewriter) -> Value | None:
    """x [N, L, 3 heads E] of q, k and v [N, heads, L, E] that are its thirds."""
    thirds = [_third(v, walk) for v in values]
    cut = None if thirds[0] is None else thirds[0][0]
    if cut is None or any(third != (cut, place) for place, third in enumerate(thirds)):
        return None
    x, shape = cut.inputs[0], cut.outputs[0].spec.shape
    fits = x is not None and shape[2] == 3 and same_shape(x.spec.shape, (*shape[:2], 3 * shape[3] * shape[4]))
    return x if fits else None


def _third(value: Value | None, walk: Rewriter) -> tuple[Node, int] | None:
    """(the reshape to [N, L, 3, heads, E], i) of a value [N, heads, L, E] that is its part i, permuted or cut first."""
    item = walk.made_by(value, GetItem)
    axes: tuple[int, ...] = (2, 0, 3, 1, 4)
    if item is not None:
        permuted, place = walk.made_by(item.inputs[0], PermuteDims), 0
    else:
        permuted, axes, place = walk.made_by(value, PermuteDims), _SWAP, 2
        item = None if permuted is None else walk.made_by(permuted.inputs[0], GetItem)
    if permuted is None or item is None or permuted.op.axes != axes:  # type: ignore[attr-defined]
        return None
    cut = walk.made_by((permuted if place == 0 else item).inputs[0], Reshape)
    key = [*item.op.key, *[_ALL] * 5][:5]  # type: ignore[attr-defined]
    if cut is None or not isinstance(key[place], int) or any(k != _ALL for i, k in enumerate(key) if i != place):
        return None
    return cut, key[place]


@on(ScaledDotProductAttention)
def one_projection(node: Node, walk: Rewriter) -> dict[Value, Value] | None:
    """One linear layer for those of q, k and v where all read the same rows."""
    op = node.op
    if not isinstance(op, ScaledDotProductAttention) or not op.heads or not walk.dead(node.outputs[1:]):
        return None
    layers = [walk.single(v, Linear) for v in node.inputs[:3]]
    sources = {layer.inputs[0] for layer in layers if layer is not None}
    if None in layers or len(sources) != 1:
        return None
    weights, biases = zip(*((walk.constant(n.inputs[1]), walk.constant(n.inputs[2])) for n in layers if n), strict=True)
    if any(w is None or w.shape != weights[0].shape for w in weights) or len({b is None for b in biases}) != 1:
        return None
    if any(n is not None and n.inputs[2] is not None for n in layers) and biases[0] is None:
        return None
    first = layers[0]
    assert first is not None
    w = walk.capture(np.concatenate(weights, axis=1), first.inputs[1])
    b = None if biases[0] is None else walk.capture(np.concatenate(biases), first.inputs[2])
    return {node.outputs[0]: walk.emit(op, walk.emit(Linear(), *sources, w, b), None, None, *node.inputs[3:])}


@on(Reshape, OPS["Squeeze"])
def slice_and_squeeze(node: Node, walk: Rewriter) -> Value | None:
    """x[i] for x[i : i + 1] without that dimension."""
    before = walk.single(node.inputs[0], GetItem) if isinstance(node.op, Reshape | OPS["Squeeze"]) else None
    if before is None or not isinstance(before.op, GetItem) or None in before.op.key or before.inputs[0] is None:
        return None
    key, shape, wanted = before.op.key, before.outputs[0].spec.shape, node.outputs[0].spec.shape
    places = (place for place, entry in enumerate(key) if isinstance(entry, tuple))
    for axis, place in enumerate(places):  # of the slice, and in the key
        at = _only(key[place], before.inputs[0].spec.shape[place])
        if at is not None and same_shape((1, *wanted), (shape[axis], *shape[:axis], *shape[axis + 1 :])):
            return walk.emit(GetItem((*key[:place], at, *key[place + 1 :])), before.inputs[0])
    return None


def _only(entry: Any, n: int) -> int | None:
    """The first place that a slice takes of `n`, where it is known whatever the size; None for whole dimensions."""
    start, _, step = entry
    if entry == _ALL or symbolic(entry):
        return None
    if symbolic((n,)):
        return (start or 0) if step in (None, 1) else None
    return int(slice(*entry).indices(n)[0])


def fuse_attention(program: Program) -> None:
    """Attention in one op, heads cut and joined inside it."""
    rewrite(
        program, (slice_and_squeeze, add_without_reshape, name_attention, merge_permutations, drop_identity, join_heads)
    )


def join_projections(program: Program) -> None:
    """One product where q, k and v come from three."""
    rewrite(program, (one_projection,))
