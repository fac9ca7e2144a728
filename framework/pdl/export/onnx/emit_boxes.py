"""Boxes: overlapping ones are suppressed by NonMaxSuppression, and what it keeps goes back to where it stood, so that
all sizes are fixed."""

from __future__ import annotations

import math

import numpy as np

from pdl.errors import UsageError
from pdl.export.onnx.graph import Graph, symbolic
from pdl.export.onnx.registry import Result, emits
from pdl.ops.boxes import SelectBoxes
from pdl.program.ir import Value


@emits(SelectBoxes)
def select_boxes(g: Graph, op: SelectBoxes, boxes: Value, scores: Value) -> Result:
    """The scores that are kept among numbers below all scores, the best of them, and what belongs to these."""
    n, anchors, classes = scores.spec.shape
    if op.kind not in ("hard", "none"):
        raise UsageError(f"ONNX has no {op.kind} suppression of boxes; kind='hard' is written")
    if symbolic(anchors) or symbolic(classes) or not anchors * classes:
        raise UsageError(
            f"ONNX has no selection of boxes among {anchors} anchors of {classes} classes; give both sizes"
        )
    total = int(anchors * classes)
    nothing = g.like(float(np.finfo(np.float32).min), scores.spec)
    flat = g.node("Reshape", g.plain(scores), g.sizes([n, total]))
    if op.candidates < total:
        best, at = g.nodes_of("TopK", flat, g.constant([op.candidates], np.int64), outputs=2, axis=1)
        flat = g.node("ScatterElements", g.node("Expand", nothing, g.node("Shape", flat)), at, best, axis=1)
    flat = g.node("Where", g.node("Greater", flat, g.like(op.score_threshold, scores.spec)), flat, nothing)
    if op.kind == "hard":
        flat = _suppressed(g, op, boxes, scores, flat, nothing)
    if op.most > total:
        flat = g.node("Pad", flat, g.constant([0, 0, 0, op.most - total], np.int64), nothing)
    values, at = g.nodes_of("TopK", flat, g.constant([op.most], np.int64), outputs=2, axis=1)
    some = g.node("Greater", values, nothing)
    none = g.constant(-1, np.int64)
    anchor, label = (g.node(kind, at, g.constant(int(classes), np.int64)) for kind in ("Div", "Mod"))
    place = anchor if len(boxes.spec.shape) == 3 else at
    rows = g.node("Reshape", g.plain(boxes), g.sizes([n, math.prod(map(int, boxes.spec.shape[1:-1])), 4]))
    inside = g.node("Where", some, place, g.constant(0, np.int64))
    wide = g.node("Expand", _last(g, inside), g.sizes([n, op.most, 4]))
    zero = g.like(0, scores.spec)
    return (
        g.node("Where", _last(g, some), g.node("GatherElements", rows, wide, axis=1), zero),
        g.node("Where", some, values, zero),
        g.node("Where", some, label, none),
        g.node("Where", some, anchor, none),
    )


def _last(g: Graph, x: str) -> str:
    """x with an axis of size 1 at its end."""
    return g.node("Unsqueeze", x, g.constant([2], np.int64))


def _suppressed(g: Graph, op: SelectBoxes, boxes: Value, scores: Value, flat: str, nothing: str) -> str:
    """Scores [N, A C], those that are suppressed below all others.

    NonMaxSuppression has boxes that all classes share. Where each class has its own, a class is an image; where boxes
    of several classes meet, they are all of one.
    """
    n, anchors, classes = scores.spec.shape
    total, corners = int(anchors * classes), g.plain(boxes)
    each, by_class = len(boxes.spec.shape) == 4, op.per_class and classes > 1
    if by_class:
        flat = g.transpose(g.node("Reshape", flat, g.sizes([n, anchors, classes])), (0, 2, 1))
    if by_class and each:
        corners = g.node("Reshape", g.transpose(corners, (0, 2, 1, 3)), g.sizes([n * classes, anchors, 4]))
        flat = g.node("Reshape", flat, g.sizes([n * classes, 1, anchors]))
    elif not by_class:
        if not each and classes > 1:
            corners = g.node("Expand", _last(g, corners), g.sizes([n, anchors, classes, 4]))
        corners = g.node("Reshape", corners, g.sizes([n, total, 4]))
        flat = g.node("Reshape", flat, g.sizes([n, 1, total]))
    lowest, limit = (g.constant([v], np.float32) for v in (op.score_threshold, op.iou_threshold))
    found = g.node("NonMaxSuppression", corners, flat, g.constant([op.most], np.int64), limit, lowest)
    base = g.node("Expand", nothing, g.node("Shape", flat))
    kept = g.node("ScatterND", base, found, g.node("GatherND", flat, found))
    if by_class:
        kept = g.transpose(g.node("Reshape", kept, g.sizes([n, classes, anchors])), (0, 2, 1))
    return g.node("Reshape", kept, g.sizes([n, total]))
