"""Resizing [N, *spatial, C] tensors, and moves between space and channels.

Resizing is linear and separable: along each axis y = W x with a sparse matrix W that depends on sizes and mode only, so
the gradient is the same kernel with W transposed, in both orders.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from pdl.dims import Dim
from pdl.dtype import Array
from pdl.errors import ShapeError, UsageError
from pdl.kernels import rows
from pdl.kernels.copies import contiguous
from pdl.ops.attributes import Axis, Cells
from pdl.ops.base import Arrays, Op, Spec, apply
from pdl.ops.checks import check_floating
from pdl.ops.shape import permute_dims, reshape
from pdl.tensor import Tensor

MODES = {
    "nearest": 0,
    "nearest_exact": 0,
    "linear": 0,
    "bilinear": 2,
    "trilinear": 3,
    "cubic": 0,
    "bicubic": 2,
    "area": 0,
}
#: cells that an axis may have
LONGEST = 2**24


# -- the matrix of one axis --------------------------------------------------------------------------------------------
class Matrix(NamedTuple):
    """Rows of a sparse matrix: row o has the terms start[o] .. start[o + 1] of (source, weight)."""

    start: Array
    source: Array
    weight: Array


def _triangle(x: Array) -> Array:
    return np.maximum(0.0, 1.0 - np.abs(x))


def _cubic(x: Array, a: float) -> Array:
    """Keys' kernel (1981)."""
    x = np.abs(x)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    return np.where(x <= 1, near, np.where(x < 2, ((x - 5) * x + 8) * x * a - 4 * a, 0.0))


def _terms(size: int, out: int, mode: str, align_corners: bool, antialias: bool) -> tuple[Array, Array]:
    """Input cells and their weights, [out, terms]; cells may repeat, weights may be 0."""
    o = np.arange(out, dtype=np.float64)
    scale = (size - 1) / max(1, out - 1) if align_corners else size / out
    if mode == "nearest":
        return np.minimum(np.floor(o * scale), size - 1)[:, None], np.ones((out, 1))
    if mode == "nearest_exact":
        return np.minimum(np.floor((o + 0.5) * scale), size - 1)[:, None], np.ones((out, 1))
    if mode == "area":
        lo, hi = np.arange(out) * size // out, -(-(np.arange(out) + 1) * size // out)
        cells = lo[:, None] + np.arange(int((hi - lo).max()))
        inside = cells < hi[:, None]
        return np.minimum(cells, size - 1), inside / inside.sum(1, keepdims=True)
    at = o * scale if align_corners else (o + 0.5) * scale - 0.5
    cubic = mode == "cubic"
    if antialias:
        scale = max(scale, 1.0)
        reach = (2 if cubic else 1) * scale
        cells = np.floor(at - reach)[:, None] + np.arange(int(np.ceil(2 * reach)) + 2)
        distance = (cells - at[:, None]) / scale
        weight = np.where((cells >= 0) & (cells < size), _cubic(distance, -0.5) if cubic else _triangle(distance), 0)
        return np.clip(cells, 0, size - 1), weight / weight.sum(1, keepdims=True)
    if cubic:
        cells = np.floor(at)[:, None] + np.arange(-1, 3)
        return np.clip(cells, 0, size - 1), _cubic(cells - at[:, None], -0.75)
    cells = np.floor(np.clip(at, 0, size - 1))[:, None] + np.arange(2)
    return np.minimum(cells, size - 1), _triangle(cells - np.clip(at, 0, size - 1)[:, None])


@lru_cache(maxsize=512)
def _matrix(size: int, out: int, mode: str, align_corners: bool, antialias: bool, transposed: bool) -> Matrix:
    cells, weight = _terms(size, out, mode, align_corners, antialias)
    row, column = np.repeat(np.arange(out), cells.shape[1]), cells.astype(np.int64).reshape(-1)
    value = weight.reshape(-1)
    row, column, value = row[value != 0], column[value != 0], value[value != 0]
    if transposed:
        order = np.argsort(column, kind="stable")
        row, column, value, out = column[order], row[order], value[order], size
    start = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=out))]).astype(np.int64)
    return Matrix(start, np.ascontiguousarray(column), np.ascontiguousarray(value))


