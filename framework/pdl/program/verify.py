"""The verifier: what every program must satisfy, checked after it is made and after every pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NoReturn

from pdl.errors import UsageError
from pdl.limits import check_time
from pdl.ops.base import Op, Spec
from pdl.program.ir import Node, Program, Value, show_op, show_spec


def verify(program: Program, after: str = "tracing") -> Program:
    """`program` itself; raises UsageError naming the first node that breaks a rule and the pass (`after`) that did it.

    The rules: every value is defined once, before it is read; the specs of a node's outputs are those its op infers;
    captured arrays have their value's shape and dtype; effects go to captured buffers of the same spec.
    """
    wrong = partial(_refuse, program, after)
    known: set[Value] = set()
    for value in (*program.inputs, *program.captures):
        if value in known:
            wrong(f"{value!r} is defined twice")
        known.add(value)
        if value.tensor is not None and value.spec != (value.tensor.shape, value.tensor.dtype):
            wrong(f"captured {value!r} holds {show_spec(Spec(value.tensor.shape, value.tensor.dtype))}")
    for node in program.nodes:
        check_time()
        _check_node(node, known, wrong)
        known.update(node.outputs)
    for output in program.outputs:
        if output is not None and output not in known:
            wrong(f"output {output!r} is never defined")
    for buffer, value in program.effects:
        if buffer.tensor is None:
            wrong(f"the effect on {buffer!r} has no buffer")
        if value not in known or value.spec != buffer.spec:
            wrong(f"{value!r} does not fit {buffer!r}")
    return program


def specs_of(op: Op, inputs: Iterable[Value | None]) -> tuple[Spec, ...]:
    """What `op` infers for these inputs."""
    made = op.infer(*[None if v is None else v.spec for v in inputs])
    return (made,) if isinstance(made, Spec) else tuple(made)


def inferred(op: Op, inputs: Sequence[Value | None], **facts: Any) -> Node:
    """A node whose outputs are what its op infers."""
    made = Node(op, inputs, specs_of(op, inputs), **facts)
    made.verified = made.specs()
    return made


def _check_node(node: Node, known: set[Value], wrong: Callable[[str], NoReturn]) -> None:
    for value in node.inputs:
        if value is not None and value not in known:
            wrong(f"{_shown(node)} reads {value!r} before it is defined")
    if node.verified != (found := node.specs()):
        specs, have = specs_of(node.op, node.inputs), tuple(v.spec for v in node.outputs)
        if specs != have:
            wrong(f"{_shown(node)} infers {', '.join(map(show_spec, specs))}, not {', '.join(map(show_spec, have))}")
        node.verified = found
    for value in node.outputs:
        if value in known or value.node is not node:
            wrong(f"{_shown(node)}: {value!r} is defined twice")


def _shown(node: Node) -> str:
    return f"{show_op(node.op)}{f' ({node.where})' if node.where else ''}"


def _refuse(program: Program, after: str, what: str) -> NoReturn:
    raise UsageError(f"program {program.name!r} is wrong after {after}: {what}")
