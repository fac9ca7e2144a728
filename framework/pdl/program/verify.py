"""The verifier: what every program must satisfy, checked after it is made and after every pass."""

from __future__ import annotations

from collections.abc import Iterable

from pdl.errors import UsageError
from pdl.ops.base import Op, Spec
from pdl.program.ir import Node, Program, Value, show_op, show_spec


def verify(program: Program, after: str = "tracing") -> Program:
    """`program` itself; raises UsageError naming the first node that breaks a rule and the pass (`after`) that did it.

    The rules: every value is defined once, before it is read; the specs of a node's outputs are those its op infers;
    captured arrays have their value's shape and dtype; effects go to captured buffers of the same spec.
    """
    known: set[Value] = set()
    for value in (*program.inputs, *program.captures):
        _demand(value not in known, program, after, f"{value!r} is defined twice")
        known.add(value)
        if value.tensor is not None:
            actual = Spec(value.tensor.shape, value.tensor.dtype)
            _demand(actual == value.spec, program, after, f"captured {value!r} holds {show_spec(actual)}")
    for node in program.nodes:
        _check_node(node, known, program, after)
        known.update(node.outputs)
    for output in program.outputs:
        _demand(output is None or output in known, program, after, f"output {output!r} is never defined")
    for buffer, value in program.effects:
        _demand(buffer.tensor is not None, program, after, f"the effect on {buffer!r} has no buffer")
        _demand(value in known and value.spec == buffer.spec, program, after, f"{value!r} does not fit {buffer!r}")
    return program


def specs_of(op: Op, inputs: Iterable[Value | None]) -> tuple[Spec, ...]:
    """What `op` infers for these inputs."""
    made = op.infer(*[None if v is None else v.spec for v in inputs])
    return (made,) if isinstance(made, Spec) else tuple(made)


def _check_node(node: Node, known: set[Value], program: Program, after: str) -> None:
    shown = f"{show_op(node.op)}{f' ({node.where})' if node.where else ''}"
    for value in node.inputs:
        _demand(value is None or value in known, program, after, f"{shown} reads {value!r} before it is defined")
    specs = specs_of(node.op, node.inputs)
    have = tuple(v.spec for v in node.outputs)
    shown_specs = ", ".join(map(show_spec, have))
    _demand(specs == have, program, after, f"{shown} infers {', '.join(map(show_spec, specs))}, not {shown_specs}")
    for value in node.outputs:
        _demand(value not in known and value.node is node, program, after, f"{shown}: {value!r} is defined twice")


def _demand(good: bool, program: Program, after: str, what: str) -> None:
    if not good:
        raise UsageError(f"program {program.name!r} is wrong after {after}: {what}")