# -- ops ---------------------------------------------------------------------------------------------------------------
class Resize(Op):
    """x resized to `size` along `axis`; `mode` is nearest, nearest_exact, linear, cubic or area."""

    axis: Axis
    size: Cells
    mode: str
    align_corners: bool = False
    antialias: bool = False
    native = True

    def infer(self, x: Spec) -> Spec:
        check_floating("resize", x=x)
        _check_axis(self, x, x.shape[self.axis] if 0 <= self.axis < len(x.shape) else 0)
        return Spec((*x.shape[: self.axis], self.size, *x.shape[self.axis + 1 :]), x.dtype)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        if not outs[0].size:
            return
        m = _matrix(ins[0].shape[self.axis], self.size, self.mode, self.align_corners, self.antialias, False)
        rows.mix(_middle(outs[0], self.axis), _middle(ins[0], self.axis), *m)

    def vjp(self, g: Tensor, y: Tensor, x: Tensor) -> Any:
        fields = (self.axis, self.size, self.mode, self.align_corners, self.antialias)
        return lambda: apply(ResizeGrad(*fields, x.shape[self.axis]), g)


class ResizeGrad(Op):
    """dx of `Resize` from `length` cells: the transposed matrix applied to g."""

    axis: Axis
    size: Cells
    mode: str
    align_corners: bool
    antialias: bool
    length: Cells
    native = True

    def infer(self, g: Spec) -> Spec:
        check_floating("resize", g=g)
        _check_axis(self, g, self.length)
        if g.shape[self.axis] != self.size:
            raise ShapeError(f"resize: axis {self.axis} of g {g.shape} has {g.shape[self.axis]} cells, not {self.size}")
        return Spec((*g.shape[: self.axis], self.length, *g.shape[self.axis + 1 :]), g.dtype)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        if not outs[0].size:
            return
        m = _matrix(self.length, self.size, self.mode, self.align_corners, self.antialias, True)
        rows.mix(_middle(outs[0], self.axis), _middle(ins[0], self.axis), *m)

    def vjp(self, g: Tensor, y: Tensor, _g: Tensor) -> Any:
        return lambda: apply(Resize(self.axis, self.size, self.mode, self.align_corners, self.antialias), g)


def _check_axis(op: Resize | ResizeGrad, x: Spec, length: int) -> None:
    """Raise unless `axis` of x may go from `length` cells to `size`, in a mode that there is."""
    if MODES.get(op.mode) != 0:
        raise UsageError(
            f"resize: mode {op.mode!r} of one axis must be one of {', '.join(m for m in MODES if not MODES[m])}"
        )
    fits = (1 <= length <= LONGEST and op.size >= 1) or length == op.size == 0
    if not 0 <= op.axis < len(x.shape) or not fits:
        raise ShapeError(
            f"resize: axis {op.axis} of {x.shape} cannot go from {length} to {op.size} cells; "
            f"expected an axis from the front, of 1 to {LONGEST} cells, or none of both"
        )


def _middle(x: Array, axis: int) -> Array:
    """[outer, axis, inner], contiguous."""
    return contiguous(x).reshape(math.prod(x.shape[:axis]), x.shape[axis], math.prod(x.shape[axis + 1 :]))


