"""Reductions, running sums, and orders."""

from __future__ import annotations

from typing import Any

import numpy as np

from pdl.export.onnx.graph import Body, Graph, symbolic
from pdl.export.onnx.registry import NOT_WRITTEN, First, Result, emits
from pdl.ops import reduce as ops
from pdl.ops import running
from pdl.ops.base import Spec
from pdl.ops.broadcast import SumTo
from pdl.ops.index import NonZero
from pdl.ops.sort import ArgSort, ArgTopK
from pdl.program.ir import Value

#: op class -> ONNX operator
REDUCE: dict[type[Any], str] = {
    ops.Sum: "ReduceSum", ops.Mean: "ReduceMean", ops.Prod: "ReduceProd", ops.Max: "ReduceMax", ops.Min: "ReduceMin",
    ops.LogSumExp: "ReduceLogSumExp", ops.AllTrue: "ReduceMin", ops.AnyTrue: "ReduceMax",
}  # fmt: skip


def reduced(g: Graph, kind: str, op: Any, x: Value, before: Any = None) -> Result:
    """A Reduce node in the layout that x has; `before` changes x first."""
    if op.keepdims:
        name, wrap = g.either(x)
        places = [g.axis(x, a)[1] for a in op.axes]
    else:
        name, places, wrap = g.without(x, op.axes)
    name = name if before is None else before(name)
    return wrap(g.reduce(kind, name, places, keepdims=op.keepdims) if places else name)


@emits(ops.Sum, ops.Prod, ops.Mean, ops.Max, ops.Min, ops.LogSumExp)
def reduction(g: Graph, op: ops.Reduction, x: Value) -> Result:
    """A Reduce operator; the mean over all positions of an image is GlobalAveragePool."""
    rank = len(x.spec.shape)
    if isinstance(op, ops.Mean) and rank > 3 and op.axes == tuple(range(1, rank - 1)) and g.prefers_first(x):
        pooled = g.node("GlobalAveragePool", g.first(x))
        return First(pooled) if op.keepdims else g.node("Flatten", pooled, axis=1)
    target = op.result(x.spec.dtype)
    if target == np.uint64:  # which ONNX Runtime does not reduce; the bits are the same
        made = reduced(g, REDUCE[type(op)], op, x, lambda name: g.cast(name, np.int64))
        return First(g.cast(made.name, target)) if isinstance(made, First) else g.cast(str(made), target)
    if target != x.spec.dtype:
        return reduced(g, REDUCE[type(op)], op, x, lambda name: g.cast(name, target))
    if x.spec.dtype == np.bool_:
        return truth(g, op, x)
    return reduced(g, REDUCE[type(op)], op, x)


@emits(ops.AllTrue, ops.AnyTrue)
def truth(g: Graph, op: ops.Reduction, x: Value) -> Result:
    """The smallest or largest of bools, as integers."""

    def as_numbers(name: str) -> str:
        return g.cast(name if x.spec.dtype == np.bool_ else g.cast(name, np.bool_), np.int32)

    made = reduced(g, REDUCE[type(op)], op, x, as_numbers)
    return First(g.cast(made.name, np.bool_)) if isinstance(made, First) else g.cast(str(made), np.bool_)


@emits(ops.Norm)
def norm(g: Graph, op: ops.Norm, x: Value) -> Result:
    """ReduceL2; else the sum of powers, of x over its largest modulus so that nothing overflows."""
    if op.ord == 2:
        return reduced(g, "ReduceL2", op, x)
    name, axes = g.plain(x), [a % len(x.spec.shape) for a in op.axes]
    size = g.node("Abs", name)
    top = g.reduce("ReduceMax", size, axes)
    zero = g.node("Equal", top, g.like(0, x.spec))
    part = g.node("Div", size, g.node("Where", zero, g.like(1, x.spec), top))
    total = g.reduce("ReduceSum", g.node("Pow", part, g.like(op.ord, x.spec)), axes)
    y = g.node("Mul", g.node("Pow", total, g.like(1 / op.ord, x.spec)), top)
    return y if op.keepdims else g.node("Squeeze", y, g.constant(axes, np.int64))


@emits(ops.ArgMax, ops.ArgMin)
def arg_extreme(g: Graph, op: ops.Reduction, x: Value) -> Result:
    """ArgMax or ArgMin."""
    if op.keepdims:
        name, place, wrap = g.axis(x, op.axes[0])
    else:
        name, places, wrap = g.without(x, op.axes)
        place = places[0]
    name = g.cast(name, np.int32) if x.spec.dtype == np.bool_ else name
    return wrap(g.node(type(op).__name__, name, axis=place, keepdims=int(op.keepdims)))


