"""Pooling and resizing: channels first."""

from __future__ import annotations

from typing import Any

import numpy as np

from pdl.dtype import Array
from pdl.errors import UsageError
from pdl.export.onnx.emit_image import pads, static
from pdl.export.onnx.graph import Graph, symbolic
from pdl.export.onnx.registry import NOT_WRITTEN, Entry, First, Result, emits
from pdl.ops.pool import AdaptiveAvgPool, AdaptiveMaxPool, AvgPool, MaxPool
from pdl.ops.regions import GridSample, RoiAlign, RoiMax
from pdl.ops.resize import Resize, _matrix
from pdl.program.ir import Value


# -- windows -----------------------------------------------------------------------------------------------------------
def ends(op: Any, sizes: Any, out: Any) -> list[tuple[int, int]]:
    """The padding that makes a pooling without `ceil_mode` give `out` cells: windows over the end get more of it."""
    found = []
    for n, o, k, s, d, (before, _) in zip(sizes, out, op.kernel, op.stride, op.steps(), op.padding, strict=True):
        found.append((int(before), max(0, (int(o) - 1) * s + (k - 1) * d + 1 - int(n) - before)))
    return found


@emits(MaxPool)
def max_pool(g: Graph, op: MaxPool, x: Value) -> Result:
    """MaxPool; ceil_mode is written as padding, which a maximum does not see."""
    sizes = x.spec.shape[1:-1]
    shape = {"kernel_shape": list(op.kernel), "strides": list(op.stride), "dilations": list(op.dilation)}
    how: dict[str, Any] = shape | {"pads": pads(op.padding), "ceil_mode": int(op.ceil_mode) or None}
    if static(sizes):
        out = op.infer(x.spec)[0].shape[1:-1]
        how = shape | {"pads": pads(ends(op, sizes, out))}
    if not g.read(1):
        return First(g.node("MaxPool", g.first(x), **how)), None
    y, at = g.nodes_of("MaxPool", g.first(x), outputs=2, **how)
    return First(y), First(place(g, at, sizes))


def place(g: Graph, at: str, sizes: Any) -> str:
    """ONNX's flat indices into the whole tensor as flat spatial positions."""
    count = g.node("ReduceProd", g.sizes(sizes), keepdims=1)
    return g.cast(g.node("Mod", at, count), np.int32)


@emits(AvgPool)
def avg_pool(g: Graph, op: AvgPool, x: Value) -> Result:
    """AveragePool; windows over the end become padding where padding is not counted."""
    sizes = x.spec.shape[1:-1]
    how: dict[str, Any] = {"pads": pads(op.padding), "ceil_mode": int(op.ceil_mode) or None}
    if static(sizes) and not op.count_include_pad:
        how = {"pads": pads(ends(op, sizes, op.infer(x.spec).shape[1:-1]))}
    return First(g.node(
        "AveragePool", g.first(x), kernel_shape=list(op.kernel), strides=list(op.stride),
        count_include_pad=int(op.count_include_pad) or None, **how,
    ))  # fmt: skip


def even(sizes: Any, out: Any) -> bool:
    """Whether adaptive windows are all alike."""
    return static(sizes) and all(n % o == 0 for n, o in zip(sizes, out, strict=True))


@emits(AdaptiveAvgPool)
def adaptive_avg_pool(g: Graph, op: AdaptiveAvgPool, x: Value) -> Result:
    """GlobalAveragePool, AveragePool where windows are alike, else a product with a matrix of shares per axis."""
    sizes = x.spec.shape[1:-1]
    if all(n == 1 for n in op.size):
        return First(g.node("GlobalAveragePool", g.first(x)))
    if even(sizes, op.size):
        return First(g.node("AveragePool", g.first(x), **alike(sizes, op.size)))
    if not static(sizes):
        return NOT_WRITTEN
    y = g.first(x)
    for axis, (n, out) in enumerate(zip(sizes, op.size, strict=True)):
        y = mix(g, y, len(x.spec.shape), axis + 2, shares(n, out).astype(x.spec.dtype))
    return First(y)


