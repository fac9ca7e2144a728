"""Conditionals and loops as If and Loop; prints and assertions are left out, for ONNX has no effects."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pdl.export.onnx.graph import Body, Graph
from pdl.export.onnx.registry import Result, emits
from pdl.ops.base import Spec
from pdl.program.block import Block
from pdl.program.control import Assert, Call, Cond, Print, While
from pdl.program.ir import Value


def inlined(g: Graph, block: Block, inputs: Sequence[Value]) -> list[Value]:
    """Write a copy of a block's nodes here; its outputs."""
    from pdl.export.onnx.walk import write_nodes

    program = block.program.copy()
    for value, count in program.uses().items():
        g.uses[value] = g.uses.get(value, 0) + count
    for inner, outer in zip(program.inputs, inputs, strict=True):
        g.same(inner, outer)
    write_nodes(g, program.nodes)
    return [v for v in program.outputs if v is not None]


def named(g: Graph, value: Value) -> str:
    """A value as an output of the graph inside a node: made by a node there."""
    return g.node("Identity", g.plain(value))


def branch(g: Graph, block: Block, inputs: Sequence[Value]) -> Body:
    """A branch of If: it reads values of the graph around it by their names."""
    inner = Graph(g.opset, outer=g)
    inner.scope = g.scope
    outputs = [(named(inner, v), v.spec) for v in inlined(inner, block, inputs)]
    return Body(inner.nodes, [], outputs)


@emits(Cond)
def cond(g: Graph, op: Cond, pred: Value, *xs: Value) -> Result:
    """If."""
    name, outputs = g.plain(pred), g.outputs
    then, other = branch(g, op.then, xs), branch(g, op.other, xs)
    return tuple(g.nodes_of("If", name, outputs=len(outputs), then_branch=then, else_branch=other))


@emits(While)
def loop(g: Graph, op: While, *ins: Value) -> Result:
    """Loop; the number of iterations is one more value that it carries."""
    state, captured = ins[: op.count], ins[op.count :]
    (start,) = inlined(g, op.test, (*state, *captured))
    trips = None if op.maximum is None else g.constant(op.maximum, np.int64)
    body = _body(g, op, state, captured)
    given = [trips, g.plain(start), *[g.plain(s) for s in state], g.constant(0, np.int64)]
    return tuple(g.nodes_of("Loop", *given, outputs=op.count + 1, body=body))


def _body(g: Graph, op: While, state: Sequence[Value], captured: Sequence[Value]) -> Body:
    inner = Graph(g.opset, outer=g)
    inner.scope = g.scope
    specs = [Spec((), np.dtype(np.int64)), Spec((), np.dtype(np.bool_)), *[s.spec for s in state]]
    specs.append(Spec((), np.dtype(np.int64)))
    names = [g.names.unique(f"{g.scope}/{n}" if g.scope else n) for n in ("trip", "go", *["state"] * op.count, "count")]
    carried = [Value(s.spec) for s in state]
    for value, name in zip(carried, names[2:-1], strict=True):
        inner.put(value, name)
    after = inlined(inner, op.body, (*carried, *captured))
    (go,) = inlined(inner, op.test, (*after, *captured))
    count = inner.node("Add", names[-1], inner.constant(1, np.int64))
    outputs = [(named(inner, v), v.spec) for v in (go, *after)]
    return Body(inner.nodes, list(zip(names, specs, strict=True)), [*outputs, (count, specs[-1])])


@emits(Call)
def call(g: Graph, op: Call, *ins: Value) -> Result:
    """The nodes of the function, written here."""
    for outer, inner in zip(g.outputs, inlined(g, op.block, ins), strict=False):
        g.same(outer, inner)
    return None


@emits(Print, Assert)
def left_out(g: Graph, op: Print | Assert, *xs: Value) -> Result:
    """True, which these give."""
    g.notes.append(f"{type(op).__name__} is left out: ONNX has no effects")
    return g.constant(True)
