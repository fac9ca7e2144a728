"""Layer norm and RMS norm written in means, squares and roots become one op."""

from __future__ import annotations

import numpy as np

from pdl.ops.base import OPS
from pdl.ops.layer_norm import LayerNorm
from pdl.ops.norm import GroupNorm
from pdl.ops.reduce import Mean
from pdl.ops.shape import ExpandDims, PermuteDims, Reshape, Squeeze
from pdl.program.ir import Node, Program, Value
from pdl.program.passes.affine import row_of
from pdl.program.passes.measure import GROUPS, moves_nothing
from pdl.program.passes.rewrite import Rewriter, on, rewrite, same_shape, same_spec

Add, Subtract, Multiply, Divide, Square, Sqrt, Rsqrt, Reciprocal = (
    OPS[n] for n in ("Add", "Subtract", "Multiply", "Divide", "Square", "Sqrt", "Rsqrt", "Reciprocal")
)


def normalised(node: Node, walk: Rewriter) -> Value | None:
    """d / sqrt(mean(d^2) + eps) over the last axis: layer norm where d = x - mean(x), RMS norm where it is x."""
    for d, root in _quotients(node, walk):
        variance = walk.made_by(root, Add)
        for square, number in (variance.inputs, variance.inputs[::-1]) if variance is not None else ():
            eps = walk.scalar(number)
            if d is not None and eps is not None and eps > 0 and _squared(_mean_of(square, walk), walk) is d:
                x, centred = _centred(d, walk)
                return walk.emit(LayerNorm(eps, centred), x, None, None)
    return None


def _quotients(node: Node, walk: Rewriter) -> list[tuple[Value | None, Value | None]]:
    """(d, v) for what may be d / sqrt(v)."""
    if type(node.op) is Divide:
        root = walk.made_by(node.inputs[1], Sqrt)
        return [] if root is None else [(node.inputs[0], root.inputs[0])]
    found: list[tuple[Value | None, Value | None]] = []
    for d, factor in (node.inputs, node.inputs[::-1]) if type(node.op) is Multiply else ():
        inverse = walk.made_by(factor, Rsqrt, Reciprocal)
        if inverse is not None and type(inverse.op) is Reciprocal:
            inverse = walk.made_by(inverse.inputs[0], Sqrt)
        if inverse is not None:
            found.append((d, inverse.inputs[0]))
    return found


def _mean_of(value: Value | None, walk: Rewriter) -> Value | None:
    """x of mean(x) over the last axis, which is kept."""
    node = walk.made_by(value, Mean)
    if node is None or node.inputs[0] is None or not isinstance(node.op, Mean) or not node.op.keepdims:
        return None
    last = len(node.inputs[0].spec.shape) - 1
    return node.inputs[0] if node.op.axes in ((-1,), (last,)) else None


def _squared(value: Value | None, walk: Rewriter) -> Value | None:
    """x of x^2."""
    node = walk.made_by(value, Square, Multiply)
    if node is None or (type(node.op) is Multiply and node.inputs[0] is not node.inputs[1]):
        return None
    return node.inputs[0]


def _centred(d: Value, walk: Rewriter) -> tuple[Value, bool]:
    """(x, True) for d = x - mean(x), else (d, False)."""
    node = walk.made_by(d, Subtract)
    if node is not None and node.inputs[0] is not None and _mean_of(node.inputs[1], walk) is node.inputs[0]:
        return node.inputs[0], True
    return d, False


@on(Add, Multiply)
def row_behind_norm(node: Node, walk: Rewriter) -> Value | None:
    """norm(x) * row as its scale, norm(x) + row as its shift."""
    if type(node.op) not in (Add, Multiply):
        return None
    out = node.outputs[0].spec
    for value, other in (node.inputs, node.inputs[::-1]):
        norm, row = walk.single(value, LayerNorm, GroupNorm), row_of(walk.constant(other), out.shape)
        if norm is None or value is None or row is None or not same_spec(value.spec, out):
            continue
        x, scale, shift = norm.inputs
        new = walk.capture(row.astype(out.dtype), other)
        if type(node.op) is Add and shift is None:
            return walk.emit(norm.op, x, scale, new)
        if type(node.op) is Multiply and scale is None and shift is None:
            return walk.emit(norm.op, x, new, None)
    return None


def norm_of_channels(node: Node, walk: Rewriter) -> Value | None:
    """A norm of whole samples [N, C, ...], written as one of [N, C ..., 1], as the norm of one group of C channels."""
    out = node.outputs[0].spec
    norm = None if len(out.shape) < 3 or type(out.shape[1]) is not int else _behind_reshapes(node, walk)
    if norm is None or not isinstance(norm.op, GroupNorm) or not walk.dead(norm.outputs[1:]):
        return None
    x, *rows = norm.inputs
    if x is None or len(x.spec.shape) != 3 or not same_shape(x.spec.shape, (out.shape[0], x.spec.shape[1], 1)):
        return None
    numbers = [None if v is None else walk.scalar(v) for v in rows]
    if any(number is None and v is not None for number, v in zip(numbers, rows, strict=True)):
        return None
    before = x
    while not same_spec(before.spec, out):
        if before.node is None or not _reshapes(before.node) or before.node.inputs[0] is None:
            return None
        before = before.node.inputs[0]
    rank, channels = len(out.shape), out.shape[1]
    last = walk.emit(PermuteDims((0, *range(2, rank), 1)), before)
    scale, shift = (
        None if number in (None, neutral) else walk.capture(np.full(channels, number, out.dtype))
        for number, neutral in zip(numbers, (1, 0), strict=True)
    )
    return walk.emit(PermuteDims((0, rank - 1, *range(1, rank - 1))), walk.emit(norm.op, last, scale, shift))


def _behind_reshapes(node: Node, walk: Rewriter) -> Node | None:
    """The node whose value one or more reshapes, of which this is the last, give another shape."""
    found: Node | None = node
    while found is not None and _reshapes(found):
        found = None if found.inputs[0] is None or walk.uses[found.inputs[0]] != 1 else found.inputs[0].node
    return None if found is node else found


def _reshapes(node: Node) -> bool:
    """Whether a node moves no number."""
    if isinstance(node.op, PermuteDims) and node.inputs[0] is not None:
        return moves_nothing([a % len(node.op.axes) for a in node.op.axes], node.inputs[0].spec.shape)
    return isinstance(node.op, Reshape | ExpandDims | Squeeze)


def name_group_norms(program: Program) -> None:
    """Group norm of one group, which exporters write as an instance norm of reshaped samples, by its channels."""
    rewrite(program, (norm_of_channels,), GROUPS)


def name_norms(program: Program) -> None:
    """Layer norm and RMS norm written in arithmetic become one op each, with scale and shift."""
    rewrite(program, (normalised, row_behind_norm))
