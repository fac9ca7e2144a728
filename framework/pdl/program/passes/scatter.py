"""Sums of a table's gradients: rows are added into a gradient that is there; no second table is made for them. Rows
from several lookups are put in order once, not at each sum."""

from __future__ import annotations

from pdl.dtype import float32, float64
from pdl.ops.base import OPS
from pdl.ops.segment import SegmentSum
from pdl.ops.shape import Concat
from pdl.ops.sparse import AddRows, EmbeddingGradRows
from pdl.program.ir import Node, Program, Value
from pdl.program.passes.fuse import Fusion, Graph, apply_rules

Add = OPS["Add"]


def sum_with_segment_sum(node: Node, graph: Graph) -> Fusion | None:
    """x + segment_sum(values, ids), where nothing else reads the second: a tied embedding, whose table is the output
    layer's, too."""
    if type(node.op) is not Add:
        return None
    for x, other in (node.inputs, node.inputs[::-1]):
        rows = graph.made_for(other, SegmentSum)
        if rows is None or x is None or x is other or x.spec != node.outputs[0].spec:
            continue
        values, ids = rows.inputs
        if values is None or ids is None or len(values.spec.shape) != 2 or x.spec.dtype not in (float32, float64):
            continue
        if x.spec == rows.outputs[0].spec:
            return Fusion((rows, node), AddRows(), (x, ids, values), {node.outputs[0]: 0})
    return None


def add_rows(program: Program) -> None:
    """Apply the rule until it matches nowhere."""
    apply_rules(program, (sum_with_segment_sum,))


def join_rows(program: Program) -> None:
    """Sums of sparse gradients of one table: what several lookups owe goes into one `EmbeddingGradRows`."""
    uses, nodes = program.uses(), list[Node]()
    for node in reversed(program.nodes):  # the last sum of a table takes in those before it
        nodes.append(node)
        parts = _parts(node, uses) if node.op == EmbeddingGradRows() else []
        if len(parts) > 1 and parts != _summands(node, uses):
            joined = [_joined(values, node) for values in zip(*parts, strict=True)]
            node.inputs = tuple(n.outputs[0] for n in joined)
            nodes += joined
    program.nodes = nodes[::-1]


def _joined(values: tuple[Value, ...], reader: Node) -> Node:
    shape = (sum(v.spec.shape[0] for v in values), *values[0].spec.shape[1:])
    return Node(Concat(0), values, [values[0].spec._replace(shape=shape)], where=reader.where)


Pairs = list[tuple[Value, Value]]


def _parts(node: Node, uses: dict[Value, int]) -> Pairs:
    """The (index, values) pairs whose rows an `EmbeddingGradRows` adds up, those of others of its kind before it
    included."""
    found: Pairs = []
    for index, values in _summands(node, uses):
        inner = index.node
        once = uses.get(index) == uses.get(values) == 1
        if inner is None or inner is not values.node or not _adds_up(inner) or not once:
            found.append((index, values))
            continue
        a, b = inner.inputs
        if a is None or b is None or a.spec != index.spec or b.spec != values.spec:
            found.append((index, values))
        else:
            found += _parts(inner, uses)
    return found


def _adds_up(node: Node) -> bool:
    """Whether it gives rows and sums, and leaves none out."""
    return isinstance(node.op, EmbeddingGradRows) and node.op.padding_idx is None


def _summands(node: Node, uses: dict[Value, int]) -> Pairs:
    """What the inputs (index, values) of a node are joined from; they themselves where they are not."""
    index, values = node.inputs
    assert index is not None
    assert values is not None
    ones, others = index.node, values.node
    if ones is None or others is None or uses.get(index) != 1 or uses.get(values) != 1:
        return [(index, values)]
    if ones.op != Concat(0) or others.op != Concat(0) or len(ones.inputs) != len(others.inputs):
        return [(index, values)]
    pairs = [(a, b) for a, b in zip(ones.inputs, others.inputs, strict=True) if a is not None and b is not None]
    fits = all(a.spec.shape[0] == b.spec.shape[0] for a, b in pairs)
    return pairs if fits and len(pairs) == len(ones.inputs) else [(index, values)]
