"""Moves, joins and cuts."""

from __future__ import annotations

from typing import Any

import numpy as np

from pdl.export.onnx.graph import Graph, fixed, symbolic, to_first
from pdl.export.onnx.registry import First, Result, emits
from pdl.ops import shape as ops
from pdl.ops.base import Identity
from pdl.ops.broadcast import BroadcastTo
from pdl.ops.create import OneHot, Tril, Triu
from pdl.ops.index import GetItem
from pdl.ops.linalg import DiagEmbed, Diagonal
from pdl.ops.pad import Pad
from pdl.ops.rnn import Steps
from pdl.ops.rotary import Positions
from pdl.program.ir import Value

#: the end of an axis of any size, for Slice
END = np.iinfo(np.int64).max
START = np.iinfo(np.int64).min + 1


@emits(Identity, ops.Clone)
def identity(g: Graph, op: Identity | ops.Clone, x: Value) -> Result:
    """The same value."""
    g.same(g.outputs[0], x)
    return None


@emits(Positions)
def positions(g: Graph, op: Positions, x: Value) -> Result:
    """Range, of a size that is known at run time alone."""
    n = op.infer(x.spec).shape[0]
    if not symbolic(n):
        return g.constant(np.arange(n), np.int64)
    zero, one = (g.constant(np.array(number), np.int64) for number in (0, 1))
    return g.node("Range", zero, g.node("Squeeze", g.size(n), g.constant([0], np.int64)), one)


@emits(ops.Reshape)
def reshape(g: Graph, op: ops.Reshape, x: Value) -> Result:
    """Reshape. An image flattened keeps the way to its channels-first form, for a product that can use it."""
    shape = op.infer(x.spec).shape
    if flattens(x.spec.shape, shape) and g.prefers_first(x):
        g.defer_flat(g.outputs[0], x)
        return None
    if fits(x.spec.shape, shape):
        return g.node("Reshape", g.plain(x), g.constant(kept(x.spec.shape, shape), np.int64))
    return g.node("Reshape", g.plain(x), g.sizes(shape), allowzero=zeros(g, shape))


def flattens(old: Any, new: Any) -> bool:
    """Whether an image of a known size becomes a row."""
    known = not any(symbolic(n) or n == 0 for n in old[1:])
    return len(new) == 2 and len(old) > 3 and known and same_size(old[0], new[0])


def same_size(a: int, b: int) -> bool:
    """Whether two sizes are equal for every input."""
    if symbolic(a) and symbolic(b):
        return a.text == b.text
    return not symbolic(a) and not symbolic(b) and a == b


def kept(old: Any, new: Any) -> list[int]:
    """Sizes for Reshape: 0 where a symbolic size stays at its place, -1 for one that does not."""
    return [(0 if i < len(old) and same_size(old[i], n) else -1) if symbolic(n) else int(n) for i, n in enumerate(new)]


def fits(old: Any, new: Any) -> bool:
    """Whether `kept` says all: at most one -1, and no size that is 0."""
    sizes = kept(old, new)
    return sizes.count(-1) <= 1 and not any(n == 0 and not symbolic(n) for n in new) and 0 not in old


def zeros(g: Graph, shape: Any) -> int | None:
    """allowzero: a size of 0 is one."""
    return 1 if g.opset >= 14 and any(not symbolic(n) and n == 0 for n in shape) else None


@emits(ops.PermuteDims)
def permute(g: Graph, op: ops.PermuteDims, x: Value) -> Result:
    """Transpose from the layout that x has; no node if that is the requested one."""
    rank = len(x.spec.shape)
    axes = [a % rank for a in op.axes]
    if g.prefers_first(x):
        order = [to_first(rank).index(a) for a in axes]
        return g.transpose(g.first(x), order)
    if tuple(axes) == to_plain_of_first(rank):
        return First(g.plain(x))
    return g.transpose(g.plain(x), axes)


def to_plain_of_first(rank: int) -> tuple[int, ...] | None:
    """The permutation whose result, channels first, is its input: [N, C, *spatial] made [N, *spatial, C]."""
    return (0, *range(2, rank), 1) if rank > 3 else None


