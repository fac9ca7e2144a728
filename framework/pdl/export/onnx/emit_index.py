"""Reading and writing at places that tensors name."""

from __future__ import annotations

from math import prod

import numpy as np

from pdl.export.onnx.graph import Graph, fixed
from pdl.export.onnx.registry import NOT_WRITTEN, Result, emits
from pdl.ops import index as ops
from pdl.ops.embedding import BagNumbers
from pdl.ops.pool import Pick, Place
from pdl.ops.segment import SegmentCount, SegmentExtremum, SegmentSum, SegmentTake
from pdl.ops.sort import SearchSorted
from pdl.program.ir import Value


@emits(ops.GetAt)
def get_at(g: Graph, op: ops.GetAt, x: Value, *index: Value) -> Result:
    """Gather along one axis; GatherND where index arrays name places on the first axes."""
    if len(index) == 1:
        return g.node("Gather", g.plain(x), g.plain(index[0]), axis=op.axes[0])
    rank = len(x.spec.shape)
    neighbours = op.axes == tuple(range(op.axes[0], op.axes[0] + len(op.axes)))
    rest = [a for a in range(rank) if a not in op.axes]
    moved = g.transpose(g.plain(x), [*op.axes, *rest])
    y = g.node("GatherND", moved, places(g, op, x, index))
    if not neighbours or op.axes[0] == 0:
        return y
    together = max(len(i.spec.shape) for i in index)  # the indices' axes come first: put them where they belong
    before, after = op.axes[0], len(rest) - op.axes[0]
    first = [*range(together, together + before), *range(together)]
    return g.transpose(y, [*first, *range(together + before, together + before + after)])


def places(g: Graph, op: ops.GetAt, x: Value, index: tuple[Value, ...]) -> str:
    """The index arrays, broadcast together, side by side in a last axis; negative ones count from the end already."""
    shape = np.broadcast_shapes(*[i.spec.shape for i in index])
    last = g.constant([len(shape)], np.int64)
    parts = []
    for value in index:
        name = g.cast(g.plain(value), np.int64)
        wide = name if value.spec.shape == shape else g.node("Expand", name, g.sizes(shape))
        parts.append(g.node("Unsqueeze", wide, last))
    return g.node("Concat", *parts, axis=len(shape))


@emits(ops.Gather)
def gather(g: Graph, op: ops.Gather, x: Value, index: Value) -> Result:
    """GatherElements."""
    return g.node("GatherElements", g.plain(x), indices(g, index), axis=op.axis)


def indices(g: Graph, index: Value) -> str:
    """Indices in a dtype that ONNX takes."""
    name = g.plain(index)
    return name if index.spec.dtype in (np.int32, np.int64) else g.cast(name, np.int64)


@emits(ops.Scatter)
def scatter(g: Graph, op: ops.Scatter, x: Value, index: Value, updates: Value) -> Result:
    """ScatterElements."""
    return g.node("ScatterElements", g.plain(x), indices(g, index), g.plain(updates), axis=op.axis)


@emits(ops.ScatterAdd)
def scatter_add(g: Graph, op: ops.ScatterAdd, x: Value, index: Value, updates: Value) -> Result:
    """ScatterElements that adds."""
    g.require(16)
    return g.node("ScatterElements", g.plain(x), indices(g, index), g.plain(updates), axis=op.axis, reduction="add")


# -- segments ----------------------------------------------------------------------------------------------------------
def rows_of(g: Graph, ids: Value, count: int) -> str:
    """Row numbers [R, 1] for ScatterND, negative ones (left out) as `count`, a row that is cut off at the end."""
    name = g.cast(g.plain(ids), np.int64)
    inside = g.node("Where", g.node("Less", name, g.constant(0, np.int64)), g.constant(count, np.int64), name)
    return g.node("Unsqueeze", inside, g.constant([1], np.int64))


def scattered(g: Graph, ids: Value, x: str, value: Value, count: int, start: float, how: str) -> str:
    """`count` rows of `start`, and x's rows put in by `how`."""
    rest = value.spec.shape[1:]
    base = g.node("Expand", g.constant(np.full((1,) * (len(rest) + 1), start, value.spec.dtype)),
                  g.sizes([count + 1, *rest]))  # fmt: skip
    y = g.node("ScatterND", base, rows_of(g, ids, count), x, reduction=how)
    return g.node("Slice", y, *[g.constant([v], np.int64) for v in (0, count, 0)])


@emits(SegmentSum)
def segment_sum(g: Graph, op: SegmentSum, x: Value, ids: Value) -> Result:
    """ScatterND that adds."""
    g.require(16)
    return scattered(g, ids, g.plain(x), x, op.num_segments, 0, "add")