@emits(SumTo)
def sum_to(g: Graph, op: SumTo, x: Value) -> Result:
    """ReduceSum over the dimensions that were broadcast."""
    rank = len(x.spec.shape)
    lead = rank - len(op.shape)
    axes = [i for i in range(rank) if i < lead or (op.shape[i - lead] == 1 and x.spec.shape[i] != 1)]
    y = g.reduce("ReduceSum", g.plain(x), axes) if axes else g.plain(x)
    return g.node("Squeeze", y, g.constant(list(range(lead)), np.int64)) if lead else y


@emits(running.CumSum)
def cumsum(g: Graph, op: running.CumSum, x: Value) -> Result:
    """CumSum."""
    name, axis, wrap = g.axis(x, op.axis)
    target = op.infer(x.spec).dtype
    run = np.dtype(np.int64) if target == np.uint64 else target  # ONNX Runtime has no other; the bits are the same
    name = name if run == x.spec.dtype else g.cast(name, run)
    made = g.node("CumSum", name, g.constant(axis, np.int64))
    return wrap(made if run == target else g.cast(made, target))


@emits(running.CumProd)
def cumprod(g: Graph, op: running.CumProd, x: Value) -> Result:
    """The product over a triangle: ReduceProd of x or 1, [..., n, n]."""
    n, rank, made = x.spec.shape[op.axis], len(x.spec.shape), op.infer(x.spec)
    if symbolic(n):
        return NOT_WRITTEN
    spec = Spec(made.shape, np.dtype(np.int64)) if made.dtype == np.uint64 else made
    axis = op.axis % rank
    order = [a for a in range(rank) if a != axis] + [axis]
    name = g.plain(x) if spec.dtype == x.spec.dtype else g.cast(g.plain(x), spec.dtype)
    row = g.node("Unsqueeze", g.transpose(name, order), g.constant([rank - 1], np.int64))
    square = g.node("Where", g.constant(np.tri(n, dtype=np.bool_)), row, g.like(1, spec))
    y = g.reduce("ReduceProd", square, [rank], keepdims=False)
    y = y if spec is made else g.cast(y, made.dtype)
    return g.transpose(y, [int(i) for i in np.argsort(order)])


@emits(running.LinearScan)
def linear_scan(g: Graph, op: running.LinearScan, a: Value, b: Value) -> Result:
    """Scan with the body y = a y + b."""
    axis = op.axis % len(a.spec.shape)
    inner = Graph(g.opset, outer=g)
    names = [g.names.unique(f"{g.scope}/{n}") for n in ("before", "factor", "term")]
    spec = Spec((*a.spec.shape[:axis], *a.spec.shape[axis + 1 :]), a.spec.dtype)
    y = inner.node("Add", inner.node("Mul", *names[:2]), names[2])
    outputs = [(y, spec), (inner.node("Identity", y), spec)]
    body = Body(inner.nodes, [(name, spec) for name in names], outputs)
    start = g.node("Expand", g.like(0, spec), g.sizes(spec.shape)) if spec.shape else g.like(0, spec)
    return g.nodes_of(
        "Scan", start, g.plain(a), g.plain(b), outputs=2, num_scan_inputs=2, scan_input_axes=[axis, axis],
        scan_output_axes=[axis], body=body,
    )[1]  # fmt: skip


# -- orders ------------------------------------------------------------------------------------------------------------
@emits(ArgTopK)
def arg_topk(g: Graph, op: ArgTopK, x: Value) -> Result:
    """TopK's indices."""
    return ordered(g, x, op.k, op.axis, op.largest)


@emits(ArgSort)
def arg_sort(g: Graph, op: ArgSort, x: Value) -> Result:
    """TopK of the whole axis."""
    return ordered(g, x, x.spec.shape[op.axis], op.axis, op.descending)


def ordered(g: Graph, x: Value, k: int, axis: int, largest: bool) -> Result:
    """Indices of the k largest or smallest, equal ones in their order, bools as integers."""
    name, place, wrap = g.axis(x, axis)
    name = g.cast(name, np.int32) if x.spec.dtype.kind in "bu" or x.spec.dtype.itemsize < 4 else name
    return wrap(g.nodes_of("TopK", name, g.sizes([k]), outputs=2, axis=place, largest=int(largest))[1])


@emits(NonZero)
def nonzero(g: Graph, op: NonZero, x: Value) -> Result:
    """NonZero."""
    return g.node("NonZero", g.plain(x))