@emits(ops.ExpandDims)
def expand_dims(g: Graph, op: ops.ExpandDims, x: Value) -> Result:
    """Unsqueeze."""
    return g.node("Unsqueeze", g.plain(x), g.constant([op.axis % (len(x.spec.shape) + 1)], np.int64))


@emits(ops.Squeeze)
def squeeze(g: Graph, op: ops.Squeeze, x: Value) -> Result:
    """Squeeze."""
    rank = len(x.spec.shape)
    if not op.axes:
        g.same(g.outputs[0], x)
        return None
    name, places, wrap = g.without(x, [a % rank for a in op.axes])
    return wrap(g.node("Squeeze", name, g.constant(places, np.int64)))


@emits(BroadcastTo)
def broadcast_to(g: Graph, op: BroadcastTo, x: Value) -> Result:
    """Expand."""
    return g.node("Expand", g.plain(x), g.sizes(op.shape))


@emits(ops.Flip)
def flip(g: Graph, op: ops.Flip, x: Value) -> Result:
    """Slice backwards."""
    name, wrap = g.either(x)
    places = [g.axis(x, a)[1] for a in op.axes]
    return wrap(cut(g, name, [(-1, START, -1)] * len(places), places) if places else name)


def cut(g: Graph, x: str, ranges: list[tuple[int, int, int]], axes: list[int]) -> str:
    """Slice: (start, end, step) along axes."""
    starts, stops, steps = ([r[i] for r in ranges] for i in range(3))
    inputs = [g.sizes(starts), g.sizes(stops), g.constant(axes, np.int64)]
    return g.node("Slice", x, *inputs, None if set(steps) == {1} else g.constant(steps, np.int64))


@emits(ops.Roll)
def roll(g: Graph, op: ops.Roll, x: Value) -> Result:
    """Two Slices and a Concat."""
    n = x.spec.shape[op.axis]
    name, axis, wrap = g.axis(x, op.axis)
    if not symbolic(n) and op.shift % max(1, n) == 0:
        return wrap(name)
    by = op.shift if symbolic(n) else op.shift % n
    parts = [cut(g, name, [(-by, END, 1)], [axis]), cut(g, name, [(START, -by, 1)], [axis])]
    return wrap(g.node("Concat", *parts, axis=axis))


@emits(ops.Concat)
def concat(g: Graph, op: ops.Concat, *ins: Value) -> Result:
    """Concat."""
    names, wrap = g.alike(*ins)
    rank = len(ins[0].spec.shape)
    axis = op.axis % rank
    return wrap(g.node("Concat", *names, axis=to_first(rank).index(axis) if wrap is First else axis))


@emits(ops.Stack)
def stack(g: Graph, op: ops.Stack, *ins: Value) -> Result:
    """Unsqueeze and Concat."""
    axis = op.axis % (len(ins[0].spec.shape) + 1)
    at = g.constant([axis], np.int64)
    return g.node("Concat", *[g.node("Unsqueeze", g.plain(x), at) for x in ins], axis=axis)


@emits(Pad)
def pad(g: Graph, op: Pad, x: Value) -> Result:
    """Pad with a constant."""
    name, wrap = g.either(x)
    order = to_first(len(op.widths)) if wrap is First else range(len(op.widths))
    widths = [op.widths[a] for a in order]
    amounts = g.sizes([w[0] for w in widths] + [w[1] for w in widths])
    return wrap(g.node("Pad", name, amounts, g.like(op.value, x.spec)))


