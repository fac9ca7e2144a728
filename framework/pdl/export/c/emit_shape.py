"""Ops that move elements: views that need a copy, joins, padding, gathers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pdl.export.c.registry import Refused, emits
from pdl.export.c.source import Source, Strided, number, row_major, type_of
from pdl.ops.base import OPS
from pdl.ops.embedding import Embedding
from pdl.ops.index import Gather, GetAt
from pdl.ops.pad import Pad
from pdl.ops.shape import Clone, Concat, Roll, Stack
from pdl.program.ir import Node, Value


@emits(*(kind for kind in OPS.values() if kind.view is not None and kind.__name__ not in ("Real", "Imag")))
def view(c: Source, node: Node) -> None:
    """A window on the input, which the plan left in place where it is dense; else its elements, one by one."""
    x, y = node.inputs[0], node.outputs[0]
    assert x is not None
    assert node.op.view is not None
    if y in c.plan.views:
        return
    shape = tuple(map(int, x.spec.shape))
    source = np.empty(shape, x.spec.dtype)
    window = node.op.view(source)
    size = source.itemsize
    if not (window.size and np.may_share_memory(window, source)):  # a reshape of what is dense: the same order
        window = source.reshape(tuple(map(int, y.spec.shape)))
    offset = (window.ctypes.data - source.ctypes.data) // size
    _copy(c, y, x, window.shape, tuple(s // size for s in window.strides), offset)


@emits(Clone)
def clone(c: Source, node: Node) -> None:
    """A copy."""
    x = node.inputs[0]
    assert x is not None
    _copy(c, node.outputs[0], x, tuple(map(int, x.spec.shape)), row_major(tuple(map(int, x.spec.shape))), 0)


def _copy(c: Source, y: Value, x: Value, shape: Sequence[int], strides: tuple[int, ...], offset: int) -> None:
    """y, dense, = the elements of x at an offset, with strides."""
    kind = type_of(x.spec.dtype)
    at = f"{c.at(x)} + {offset}" if offset else c.at(x)
    into = Strided(c.at(y), kind, row_major(tuple(shape)))
    c.nest(shape, {"y": into, "x": Strided(at, kind, strides)}, "{y} = {x};")


def _place(c: Source, y: Value, x: Value, strides: tuple[int, ...], offset: int) -> None:
    """The elements of x, dense, at an offset of y, with strides."""
    kind, shape = type_of(x.spec.dtype), tuple(map(int, x.spec.shape))
    at = f"{c.at(y)} + {offset}" if offset else c.at(y)
    c.nest(shape, {"y": Strided(at, kind, strides), "x": c.dense(x)}, "{y} = {x};")


@emits(Concat, Stack)
def join(c: Source, node: Node) -> None:
    """Each input at its place."""
    y = node.outputs[0]
    shape = tuple(map(int, y.spec.shape))
    axis: int = node.op.axis % len(shape)  # type: ignore[attr-defined]
    strides, start = row_major(shape), 0
    for x in node.inputs:
        assert x is not None
        stacked = isinstance(node.op, Stack)
        walk = tuple(s for i, s in enumerate(strides) if i != axis) if stacked else strides
        _place(c, y, x, walk, start * strides[axis])
        start += 1 if stacked else int(x.spec.shape[axis])


@emits(Pad)
def pad(c: Source, node: Node) -> None:
    """The value everywhere, and x inside."""
    op: Any = node.op
    x, y = node.inputs[0], node.outputs[0]
    assert x is not None
    shape = tuple(map(int, y.spec.shape))
    value = number(op.value) if y.spec.dtype.name == "float32" else str(int(op.value))
    c.nest(shape, {"y": c.dense(y)}, f"{{y}} = {value};")
    strides = row_major(shape)
    _place(c, y, x, strides, sum(int(w[0]) * s for w, s in zip(op.widths, strides, strict=True)))


@emits(Roll)
def roll(c: Source, node: Node) -> None:
    """Two copies."""
    op: Any = node.op
    x, y = node.inputs[0], node.outputs[0]
    assert x is not None
    shape = tuple(map(int, x.spec.shape))
    axis, strides, kind = op.axis % len(shape), row_major(shape), type_of(x.spec.dtype)
    cut = op.shift % max(1, shape[axis])
    for size, into, of in ((cut, 0, shape[axis] - cut), (shape[axis] - cut, cut, 0)):
        part = (*shape[:axis], size, *shape[axis + 1 :])
        ends = [f"{c.at(v)} + {n * strides[axis]}" for v, n in ((y, into), (x, of))]
        c.nest(part, {"y": Strided(ends[0], kind, strides), "x": Strided(ends[1], kind, strides)}, "{y} = {x};")


@emits(Embedding)
def embedding(c: Source, node: Node) -> None:
    """A row for each number."""
    table, index = node.inputs
    assert table is not None
    _rows(c, node.outputs[0], table, index, 1, int(table.spec.shape[0]), int(table.spec.shape[1]))


@emits(GetAt)
def get_at(c: Source, node: Node) -> None:
    """Slices along one axis."""
    op: Any = node.op
    x, *index = node.inputs
    assert x is not None
    if len(index) != 1:
        raise Refused("it indexes several axes")
    shape, axis = tuple(map(int, x.spec.shape)), op.axes[0] % len(x.spec.shape)
    _rows(c, node.outputs[0], x, index[0], math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :]))


def _rows(c: Source, y: Value, x: Value, index: Value | None, outer: int, rows: int, inner: int) -> None:
    """y [outer, index, inner] = x [outer, rows, inner] at places; negative ones count from the end."""
    assert index is not None
    count = math.prod(map(int, index.spec.shape))
    c.open("")
    c.line(f"const {type_of(x.spec.dtype)} *x = {c.at(x)};")
    c.line(f"const {type_of(index.spec.dtype)} *index = {c.at(index)};")
    c.line(f"{type_of(y.spec.dtype)} *y = {c.at(y)};")
    c.open(f"for (long o = 0; o < {outer}; o++)")
    c.open(f"for (long i = 0; i < {count}; i++, y += {inner})")
    c.line(f"const long row = index[i] < 0 ? (long)index[i] + {rows} : (long)index[i];")
    c.line(
        f"for (long k = 0; k < {inner}; k++) y[k] = row >= 0 && row < {rows} ? x[(o * {rows} + row) * {inner} + k] : 0;"
    )
    c.close(3)


@emits(Gather)
def gather(c: Source, node: Node) -> None:
    """One element for each index, along an axis."""
    op: Any = node.op
    (x, index), y = node.inputs, node.outputs[0]
    assert x is not None
    assert index is not None
    shape = tuple(map(int, index.spec.shape))
    axis, own = op.axis % len(shape), row_major(tuple(map(int, x.spec.shape)))
    walk = tuple(0 if i == axis else s for i, s in enumerate(own))
    n = int(x.spec.shape[axis])
    arrays = {"y": c.dense(y), "index": c.dense(index), "x": Strided(c.at(x), type_of(x.spec.dtype), walk)}
    body = f"const long k = {{index}} < 0 ? (long){{index}} + {n} : (long){{index}}; {{y}} = k >= 0 && k < {n} ? (&{{x}})[k * {own[axis]}] : 0;"  # noqa: E501
    c.nest(shape, arrays, body)
