"""Elementwise ops in a row become one `Chain`: what no product's epilogue took is done in one pass over memory."""

from __future__ import annotations

from typing import NamedTuple

from pdl.dtype import bfloat16, float32, float64
from pdl.kernels.chain import INPUTS, STEPS
from pdl.kernels.pointwise import BINARY
from pdl.ops.chain import Chain, Step
from pdl.ops.table import BinaryOp
from pdl.program.ir import Node, Program, Value
from pdl.program.passes.fuse_inference import function_of
from pdl.program.passes.rewrite import Rewriter, rewrite, same_shape, same_spec


class Steps(NamedTuple):
    """A chain: its inputs, the first of which the steps begin with."""

    inputs: tuple[Value, ...]
    steps: tuple[Step, ...]


def steps_of(node: Node | None, begin: Value | None = None) -> Steps | None:
    """An elementwise node as a chain; of two operands, it begins with `begin`, or with the first that is like y."""
    if node is None or node.outputs[0].spec.dtype not in (float32, float64, bfloat16):
        return None
    out = node.outputs[0].spec
    if isinstance(node.op, Chain):
        return Steps(tuple(v for v in node.inputs if v is not None), node.op.steps)
    function = function_of(node.op)
    if function is not None and node.inputs[0] is not None:
        return Steps((node.inputs[0],), ((function.name, *function.parameters),))
    if not isinstance(node.op, BinaryOp) or node.op.label not in BINARY:
        return None
    for place, value in enumerate(node.inputs):
        other = node.inputs[1 - place]
        if value is None or other is None or not same_spec(value.spec, out) or begin not in (None, value):
            continue
        if value is not other and beside(other, value):
            return Steps((value, other), ((node.op.label, 1, *([True] if place else [])),))
    return None


def beside(operand: Value, x: Value) -> bool:
    """Whether a chain on x takes the operand, for all sizes."""
    shape = x.spec.shape
    if operand.spec.dtype != x.spec.dtype or len(operand.spec.shape) > len(shape) or not shape:
        return False
    whole = (*[1] * (len(shape) - len(operand.spec.shape)), *operand.spec.shape)
    equal = [same_shape((a,), (b,)) for a, b in zip(whole, shape, strict=True)]
    if not all(e or (type(n) is int and n == 1) for e, n in zip(equal, whole, strict=True)):
        return False
    ahead = equal[:-1]
    cut = ahead.index(False) if False in ahead else len(ahead)
    rest = [type(n) is int and n == 1 for n in whole[cut:-1]]
    return all(rest) and (equal[-1] or all(ahead) or all(type(n) is int and n == 1 for n in whole))


def extend_chain(node: Node, walk: Rewriter) -> Value | None:
    """f(chain(x)), f with at most one other operand."""
    if isinstance(node.op, Chain):
        return None
    for value in node.inputs:
        before = steps_of(None if value is None else walk.single(value, *_kinds(value)))
        last = None if before is None else steps_of(node, value)
        if value is None or before is None or last is None or node.inputs.count(value) != 1:
            continue
        if not same_spec(before.inputs[0].spec, node.outputs[0].spec):
            continue
        joined = _join(before, last)
        if len(joined.inputs) <= INPUTS and len(joined.steps) <= STEPS and _one_cut(joined):
            return walk.emit(Chain(joined.steps), *joined.inputs)
    return None


def _kinds(value: Value) -> tuple[type, ...]:
    return () if value.node is None else (type(value.node.op),)


def _join(first: Steps, last: Steps) -> Steps:
    """The steps one after the other; an input that both read is one."""
    inputs, (name, *values) = list(first.inputs), last.steps[0]
    if len(last.inputs) == 1:
        return Steps(first.inputs, (*first.steps, last.steps[0]))
    if last.inputs[1] not in inputs:
        inputs.append(last.inputs[1])
    return Steps(tuple(inputs), (*first.steps, (name, inputs.index(last.inputs[1]), *values[1:])))


def _one_cut(steps: Steps) -> bool:
    """Whether all operands that repeat over inner dimensions repeat over the same ones."""
    shape = steps.inputs[0].spec.shape
    cuts: set[int] = set()
    for value in steps.inputs[1:]:
        if len(value.spec.shape) == len(shape) and same_shape(value.spec.shape[-1:], shape[-1:]):
            ahead = [same_shape((a,), (b,)) for a, b in zip(value.spec.shape[:-1], shape[:-1], strict=True)]
            if False in ahead and ahead.index(False) > 0:
                cuts.add(ahead.index(False))
    return len(cuts) <= 1


def make_chains(program: Program) -> None:
    """Join neighbouring elementwise ops whose value has no other use."""
    rewrite(program, (extend_chain,))
