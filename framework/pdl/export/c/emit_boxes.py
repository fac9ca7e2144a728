"""Boxes that are left of those that overlap."""

from __future__ import annotations

from typing import Any, get_args

from pdl.export.c.emit_layers import require_float, shape_of
from pdl.export.c.registry import emits
from pdl.export.c.source import Source, number
from pdl.ops.boxes import SelectBoxes, Suppression
from pdl.program.ir import Node

#: bytes of a `Candidate`
CANDIDATE = 12


@emits(SelectBoxes)
def select_boxes(c: Source, node: Node) -> None:
    """The best of all scores are put in order in memory behind the arena."""
    op: Any = node.op
    require_float(node)
    boxes, scores = node.inputs
    images, anchors, classes = shape_of(scores)
    candidates = min(op.candidates, anchors * classes)
    c.use("select_boxes")
    given = c.struct(
        "Selecting", images=images, anchors=anchors, classes=classes, each=int(len(shape_of(boxes)) == 4),
        apart=int(op.per_class), candidates=candidates, most=op.most, how=get_args(Suppression).index(op.kind),
        overlap=number(op.iou_threshold), lowest=number(op.score_threshold), sharp=number(-1 / op.sigma),
    )  # fmt: skip
    room = f"(Candidate *){c.scratch(CANDIDATE * candidates)}"
    c.call("select_boxes", *map(c.at, node.outputs), c.at(boxes), c.at(scores), room, given)
