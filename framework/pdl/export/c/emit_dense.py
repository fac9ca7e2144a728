"""Products: convolutions, linear layers, matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pdl.dtype import Array
from pdl.export.c.emit_pointwise import activate
from pdl.export.c.registry import Refused, emits
from pdl.export.c.source import Source, number, row_major
from pdl.ops.conv import Conv, ConvDx
from pdl.ops.inference import ConvThen, LinearThen
from pdl.ops.linalg import Linear, MatMul
from pdl.program.ir import Node, Value

PANEL = 8
#: pixels that a tile has at most (ROWS of templates/dense.c, QROWS of bytes.c)
MOST_ROWS = 6
#: G of F(4x4, 3x3), for the points 0, 1, -1, 2, -2 and infinity (Lavin and Gray, arXiv 1509.09308)
_TO_FILTERS = np.array(
    [[1 / 4, 0, 0], [-1 / 6, -1 / 6, -1 / 6], [-1 / 6, 1 / 6, -1 / 6], [1 / 24, 1 / 12, 1 / 6],
     [1 / 24, -1 / 12, 1 / 6], [0, 0, 1]]
)  # fmt: skip
_BOUNDS = {"": (-math.inf, math.inf), "relu": (0.0, math.inf)}


def panels(w: Array) -> Array:
    """Weights [taps, inputs, outputs] as [outputs / PANEL][taps][inputs][PANEL], zeros behind the last output."""
    taps, inputs, outputs = w.shape
    padded = np.zeros((taps, inputs, -(-outputs // PANEL) * PANEL), w.dtype)
    padded[..., :outputs] = w
    return padded.reshape(taps, inputs, -1, PANEL).transpose(2, 0, 1, 3)


def padded(b: Array | None, outputs: int, dtype: Any = np.float32) -> Array:
    """A bias for whole panels, zeros where there is none."""
    made = np.zeros(-(-outputs // PANEL) * PANEL, dtype)
    if b is not None:
        made[:outputs] = b
    return made


def two_axes(op: Any, *shapes: Sequence[int]) -> tuple[Any, ...]:
    """The window of an op of one or two spatial axes as that of two, and shapes [N, *spatial, C] with two."""
    rank = len(op.stride)
    if rank > 2:
        raise Refused("of its three spatial axes: kernels here have one or two")
    more = 2 - rank
    window = [(fill,) * more + tuple(v) for v, fill in ((op.stride, 1), (op.padding, (0, 0)), (op.dilation, 1))]
    return (*window, *((s[0], *(1,) * more, *s[1:]) for s in shapes))


def window(
    c: Source, op: Any, x: Sequence[int], y: Sequence[int], w: Sequence[int], bounds: tuple[float, float]
) -> str:
    """The struct `Window` of a convolution of x to y with weights [*kernel, C/groups, O], of one of its groups."""
    stride, padding, dilation, xs, ys = two_axes(op, tuple(map(int, x)), tuple(map(int, y)))
    kernel = (1,) * (4 - len(w)) + tuple(w[:-2])
    return c.struct(
        "Window", images=xs[0], height=xs[1], width=xs[2], channels=xs[3], out_height=ys[1], out_width=ys[2],
        out_channels=ys[3], inputs=w[-2], outputs=w[-1] // op.groups, kernel_h=kernel[0], kernel_w=kernel[1],
        stride_h=stride[0], stride_w=stride[1], pad_h=padding[0][0], pad_w=padding[1][0], dilation_h=dilation[0],
        dilation_w=dilation[1], low=number(bounds[0]), high=number(bounds[1]),
    )  # fmt: skip


def _suits_winograd(op: Any, w: Array, ys: Sequence[int]) -> bool:
    """Whether a product is one of 3x3 taps side by side, between enough channels and pixels to win by it."""
    window = getattr(op, "stride", ()), getattr(op, "dilation", ()), op.groups, w.shape[:2]
    many = w.shape[-2] >= 16 and w.shape[-2] % PANEL == w.shape[-1] % PANEL == 0
    return window == ((1, 1), (1, 1), 1, (3, 3)) and many and math.prod(ys[1:-1]) >= 192


def filters(w: Array) -> Array:
    """Weights [3, 3, inputs, outputs] as products of Winograd's F(4x4, 3x3) read them: [36][outputs / PANEL][inputs]
    [PANEL]."""
    u = np.einsum("ia,abco,jb->ijco", _TO_FILTERS, w.astype(np.float64), _TO_FILTERS).astype(np.float32)
    return u.reshape(36, w.shape[2], -1, PANEL).transpose(0, 2, 1, 3)


class _Row:
    """The window of a linear layer: single pixels."""

    stride, padding, dilation, groups = (1, 1), ((0, 0), (0, 0)), (1, 1), 1


def as_row(value: Value) -> tuple[int, ...]:
    """[..., C] as [1, 1, rows, C]."""
    shape = tuple(map(int, value.spec.shape))
    return (1, 1, math.prod(shape[:-1]), shape[-1])


def shifted(at: str, by: int) -> str:
    """A pointer, moved; none stays none."""
    return at if not by or at == "0" else f"{at} + {by}"


def _float(node: Node) -> None:
    for value in (*node.inputs, *node.outputs):
        if value is not None and value.spec.dtype.name != "float32":
            raise Refused(f"it computes in {value.spec.dtype.name}; kernels here are of float32")


def _product(c: Source, node: Node, op: Any, xs: Sequence[int], ys: Sequence[int], w: Array) -> None:
    """y = f(product + b (+ residual)) with the window of `op`."""
    _float(node)
    x, _, bias, residual = (*node.inputs, None, None)[:4]
    y, name = node.outputs[0], getattr(node.op, "activation", "")
    bounds = _BOUNDS.get(name, _BOUNDS[""])
    if name == "clip":
        bounds = node.op.parameters  # type: ignore[attr-defined]
    b = None if bias is None else c.constant(bias, "bias")
    g, groups, outputs = window(c, op, xs, ys, w.shape, bounds), op.groups, w.shape[-1]
    into, of, more = c.at(y), c.at(x), c.at(residual)
    if groups == xs[-1] == outputs and groups > 1:
        weights = c.array(w.reshape(-1, outputs))
        c.call("depthwise", into, of, weights, c.array(padded(b, outputs)[:outputs]), more, g)
    elif c.fast and _suits_winograd(op, w, ys):
        inputs = w.shape[-2]
        room = f"(float *){c.scratch(36 * MOST_ROWS * (inputs + outputs) * 4)}"
        c.call("winograd", into, room, of, c.array(filters(w)), c.array(padded(b, outputs)), more, g)
    else:
        own, inputs = outputs // groups, w.shape[-2]
        c.most_inputs = max(c.most_inputs, inputs)
        for group in range(groups):
            part = slice(group * own, (group + 1) * own)
            weights = c.array(panels(w[..., part].reshape(-1, inputs, own)))
            start = c.array(padded(None if b is None else b[part], own))
            c.call_copy(
                "conv", g, shifted(into, group * own), shifted(of, group * inputs), weights, start,
                shifted(more, group * own),
            )  # fmt: skip
    if name and name != "clip" and name not in _BOUNDS:
        activate(c, y, name, node.op.parameters)  # type: ignore[attr-defined]


@emits(Conv, ConvThen)
def conv(c: Source, node: Node) -> None:
    """Direct sums; groups of one channel have a kernel of their own."""
    w = c.constant(node.inputs[1], "weights")
    assert node.inputs[0] is not None
    _product(c, node, node.op, node.inputs[0].spec.shape, node.outputs[0].spec.shape, w)


@emits(Linear, LinearThen)
def linear(c: Source, node: Node) -> None:
    """A convolution of single pixels."""
    assert node.inputs[0] is not None
    x, y = as_row(node.inputs[0]), as_row(node.outputs[0])
    if node.inputs[1] is not None and node.inputs[1].tensor is None and node.inputs[2:] in ((None,), ()):
        _float(node)
        return c.call("matmul", c.at(node.outputs[0]), c.at(node.inputs[0]), c.at(node.inputs[1]), x[2], x[3], y[3])
    w = c.constant(node.inputs[1], "weights")
    return _product(c, node, _Row(), x, y, w[None])


@emits(ConvDx)
def transposed(c: Source, node: Node) -> None:
    """The gradient of a convolution's input, which is a transposed convolution."""
    _float(node)
    g, weights = node.inputs
    assert g is not None
    assert isinstance(node.op, ConvDx)
    op, w, y = node.op, c.constant(weights, "weights"), node.outputs[0]
    inputs, own = w.shape[-2], w.shape[-1] // op.groups
    shape = window(c, op, y.spec.shape, g.spec.shape, w.shape, _BOUNDS[""])
    c.use("window")
    for group in range(op.groups):
        part = c.array(w[..., group * own : (group + 1) * own])
        c.call("transposed", shifted(c.at(y), group * inputs), shifted(c.at(g), group * own), part, shape)


@emits(MatMul)
def matmul(c: Source, node: Node) -> None:
    """A product for each of the leading indices."""
    _float(node)
    (a, b), y = node.inputs, node.outputs[0]
    assert a is not None
    assert b is not None
    shape = tuple(map(int, y.spec.shape))
    lead, (m, n), k = shape[:-2], shape[-2:], int(a.spec.shape[-1])
    offsets = []
    for value in (a, b):
        own = tuple(map(int, value.spec.shape))
        strides = (0,) * (len(shape) - len(own)) + tuple(
            0 if d == 1 else s for d, s in zip(own, row_major(own), strict=True)
        )
        offsets.append(strides[: len(lead)])
    indices = [f"b{i}" for i in range(len(lead))]
    for index, size in zip(indices, lead, strict=True):
        c.open(f"for (long {index} = 0; {index} < {size}; {index}++)")

    def moved(at: str, strides: Sequence[int]) -> str:
        return " + ".join([at, *(f"{i} * {s}" for i, s in zip(indices, strides, strict=True) if s)])

    places = [moved(c.at(v), o) for v, o in zip((a, b), offsets, strict=True)]
    c.call("matmul", moved(c.at(y), row_major(shape)[: len(lead)]), *places, m, k, n)
    c.close(len(lead))