# -- public functions --------------------------------------------------------------------------------------------------
def resize(
    x: Tensor,
    size: int | Sequence[int] | None = None,
    *,
    scale: float | Sequence[float] | None = None,
    mode: str = "bilinear",
    align_corners: bool = False,
    antialias: bool = False,
) -> Tensor:
    """Resize the spatial axes of x [N, *spatial, C] to `size` (one number or one per axis), or to floor(spatial *
    scale).

    Cell o of O takes the input at (o + 1/2) I / O - 1/2 (pixel centres, as PyTorch and ONNX's half_pixel), or at o (I -
    1) / (O - 1) with `align_corners`; coordinates outside take the edge.
    `mode`: nearest (floor(o I / O), as PyTorch), nearest_exact (rounded pixel centres, as PIL), linear, bilinear,
    trilinear (the same along each axis), cubic or bicubic (Keys' kernel, a = -0.75), area (mean of the cells an output
    cell covers). `antialias`: linear and cubic kernels widen by I / O when shrinking (as PIL, cubic with a = -0.5).
    """
    rank = x.ndim - 2
    sizes = _target("resize", x, size, scale)
    if mode not in MODES:
        raise UsageError(f"resize: mode {mode!r} must be one of {', '.join(MODES)}")
    if MODES[mode] and MODES[mode] != rank:
        raise ShapeError(f"resize: mode {mode} takes {MODES[mode]} spatial axes, x {x.shape} has {rank}")
    kind = {"bilinear": "linear", "trilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    if (align_corners or antialias) and kind not in ("linear", "cubic"):
        raise UsageError(f"resize: align_corners and antialias go with linear and cubic modes, not {mode}")
    for axis in sorted(range(1, rank + 1), key=lambda a: sizes[a - 1] / max(1, x.shape[a])):  # shrinking axes first
        if sizes[axis - 1] != x.shape[axis]:
            x = apply(Resize(axis, sizes[axis - 1], kind, align_corners, antialias), x)
    return x


def upsample_nearest(x: Tensor, scale: int | Sequence[int]) -> Tensor:
    """Repeat each cell of x [N, *spatial, C] `scale` times along each spatial axis."""
    return resize(x, scale=scale, mode="nearest")


def pixel_shuffle(x: Tensor, factor: int) -> Tensor:
    """[N, H, W, C r^2] -> [N, H r, W r, C]; channel c r^2 + i r + j goes to the cell (i, j) of each r by r block
    (PyTorch's order)."""
    return _spread("pixel_shuffle", x, factor, channels_first=True)


def pixel_unshuffle(x: Tensor, factor: int) -> Tensor:
    """[N, H r, W r, C] -> [N, H, W, C r^2]: the inverse of `pixel_shuffle`."""
    return _gather("pixel_unshuffle", x, factor, channels_first=True)


def depth_to_space(x: Tensor, factor: int) -> Tensor:
    """[N, H, W, r^2 C] -> [N, H r, W r, C]; channel (i r + j) C + c goes to the cell (i, j) (TensorFlow's order, ONNX'
    DCR)."""
    return _spread("depth_to_space", x, factor, channels_first=False)


def space_to_depth(x: Tensor, factor: int) -> Tensor:
    """[N, H r, W r, C] -> [N, H, W, r^2 C]: the inverse of `depth_to_space`."""
    return _gather("space_to_depth", x, factor, channels_first=False)


def _spread(name: str, x: Tensor, r: int, *, channels_first: bool) -> Tensor:
    if x.ndim != 4 or r < 1 or x.shape[-1] % (r * r):
        raise ShapeError(f"{name}: x {x.shape} must be [N, H, W, C] with C a multiple of factor^2 = {r * r}")
    n, h, w, depth = x.shape
    c = depth // (r * r)
    parts, axes = (
        ((n, h, w, c, r, r), (0, 1, 4, 2, 5, 3)) if channels_first else ((n, h, w, r, r, c), (0, 1, 3, 2, 4, 5))
    )
    return reshape(permute_dims(reshape(x, parts), axes), (n, h * r, w * r, c))


def _gather(name: str, x: Tensor, r: int, *, channels_first: bool) -> Tensor:
    if x.ndim != 4 or r < 1 or x.shape[1] % r or x.shape[2] % r:
        raise ShapeError(f"{name}: x {x.shape} must be [N, H, W, C] with H and W multiples of factor = {r}")
    n, h, w, c = x.shape
    axes = (0, 1, 3, 5, 2, 4) if channels_first else (0, 1, 3, 2, 4, 5)
    blocks = permute_dims(reshape(x, (n, h // r, r, w // r, r, c)), axes)
    return reshape(blocks, (n, h // r, w // r, c * r * r))


def _target(name: str, x: Tensor, size: Any, scale: Any) -> tuple[int, ...]:
    rank = x.ndim - 2
    if (size is None) == (scale is None):
        raise UsageError(f"{name}: give either size or scale")
    given = size if scale is None else scale
    values = (given,) * rank if isinstance(given, int | float) else tuple(given)
    if rank < 1 or len(values) != rank:
        raise ShapeError(f"{name}: {len(values)} sizes do not fit x {x.shape}, which has {rank} spatial axes")
    return (
        tuple(v if type(v) is Dim else int(v) for v in values)
        if scale is None
        else tuple(n * v if type(v) is int else int(n * v) for n, v in zip(x.shape[1:-1], values, strict=True))
    )


__all__ = [
    "depth_to_space", "pixel_shuffle", "pixel_unshuffle", "resize", "space_to_depth", "upsample_nearest",
]  # fmt: skip
