"""Passes that compute what is known before a program runs, and leave out what changes nothing.

In a program for inference every captured tensor is a constant, parameters included.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pdl.dims import symbolic
from pdl.dtype import bfloat16
from pdl.limits import check_time
from pdl.ops.base import OPS, Identity, Op, _quiet
from pdl.ops.broadcast import BroadcastTo
from pdl.ops.cast import AsType
from pdl.ops.dropout import Dropout
from pdl.ops.shape import Clone, ExpandDims, PermuteDims, Reshape, Squeeze
from pdl.ops.table import BinaryOp
from pdl.program.ir import Node, Program, Value
from pdl.program.passes.measure import moves_nothing
from pdl.program.passes.rewrite import Rewriter, Rule, on, rewrite, same_shape, same_spec
from pdl.program.verify import specs_of

GROWTH = 4  # a folded constant may be that many times its inputs,
SMALL = 1 << 16  # or have this many bytes
_RESHAPES: tuple[type[Op], ...] = (Reshape, ExpandDims, Squeeze)
_IDLE: tuple[type[Op], ...] = (Identity, Clone, AsType, Dropout, PermuteDims, *_RESHAPES, BroadcastTo)  # that may be


# -- constants ---------------------------------------------------------------------------------------------------------
def compute_constant(node: Node, walk: Rewriter) -> dict[Value, Value] | None:
    """The values of a node whose inputs are all known."""
    op = node.op
    if op.of_shapes:
        if any(v is not None and symbolic(v.spec.shape) for v in node.inputs):
            return None
        arrays = [None if v is None else np.broadcast_to(np.zeros((), v.spec.dtype), v.spec.shape) for v in node.inputs]
        made = _quiet.run(op.run, tuple(arrays))
        return {out: walk.capture(np.array(array), None) for out, array in zip(node.outputs, made, strict=True)}
    if op.stateful or op.effect or op.recorded or any(v is not None and v.tensor is None for v in node.inputs):
        return None
    arrays = [walk.constant(v) for v in node.inputs]
    if any(a is None and v is not None for a, v in zip(arrays, node.inputs, strict=True)):
        return None
    if any(symbolic(v.spec.shape) for v in node.outputs) or symbolic(tuple(getattr(op, n) for n in op.fields)):
        return None
    if sum(v.nbytes for v in node.outputs) > max(SMALL, GROWTH * sum(v.nbytes for v in node.inputs if v is not None)):
        return None
    check_time()
    made = _quiet.run(op.run, tuple(arrays))
    first = next((v for v in node.inputs if v is not None), None)
    return {out: walk.capture(np.array(array), first) for out, array in zip(node.outputs, made, strict=True)}


# -- what changes nothing ----------------------------------------------------------------------------------------------
@on(*_IDLE)
def drop_identity(node: Node, walk: Rewriter) -> Value | None:
    """x for an op that leaves x as it is: a cast to its own dtype, dropout with probability 0, an idle permutation."""
    x, op = node.inputs[0] if node.inputs else None, node.op
    if x is None or not isinstance(op, _IDLE):
        return None
    idle = (
        isinstance(op, Identity | Clone)
        or (isinstance(op, AsType) and op.dtype == x.spec.dtype)
        or (isinstance(op, Dropout) and op.p == 0)
        or (isinstance(op, PermuteDims) and _axes(op) == tuple(range(len(op.axes))))
        or (isinstance(op, (*_RESHAPES, BroadcastTo)) and same_shape(x.spec.shape, node.outputs[0].spec.shape))
    )
    return x if idle else None


#: neutral elements: of the right operand, and of the left one
_NEUTRAL: dict[str, tuple[float | None, ...]] = {
    "Add": (0.0, 0.0),
    "Subtract": (0.0, None),
    "Multiply": (1.0, 1.0),
    "Divide": (1.0, None),
    "Pow": (1.0, None),
}


def drop_neutral(node: Node, walk: Rewriter) -> Value | None:
    """x for x + 0, x - 0, x * 1, x / 1 and x^1."""
    for place, neutral in enumerate(_NEUTRAL.get(node.op.op_name, ())):
        x, number = node.inputs[place], node.inputs[1 - place]
        if neutral is None or x is None or walk.scalar(number) != neutral:
            continue
        if same_spec(x.spec, node.outputs[0].spec):
            return x
    return None


# -- two into one ------------------------------------------------------------------------------------------------------
@on(*_RESHAPES)
def merge_reshapes(node: Node, walk: Rewriter) -> Value | None:
    """One reshape for two in a row."""
    before = walk.made_by(node.inputs[0], *_RESHAPES) if isinstance(node.op, _RESHAPES) else None
    if before is None:
        return None
    op = node.op if isinstance(node.op, Reshape) else Reshape(node.outputs[0].spec.shape)
    return walk.emit(op, before.inputs[0])


@on(PermuteDims)
def merge_permutations(node: Node, walk: Rewriter) -> Value | None:
    """One permutation for two in a row; the value itself where they undo each other."""
    before = walk.made_by(node.inputs[0], PermuteDims) if isinstance(node.op, PermuteDims) else None
    if before is None:
        return None
    first, second = _axes(before.op), _axes(node.op)
    both = tuple(first[a] for a in second)
    return before.inputs[0] if both == tuple(range(len(both))) else walk.emit(PermuteDims(both), before.inputs[0])


@on(PermuteDims)
def permutation_of_ones(node: Node, walk: Rewriter) -> Value | None:
    """A reshape for a permutation that moves nothing but dimensions of size 1: no byte changes its place."""
    x = node.inputs[0] if isinstance(node.op, PermuteDims) else None
    if x is None or not moves_nothing(_axes(node.op), x.spec.shape):
        return None
    return walk.emit(Reshape(node.outputs[0].spec.shape), x)


@on(AsType)
def merge_casts(node: Node, walk: Rewriter) -> Value | None:
    """One cast for two where the first loses nothing."""
    op = node.op
    before = walk.made_by(node.inputs[0], AsType) if isinstance(op, AsType) else None
    x = None if before is None else before.inputs[0]
    if x is None or before is None or not isinstance(before.op, AsType) or not lossless(x.spec.dtype, before.op.dtype):
        return None
    return walk.emit(op, x)


def lossless(source: Any, target: Any) -> bool:
    """Whether every value of one dtype is a value of the other."""
    if source == bfloat16:
        return target in (bfloat16, np.dtype(np.float32), np.dtype(np.float64))
    if target == bfloat16:
        return source == np.bool_
    wide_integer = source.kind in "iu" and source.itemsize == 8
    return bool(np.can_cast(source, target, "safe")) and not (wide_integer and target.kind in "fc")


@on(BinaryOp)
def skip_broadcast(node: Node, walk: Rewriter) -> Value | None:
    """Arithmetic broadcasts by itself: a `BroadcastTo` in front of it is left out where the result keeps its shape."""
    if not isinstance(node.op, BinaryOp):
        return None
    for place, value in enumerate(node.inputs):
        before = walk.made_by(value, BroadcastTo)
        if before is None:
            continue
        inputs = [*node.inputs]
        inputs[place] = before.inputs[0]
        if same_shape(specs_of(node.op, inputs)[0].shape, node.outputs[0].spec.shape):
            return walk.emit(node.op, *inputs)
    return None


def _axes(op: Any) -> tuple[int, ...]:
    return tuple(a % len(op.axes) for a in op.axes)


def plain_power(node: Node, walk: Rewriter) -> Value | None:
    """x^2, x^(1/2), x^(-1/2) and 1 / x have kernels of their own, as in `pdl.pow`."""
    x, name = node.inputs[0] if node.inputs else None, node.op.op_name
    if x is None or name not in ("Pow", "Divide") or x.spec.dtype.kind != "f":
        return None
    exponent = walk.scalar(node.inputs[1])
    if name == "Divide":
        return walk.emit(OPS["Reciprocal"](), node.inputs[1]) if _is_one(node, walk) else None
    kernel = _POWERS.get(math.nan if exponent is None else exponent)
    if kernel is None or not same_shape(x.spec.shape, node.outputs[0].spec.shape):
        return None
    return walk.emit(OPS[kernel](), x)


_POWERS = {2.0: "Square", 0.5: "Sqrt", -0.5: "Rsqrt", -1.0: "Reciprocal"}


def _is_one(node: Node, walk: Rewriter) -> bool:
    divisor = node.inputs[1]
    fits = divisor is not None and same_spec(divisor.spec, node.outputs[0].spec)
    return fits and walk.scalar(node.inputs[0]) == 1


SIMPLE: tuple[Rule, ...] = (
    compute_constant, drop_identity, drop_neutral, merge_reshapes, merge_permutations, merge_casts, skip_broadcast,
    plain_power,
)  # fmt: skip


def fold_constants(program: Program) -> None:
    """Known values are computed, idle ops dropped, pairs of reshapes, permutations and casts merged."""
    rewrite(program, SIMPLE)
