"""Sums of a table's gradients: rows are added into a gradient that is there; no second table is made for them."""

from __future__ import annotations

from pdl.dtype import float32, float64
from pdl.ops.base import OPS
from pdl.ops.segment import SegmentSum
from pdl.ops.sparse import AddRows
from pdl.program.ir import Node, Program
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


__all__ = ["add_rows"]
