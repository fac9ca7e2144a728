"""Ops that training fuses, taken apart again: inference folds and fuses their parts in other ways.

A `NormConv` normalises what it reads, since batch statistics are known only after the convolution before it; given
statistics belong into that convolution's weights instead. What folds nowhere is put together again by later passes.
"""

from __future__ import annotations

from typing import cast

from pdl.ops.activation import _activation_of
from pdl.ops.base import OPS
from pdl.ops.batchnorm import ACTIVATIONS, BatchNormEval
from pdl.ops.conv import Conv
from pdl.ops.epilogue import ConvAct, LinearAct, keeps_input
from pdl.ops.linalg import Linear, MatMul
from pdl.ops.norm_conv import NormConv
from pdl.program.ir import Node, Program, Value
from pdl.program.passes.measure import PARTS
from pdl.program.passes.rewrite import Rewriter, on, rewrite

Add = OPS["Add"]


@on(NormConv)
def split_norm_conv(node: Node, walk: Rewriter) -> Value | None:
    """conv(f(norm(x))) in three ops."""
    op = node.op
    if not isinstance(op, NormConv) or op.statistics:
        return None
    x, *norm, w = node.inputs
    if x is None or w is None or x.spec.dtype != w.spec.dtype:
        return None
    if norm[0] is not None:
        x = walk.emit(BatchNormEval(op.eps), x, *norm, None)
        x = _activated(op.activation, x, walk)
    return walk.emit(Conv(op.stride, op.padding, (1, 1), op.groups), x, w)


@on(BatchNormEval)
def split_norm(node: Node, walk: Rewriter) -> Value | None:
    """f(norm(x) + residual) in three ops."""
    op = node.op
    if not isinstance(op, BatchNormEval) or (op.activation is None and node.inputs[-1] is None):
        return None
    y = walk.emit(BatchNormEval(op.eps), *node.inputs[:-1], None)
    y = y if node.inputs[-1] is None else walk.emit(Add(), y, node.inputs[-1])
    return _activated(op.activation, y, walk)


def split_product(node: Node, walk: Rewriter) -> Value | dict[Value, Value] | None:
    """f(product + b (+ residual)) in its parts."""
    op = node.op
    if isinstance(op, LinearAct):
        z = walk.emit(Linear(), *node.inputs)
        y = walk.emit(_activation_of(op.activation, op.values), z)
        return {node.outputs[0]: y, node.outputs[1]: z} if keeps_input(op.activation) else y
    if not isinstance(op, ConvAct):
        return None
    *inputs, residual = node.inputs
    y = walk.emit(op.conv(), *(v for v in inputs if v is not None))
    y = y if residual is None else walk.emit(Add(), y, residual)
    return walk.emit(_activation_of(op.activation, op.values), y) if op.activation else y


@on(MatMul)
def matmul_is_linear(node: Node, walk: Rewriter) -> Value | None:
    """A product with a constant matrix is a linear layer."""
    if not isinstance(node.op, MatMul):
        return None
    x, w = node.inputs
    if walk.constant(w) is None or cast(Value, w).spec.shape[2:] or walk.constant(x) is not None:
        return None
    if cast(Value, x).spec.dtype.kind != "f" and cast(Value, x).spec.dtype.name != "bfloat16":
        return None
    return walk.emit(Linear(), x, w, None)


def _activated(name: str | None, x: Value, walk: Rewriter) -> Value:
    return x if name is None else walk.emit(ACTIVATIONS[name], x)


def lower(program: Program) -> None:
    """Take fused ops apart."""
    rewrite(program, (split_norm_conv, split_norm, split_product, matmul_is_linear), PARTS)