@emits(SegmentCount)
def segment_count(g: Graph, op: SegmentCount, ids: Value) -> Result:
    """How many ids equal each number."""
    numbers = g.constant(np.arange(op.num_segments)[:, None], np.int64)
    found = g.node("Equal", g.cast(g.plain(ids), np.int64), numbers)
    return g.reduce("ReduceSum", g.cast(found, np.int64), [1], keepdims=False)


@emits(SegmentExtremum)
def segment_extremum(g: Graph, op: SegmentExtremum, x: Value, ids: Value) -> Result:
    """ScatterND that takes the maximum; 0 for a segment without rows. The winners' numbers have no operator."""
    g.require(18)
    if g.read(1):
        return NOT_WRITTEN
    edge = -np.inf if op.largest else np.inf
    y = scattered(g, ids, g.plain(x), x, op.num_segments, edge, "max" if op.largest else "min")
    empty = g.node("Equal", y, g.like(edge, x.spec))
    return g.node("Where", empty, g.like(0, x.spec), y), None


@emits(SegmentTake)
def segment_take(g: Graph, op: SegmentTake, x: Value, ids: Value) -> Result:
    """Gather, 0 where the number is negative."""
    zero = g.constant(0, np.int64)
    name = g.cast(g.plain(ids), np.int64)
    inside = g.node("GreaterOrEqual", name, zero)
    rows = g.node("Gather", g.plain(x), g.node("Max", name, zero), axis=0)
    rank = len(x.spec.shape)
    column = inside if rank == 1 else g.node("Unsqueeze", inside, g.constant(list(range(1, rank)), np.int64))
    return g.node("Where", column, rows, g.like(0, x.spec))


@emits(Pick)
def pick(g: Graph, op: Pick, x: Value, index: Value) -> Result:
    """GatherElements over the positions as one axis, 0 where the index is negative."""
    channels, name = x.spec.shape[-1], g.plain(index)
    flat = [0, -1, channels]
    rows = g.node("Reshape", g.plain(x), g.constant(flat, np.int64))
    at = g.node("Reshape", name, g.constant(flat, np.int64))
    zero = g.like(0, index.spec)
    taken = g.node("GatherElements", rows, g.node("Max", at, zero), axis=1)
    kept = g.node("Where", g.node("GreaterOrEqual", at, zero), taken, g.like(0, x.spec))
    return g.node("Reshape", kept, g.node("Shape", name))


@emits(Place)
def put(g: Graph, op: Place, x: Value, index: Value) -> Result:
    """ScatterElements that adds, into zeros over the positions as one axis; 0 is added where the index is negative."""
    g.require(16)
    cells, channels = prod(op.cells), x.spec.shape[-1]
    flat, zero = g.constant([0, -1, channels], np.int64), g.like(0, index.spec)
    at = g.node("Reshape", g.plain(index), flat)
    values = g.node("Reshape", g.plain(x), flat)
    kept = g.node("Where", g.node("GreaterOrEqual", at, zero), values, g.like(0, x.spec))
    base = g.node("Expand", g.like(0, x.spec, 3), g.sizes([x.spec.shape[0], cells, channels]))
    y = g.node("ScatterElements", base, g.node("Max", at, zero), kept, axis=1, reduction="add")
    return g.node("Reshape", y, g.sizes([x.spec.shape[0], *op.cells, channels]))


# -- counting ----------------------------------------------------------------------------------------------------------
def counted(g: Graph, kind: str, sorted_row: str, numbers: str, rank: int) -> str:
    """How many of a row [n] compare so with each number [...]."""
    column = g.node("Unsqueeze", numbers, g.constant([rank], np.int64))
    return g.reduce("ReduceSum", g.cast(g.node(kind, sorted_row, column), np.int64), [rank], keepdims=False)


@emits(SearchSorted)
def search_sorted(g: Graph, op: SearchSorted, x: Value, v: Value) -> Result:
    """The number of elements before v."""
    kind = "Less" if op.side == "left" else "LessOrEqual"
    return counted(g, kind, g.plain(x), g.plain(v), len(v.spec.shape))


@emits(BagNumbers)
def bag_numbers(g: Graph, op: BagNumbers, offsets: Value) -> Result:
    """The number of bags that have begun, less one."""
    row = g.cast(g.plain(offsets), np.int64)
    begun = counted(g, "LessOrEqual", row, g.constant(np.arange(fixed(op.length)), np.int64), 1)
    return g.node("Sub", begun, g.constant(1, np.int64))