@emits(GetItem)
def getitem(g: Graph, op: GetItem, x: Value) -> Result:
    """Slice for ranges, Squeeze for single places, Unsqueeze for new dimensions."""
    entries = [e for e in op.key if e is not None]
    only_ranges = len(entries) == len(op.key) and all(isinstance(e, tuple) for e in entries)
    name, wrap = g.either(x) if only_ranges else (g.plain(x), str)
    rank = len(x.spec.shape)
    ranges, axes = [], []
    for axis, entry in enumerate(entries):
        if entry == (None, None, None):
            continue
        ranges.append(bounds(entry))
        axes.append(to_first(rank).index(axis) if wrap is First else axis)
    y = cut(g, name, ranges, axes) if axes else name
    gone = [axis for axis, entry in enumerate(entries) if not isinstance(entry, tuple)]
    y = g.node("Squeeze", y, g.constant(gone, np.int64)) if gone else y
    kept_entries = [e for e in op.key if e is None or isinstance(e, tuple)]
    new = [i for i, entry in enumerate(kept_entries) if entry is None]
    return wrap(g.node("Unsqueeze", y, g.constant(new, np.int64)) if new else y)


def bounds(entry: Any) -> tuple[int, int, int]:
    """An entry of a key as start, end and step of a Slice."""
    if not isinstance(entry, tuple):
        return entry, END if entry == -1 else entry + 1, 1
    start, stop, step = entry
    step = 1 if step is None else step
    first, last = (0, END) if step > 0 else (-1, START)
    return first if start is None else start, last if stop is None else stop, step


@emits(Tril, Triu)
def triangle(g: Graph, op: Tril, x: Value) -> Result:
    """Trilu from opset 14 on, before a choice between x and 0."""
    upper = isinstance(op, Triu)
    if g.opset >= 14 and x.spec.dtype.kind == "f":
        return g.node("Trilu", g.plain(x), g.constant(op.k, np.int64), upper=int(upper))
    rows, columns = (fixed(n) for n in x.spec.shape[-2:])
    lower = np.tri(rows, columns, op.k - 1 if upper else op.k, dtype=np.bool_)
    return g.node("Where", g.constant(~lower if upper else lower), g.plain(x), g.like(0, x.spec))


@emits(OneHot)
def one_hot(g: Graph, op: OneHot, x: Value) -> Result:
    """Equal to each class: ONNX's OneHot counts negative classes from the end."""
    column = g.node("Unsqueeze", g.plain(x), g.constant([len(x.spec.shape)], np.int64))
    return g.cast(g.node("Equal", column, g.constant(np.arange(op.num_classes).astype(x.spec.dtype))), op.dtype)


@emits(Diagonal)
def diagonal(g: Graph, op: Diagonal, x: Value) -> Result:
    """Gather from the matrices as rows of numbers."""
    rows, columns = (fixed(n) for n in x.spec.shape[-2:])
    at = np.diagonal(np.arange(rows * columns).reshape(rows, columns), op.offset)
    shape = [*x.spec.shape[:-2], rows * columns]
    flat = g.node("Reshape", g.plain(x), g.sizes(shape), allowzero=zeros(g, shape))
    return g.node("Gather", flat, g.constant(at, np.int64), axis=-1)


@emits(DiagEmbed)
def diag_embed(g: Graph, op: DiagEmbed, x: Value) -> Result:
    """A choice between x spread over rows and 0."""
    rows, columns = (fixed(n) for n in op.size)
    spread = np.zeros(rows * columns, np.int64)
    inside = np.zeros(rows * columns, np.bool_)
    at = np.diagonal(np.arange(rows * columns).reshape(rows, columns), op.offset)
    spread[at], inside[at] = np.arange(len(at)), True
    taken = g.node("Gather", g.plain(x), g.constant(spread), axis=-1)
    chosen = g.node("Where", g.constant(inside), taken, g.like(0, x.spec))
    return g.node("Reshape", chosen, g.sizes([*x.spec.shape[:-1], rows, columns]))


@emits(Steps)
def steps(g: Graph, op: Steps, x: Value) -> Result:
    """Split and Squeeze."""
    count, axis = fixed(x.spec.shape[1]), g.constant([1], np.int64)
    parts = g.nodes_of("Split", g.plain(x), g.constant([1] * count, np.int64), outputs=count, axis=1)
    made = tuple(g.node("Squeeze", part, axis) for part in parts)
    return made if count > 1 else made[0]
