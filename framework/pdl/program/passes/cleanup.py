"""Passes that remove equal nodes, unused nodes, unused positions of maxima, and aliases."""

from __future__ import annotations

from typing import Any

from pdl.ops.base import Identity
from pdl.ops.pool import AdaptiveMaxPool, MaxPool
from pdl.program.ir import Program, Value, symbolic


def remove_dead(program: Program) -> None:
    """Drop nodes and captures that neither an output nor an effect depends on."""
    needed: set[Value | None] = {*program.outputs, *[value for _, value in program.effects]}
    kept = []
    for node in reversed(program.nodes):
        if node.op.effect or not needed.isdisjoint(node.outputs):
            kept.append(node)
            needed.update(node.inputs)  # None, too, which is no value
    program.nodes = kept[::-1]
    buffers = {buffer for buffer, _ in program.effects}
    program.captures = [v for v in program.captures if v in needed or v in buffers]


def drop_indices(program: Program) -> None:
    """Leave out the positions of maxima that nothing reads."""
    uses = program.uses()
    for node in program.nodes:
        if isinstance(node.op, MaxPool | AdaptiveMaxPool) and len(node.outputs) == 2 and node.outputs[1] not in uses:
            values = {name: getattr(node.op, name) for name in node.op.fields}
            node.op, node.outputs = type(node.op)(**values | {"indexed": False}), node.outputs[:1]


def merge_equal(program: Program) -> None:
    """Compute once what two nodes compute from the same inputs; nodes that draw random numbers stay."""
    seen: dict[Any, tuple[Value, ...]] = {}
    mapping: dict[Value, Value] = {}
    kept = []
    for node in program.nodes:
        ins = tuple(mapping.get(v, v) if v is not None else None for v in node.inputs)
        key = (node.op, symbolic(node.op), ins, node.differentiable)
        known = None if node.op.stateful else seen.setdefault(key, node.outputs)
        if known is None or known is node.outputs:
            kept.append(node)
        else:
            mapping.update(zip(node.outputs, known, strict=True))
    program.nodes = kept
    program.replace(mapping)


def drop_aliases(program: Program) -> None:
    """Read the value itself where an `Identity` stands; gradients must have been taken already."""
    mapping = {n.outputs[0]: n.inputs[0] for n in program.nodes if isinstance(n.op, Identity)}
    program.nodes = [n for n in program.nodes if not isinstance(n.op, Identity)]
    program.replace(mapping)  # type: ignore[arg-type]
