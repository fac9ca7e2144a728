"""Captured tensors that are there only while they are needed: windows on inputs that are written just before the first
node that reads one of them, as often as a program comes back to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeAlias

from pdl.dtype import Array, DType
from pdl.errors import UsageError
from pdl.ops.base import Spec
from pdl.ops.index import GetItem
from pdl.ops.shape import Reshape
from pdl.program.ir import Node, Program, Value

Feed: TypeAlias = "Callable[[Array], None]"


class Block(NamedTuple):
    """Memory [length] that is written as one, by `fill`."""

    length: int
    dtype: DType
    fill: Feed


class Seat(NamedTuple):
    """A tensor's place in a block: elements from `begin`."""

    block: Block
    begin: int


def feed(program: Program, seats: Mapping[int, Seat]) -> dict[Value, Feed]:
    """Let `program` read the tensors with these ids from blocks; the inputs that stand for them, with what fills each.

    A block is an input of its own for each stretch of the program in which its tensors are read: two stretches are one
    where no more than one other block is read between them. UsageError where a tensor is itself a result.
    """
    blocks = {v: seats[id(v.tensor)] for v in program.captures if id(v.tensor) in seats}
    check_inside(program, blocks)
    _derive_anew(program, set(blocks))
    reads = [
        (at, block)
        for at, node in enumerate(program.nodes)
        for block in dict.fromkeys(id(blocks[v].block) for v in node.inputs if v in blocks)
    ]
    stretch: dict[int, tuple[int, int]] = {}  # of a block: the number of its stretch, and of its latest read
    number: dict[tuple[int, int], int] = {}  # of a read, by node and block: the stretch
    for i, (at, read) in enumerate(reads):
        count, before = stretch.get(read, (0, i))
        apart = len({other for _, other in reads[before + 1 : i]}) > 1
        stretch[read] = count + apart, i
        number[at, read] = count + apart
    feeds: dict[Value, Feed] = {}
    inputs: dict[tuple[int, int], Value] = {}
    windows: dict[tuple[Value, Value], Value] = {}
    nodes = []
    for at, node in enumerate(program.nodes):
        mapping: dict[Value, Value] = {}
        for value in node.inputs:
            if value is None or value not in blocks:
                continue
            block, begin = blocks[value]
            key = id(block), number[at, id(block)]
            if key not in inputs:
                inputs[key] = Value(Spec((block.length,), block.dtype))
                inputs[key].name = f"weights{len(inputs)}"
                program.inputs.append(inputs[key])
                feeds[inputs[key]] = block.fill
            whole = inputs[key]
            if (whole, value) not in windows:
                cut = _viewed(GetItem(((begin, begin + _size(value), None),)), whole, node)
                shaped = _viewed(Reshape(value.spec.shape), cut.outputs[0], node)
                nodes += [cut, shaped]
                windows[whole, value] = shaped.outputs[0]
            mapping[value] = windows[whole, value]
        if mapping:
            node.inputs = tuple(v if v is None else mapping.get(v, v) for v in node.inputs)
        nodes.append(node)
    program.nodes = nodes
    program.captures = [v for v in program.captures if v not in blocks]
    return feeds


def check_inside(program: Program, values: Iterable[Value]) -> None:
    """UsageError where one of these is itself a result."""
    kept = {*program.outputs, *(v for pair in program.effects for v in pair)}
    if named := [v.name for v in values if v in kept]:
        raise UsageError(f"distributed.zero=3: a training step returns the parameter {named[0]} itself; use zero=2")


def _derive_anew(program: Program, roots: set[Value]) -> None:
    """Compute what hangs on the roots alone, such as a transposed weight, anew for each of its readers: otherwise it
    would live, and with it what it looks into, from the forward part to the backward part."""
    derived: dict[Value, Node] = {}
    nodes, kept = [], {*program.outputs, *(v for pair in program.effects for v in pair)}

    def anew(value: Value | None) -> Value | None:
        if value is None or value not in derived:
            return value
        source = derived[value]
        node = Node(
            source.op, map(anew, source.inputs), [value.spec], where=source.where, scope=source.scope
        )  # its own inputs come before it
        nodes.append(node)
        return node.outputs[0]

    for node in program.nodes:
        given, pure = [v for v in node.inputs if v is not None], not (node.op.stateful or node.op.effect)
        alone = bool(given) and all(v in roots or v in derived for v in given)
        if alone and pure and len(node.outputs) == 1 and node.outputs[0] not in kept:
            derived[node.outputs[0]] = node
        else:
            node.inputs = tuple(map(anew, node.inputs))
            nodes.append(node)
    program.nodes = nodes


def _size(value: Value) -> int:
    size = 1
    for n in value.spec.shape:
        size *= n
    return size


def _viewed(op: GetItem | Reshape, value: Value, reader: Node) -> Node:
    """A window, in the name of its first reader."""
    return Node(op, [value], [op.infer(value.spec)], where=reader.where, scope=reader.scope)