def alike(sizes: Any, out: Any) -> dict[str, Any]:
    """Kernel and stride of even adaptive windows."""
    kernel = [int(n) // int(o) for n, o in zip(sizes, out, strict=True)]
    return {"kernel_shape": kernel, "strides": kernel}


def windows(n: int, out: int) -> list[range]:
    """The cells of each adaptive window of an axis."""
    return [range(o * n // out, -(-(o + 1) * n // out)) for o in range(out)]


def shares(n: int, out: int) -> Array:
    """[out, n]: the share of each cell in each window's mean."""
    found = np.zeros((out, n))
    for row, cells in zip(found, windows(n, out), strict=True):
        row[cells] = 1 / len(cells)
    return found


def mix(g: Graph, x: str, rank: int, axis: int, matrix: Array) -> str:
    """A matrix [out, n] applied along an axis."""
    if axis == rank - 2:
        return g.node("MatMul", g.constant(matrix), x)
    order = [a for a in range(rank) if a != axis] + [axis]
    y = g.node("MatMul", g.transpose(x, order), g.constant(matrix.T))
    return g.transpose(y, [int(i) for i in np.argsort(order)])


@emits(AdaptiveMaxPool)
def adaptive_max_pool(g: Graph, op: AdaptiveMaxPool, x: Value) -> Result:
    """GlobalMaxPool, MaxPool where windows are alike, else per axis a Gather of the windows and their maximum."""
    sizes, y = x.spec.shape[1:-1], g.first(x)
    if g.read(1):
        return _indexed(g, op, x) if even(sizes, op.size) else NOT_WRITTEN
    if all(n == 1 for n in op.size):
        return First(g.node("GlobalMaxPool", y)), None
    if even(sizes, op.size):
        return First(g.node("MaxPool", y, **alike(sizes, op.size))), None
    if not static(sizes):
        return NOT_WRITTEN
    for axis, (n, out) in enumerate(zip(sizes, op.size, strict=True)):
        cells = windows(n, out)
        width = max(map(len, cells))
        index = [[*c, *[c[-1]] * (width - len(c))] for c in cells]  # a repeated cell changes no maximum
        y = g.reduce("ReduceMax", g.node("Gather", y, g.constant(index, np.int64), axis=axis + 2), [axis + 3],
                     keepdims=False)  # fmt: skip
    return First(y), None


def _indexed(g: Graph, op: AdaptiveMaxPool, x: Value) -> tuple[Entry, ...]:
    sizes = x.spec.shape[1:-1]
    y, at = g.nodes_of("MaxPool", g.first(x), outputs=2, **alike(sizes, op.size))
    return First(y), First(place(g, at, sizes))


# -- resizing ----------------------------------------------------------------------------------------------------------
#: mode -> attributes of ONNX's Resize that mean the same
RESIZE: dict[str, dict[str, Any]] = {
    "nearest": {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
    "nearest_exact": {
        "mode": "nearest", "coordinate_transformation_mode": "half_pixel", "nearest_mode": "round_prefer_ceil",
    },
    "linear": {"mode": "linear", "coordinate_transformation_mode": "half_pixel"},
    "cubic": {"mode": "cubic", "coordinate_transformation_mode": "half_pixel", "cubic_coeff_a": -0.75},
}  # fmt: skip


def before(g: Graph, x: Value, op: Resize) -> tuple[Resize, Value] | None:
    """The Resize that makes x, and what it resizes, if both are one: x has no other reader, and mode and alignment are
    the same.
    """
    node = g.resolve(x).node
    if node is None or not isinstance(node.op, Resize) or g.readers(x) != 1 or node.inputs[0] is None:
        return None
    mine, theirs = ((o.mode, o.align_corners, o.antialias) for o in (op, node.op))
    return (node.op, node.inputs[0]) if mine == theirs else None


@emits(Resize)
def resize(g: Graph, op: Resize, x: Value) -> Result:
    """Resize of an axis, or of all axes that ops in a row resize alike; "area", and what a runtime may lack, as a
    product with the matrix that pdl's own kernel uses.
    """
    rank, sizes, source = len(x.spec.shape), {op.axis: op.size}, x
    spatial = 0 < op.axis % rank < rank - 1
    if op.mode == "area" or op.antialias or rank != 4 or not spatial:
        return _as_product(g, op, x)
    while (found := before(g, source, op)) is not None and found[0].axis not in sizes:
        sizes[found[0].axis], source = found[0].size, found[1]
    how = dict(RESIZE[op.mode])
    if op.align_corners:
        how["coordinate_transformation_mode"] = "align_corners"
    n, *cells, channels = [sizes.get(a, size) for a, size in enumerate(source.spec.shape)]
    return First(g.node("Resize", g.first(source), None, None, g.sizes([n, channels, *cells]), **how))


def _as_product(g: Graph, op: Resize, x: Value) -> Result:
    rank, n = len(x.spec.shape), x.spec.shape[op.axis]
    if symbolic(n) or symbolic(op.size):
        return NOT_WRITTEN
    start, source, weight = _matrix(int(n), int(op.size), op.mode, op.align_corners, op.antialias, False)
    matrix = np.zeros((int(op.size), int(n)))
    np.add.at(matrix, (np.repeat(np.arange(len(matrix)), np.diff(start)), source), weight)
    name, axis, wrap = g.axis(x, op.axis)
    return wrap(mix(g, name, rank, axis, matrix.astype(x.spec.dtype)))


# -- reading at points -------------------------------------------------------------------------------------------------
@emits(GridSample)
def grid_sample(g: Graph, op: GridSample, x: Value, grid: Value) -> Result:
    """GridSample, which opset 20 gave other names for its modes."""
    g.require(16)
    names = {"bilinear": "linear", "bicubic": "cubic"} if g.opset >= 20 else {}
    how = {"padding_mode": op.padding_mode, "align_corners": int(op.align_corners)}
    return First(g.node("GridSample", g.first(x), g.plain(grid), mode=names.get(op.mode, op.mode), **how))


@emits(RoiAlign, RoiMax)
def roi_align(g: Graph, op: RoiAlign | RoiMax, x: Value, rois: Value, index: Value) -> Result:
    """RoiAlign, whose pixels have their centres at whole numbers before opset 16; regions on no image are put to 0."""
    rows, columns = op.size
    if op.half_pixel:
        g.require(16)
    if g.opset >= 22:
        raise UsageError("needs opset 21 or an older one: ONNX Runtime has no later RoiAlign")
    kind = "half_pixel" if op.half_pixel else "output_half_pixel"
    how: dict[str, Any] = {"coordinate_transformation_mode": kind} if g.opset >= 16 else {}
    at, known = g.cast(g.plain(index), np.int64), g.array(index)
    zero = g.constant(0, np.int64)
    y = g.node(
        "RoiAlign", g.first(x), g.plain(rois), g.node("Max", at, zero), output_height=rows, output_width=columns,
        mode="max" if op.largest else "avg", sampling_ratio=op.ratio, spatial_scale=op.scale, **how,
    )  # fmt: skip
    if known is not None and (known >= 0).all():
        return First(y)
    nowhere = g.node("Unsqueeze", g.node("Less", at, zero), g.constant([1, 2, 3], np.int64))
    return First(g.node("Where", nowhere, g.like(0, x.spec), y))
