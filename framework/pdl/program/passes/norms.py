"""Layer norm and RMS norm written in means, squares and roots become one op."""

from __future__ import annotations

from pdl.ops.base import OPS
from pdl.ops.layer_norm import LayerNorm
from pdl.ops.reduce import Mean
from pdl.program.ir import Node, Program, Value
from pdl.program.passes.affine import row_of
from pdl.program.passes.rewrite import Rewriter, rewrite, same_spec

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


def row_behind_norm(node: Node, walk: Rewriter) -> Value | None:
    """norm(x) * row as its scale, norm(x) + row as its shift."""
    if type(node.op) not in (Add, Multiply):
        return None
    out = node.outputs[0].spec
    for value, other in (node.inputs, node.inputs[::-1]):
        norm, row = walk.single(value, LayerNorm), row_of(walk.constant(other), out.shape)
        if norm is None or value is None or row is None or not same_spec(value.spec, out):
            continue
        x, scale, shift = norm.inputs
        new = walk.capture(row.astype(out.dtype), other)
        if type(node.op) is Add and shift is None:
            return walk.emit(norm.op, x, scale, new)
        if type(node.op) is Multiply and scale is None and shift is None:
            return walk.emit(norm.op, x, new, None)
    return None


def name_norms(program: Program) -> None:
    """Layer norm and RMS norm written in arithmetic become one op each, with scale and shift."""
    rewrite(program, (normalised, row_behind_norm))
