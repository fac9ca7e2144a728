"""Images [N, H, W, C] read where a net says: at the points of a grid, in regions of interest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, TypeAlias

import numpy as np

from pdl.dtype import int64
from pdl.errors import DtypeError, ShapeError, UsageError
from pdl.hints import Choice, Range
from pdl.kernels import image
from pdl.kernels.copies import contiguous
from pdl.ops.attributes import Cells, Length
from pdl.ops.base import Arrays, Fused, Op, Spec, apply, compose_vjp, not_differentiable
from pdl.ops.cast import as_tensors, astype
from pdl.ops.checks import check_floating, check_specs
from pdl.ops.create import arange
from pdl.ops.elementwise import abs as absolute
from pdl.ops.elementwise import clip, floor, remainder, round, where
from pdl.ops.linalg import matmul
from pdl.ops.logic import logical_and
from pdl.ops.precision import in_float32, in_full
from pdl.ops.segment import check_ids, segment_take
from pdl.ops.shape import broadcast_to, expand_dims, matrix_transpose, reshape, stack
from pdl.tensor import Tensor, TensorLike, as_tensor

Between: TypeAlias = Annotated[str, Choice(("bilinear", "nearest", "bicubic"))]
Padding: TypeAlias = Annotated[str, Choice(("zeros", "border", "reflection"))]
#: samples of a bin along one axis
Samples: TypeAlias = Annotated[int, Range(0, 2**12)]
#: what coordinates are multiplied by
Scale: TypeAlias = Annotated[float, Range(above=0)]


# -- points ------------------------------------------------------------------------------------------------------------
class GridSample(Fused):
    """x [N, H, W, C] at the points grid [N, H', W', 2]; see `grid_sample`."""

    mode: Between = "bilinear"
    padding_mode: Padding = "zeros"
    align_corners: bool = False
    native = True

    def infer(self, x: Spec, grid: Spec) -> Spec:
        check_floating("grid_sample", x=x, grid=grid)
        if x.dtype != grid.dtype:
            raise DtypeError(f"grid_sample: x is {x.dtype.name}, grid {grid.dtype.name}; expected one dtype")
        fits = len(x.shape) == len(grid.shape) == 4 and x.shape[0] == grid.shape[0] and grid.shape[3] == 2
        if not fits or 0 in x.shape[1:3]:
            raise ShapeError(
                f"grid_sample: x {x.shape} and grid {grid.shape} must be [N, H, W, C] and [N, H', W', 2] with one N, "
                "H and W at least 1"
            )
        return Spec((*grid.shape[:3], x.shape[3]), x.dtype)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        x, grid = map(contiguous, ins)
        image.grid_sample(outs[0], x, grid, self.mode, self.padding_mode, self.align_corners)

    def compose(self, x: Tensor, grid: Tensor) -> Tensor:
        axes = (grid[..., 1], x.shape[1]), (grid[..., 0], x.shape[2])
        rows, columns = (self._taps(at, size) for at, size in axes)
        total: Tensor | None = None
        for row, wy in rows:
            for column, wx in columns:
                cells = _cells(x, row, column)
                part = cells if wy is None or wx is None else cells * expand_dims(wy * wx, axis=3)
                total = part if total is None else total + part
        assert total is not None
        return total

    def _taps(self, at: Tensor, size: int) -> list[tuple[Tensor, Tensor | None]]:
        """The cells that are read along an axis, with their weights."""
        at = (at + 1) * ((size - 1) / 2) if self.align_corners else ((at + 1) * size - 1) / 2
        if self.mode == "nearest":
            return [(round(self._inside(at, size)), None)]
        at = at if self.mode == "bicubic" else self._inside(at, size)
        low = floor(at)
        part = at - low
        if self.mode == "bilinear":
            return [(low, 1 - part), (low + 1, part)]
        near, far = (lambda d: (1.25 * d - 2.25) * d * d + 1), (lambda d: ((-0.75 * d + 3.75) * d - 6) * d + 3)
        weights = far(part + 1), near(part), near(1 - part), far(2 - part)
        return [(round(self._inside(low + k, size)), w) for k, w in enumerate(weights, start=-1)]

    def _inside(self, at: Tensor, size: int) -> Tensor:
        """Places that lie outside of an axis moved by the padding mode."""
        if self.padding_mode == "reflection":
            low, span = (0.0, float(size - 1)) if self.align_corners else (-0.5, float(size))
            if span == 0:
                return at * 0
            beyond = remainder(absolute(at - low), 2 * span)
            at = where(beyond <= span, beyond, 2 * span - beyond) + low
        return at if self.padding_mode == "zeros" else clip(at, 0, size - 1)

    def vjp(self, g: Tensor, y: Tensor, *ins: Tensor) -> Any:
        return apply(GridSampleGrad(self.mode, self.padding_mode, self.align_corners), g, *ins)


class GridSampleGrad(Fused):
    """(dx, dgrid) of `GridSample` from the gradient g [N, H', W', C] of what it read."""

    mode: Between
    padding_mode: Padding
    align_corners: bool
    native = True

    def _forward(self) -> GridSample:
        return GridSample(self.mode, self.padding_mode, self.align_corners)

    def infer(self, g: Spec, x: Spec, grid: Spec) -> tuple[Spec, Spec]:
        check_specs("gradient of grid_sample", g=(g, self._forward().infer(x, grid)))  # type: ignore[arg-type]
        return x, grid

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        g, x, grid = map(contiguous, ins)
        image.grid_sample_grad(outs[0], outs[1], g, x, grid, self.mode, self.padding_mode, self.align_corners)

    def compose(self, g: Tensor, x: Tensor, grid: Tensor) -> tuple[Tensor, Tensor]:
        tracked = tuple(v if v.requires_grad else Tensor(v.data, requires_grad=True) for v in (x, grid))
        dx, dgrid = compose_vjp(self._forward().compose, g, tracked)
        assert dx is not None
        return dx, grid * 0 if dgrid is None else dgrid


def _cells(x: Tensor, row: Tensor, column: Tensor) -> Tensor:
    """x[n, row[n, ...], column[n, ...]], zeros outside."""
    n, h, w, c = x.shape
    inside = logical_and(logical_and(row >= 0, row < h), logical_and(column >= 0, column < w))
    sample = reshape(arange(n, dtype=int64), (n, 1, 1))
    at = where(inside, (sample * h + astype(row, int64)) * w + astype(column, int64), -1)
    return reshape(segment_take(reshape(x, (n * h * w, c)), reshape(at, (at.size,))), (*at.shape, c))


def grid_sample(
    x: Tensor, grid: Tensor, *, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool = False
) -> Tensor:
    """Sample x at the points of a grid.    x [N, H, W, C], grid [N, H', W', 2] of (x, y) in [-1, 1] -> [N, H', W', C]

    -1 and 1 are the outer edges of the corner pixels, or their centres with `align_corners`. `mode`: bilinear, nearest,
    or bicubic (Keys' kernel, a = -0.75). `padding_mode` says what lies outside: zeros, border (the edge) or reflection
    (at the edge). As PyTorch's function, channels last.
    """
    if mode not in image.BETWEEN or padding_mode not in image.PADDING:
        raise UsageError(
            f"grid_sample: mode {mode!r} must be one of {', '.join(image.BETWEEN)}, "
            f"padding_mode {padding_mode!r} one of {', '.join(image.PADDING)}"
        )
    full: Any = in_full(x, grid)
    return apply(GridSample(mode, padding_mode, bool(align_corners)), *full)  # type: ignore[no-any-return]


def affine_grid(theta: TensorLike, size: Sequence[int], *, align_corners: bool = False) -> Tensor:
    """The grid of `grid_sample` that reads an image through affine maps.    theta [N, 2, 3] -> [N, H', W', 2]

    Point (i, j) of `size` (H', W') is theta (x, y, 1), where x and y go from -1 to 1: at the pixels' centres, which lie
    half a pixel inside, or end on the corner pixels' with `align_corners`. As PyTorch's function. Three sizes and theta
    [N, 3, 4] make a grid of volumes, [N, D', H', W', 3].
    """
    theta = as_tensor(theta)
    rank = len(size)
    if rank not in (2, 3) or theta.ndim != 3 or theta.shape[1:] != (rank, rank + 1):
        raise ShapeError(f"affine_grid: theta {theta.shape} for the size {tuple(size)}; expected [N, 2, 3] and (H, W)")
    axes: list[Tensor] = []
    for axis, n in enumerate(reversed(size)):
        i = astype(arange(n), theta.dtype)
        at = (i * 2 + 1) / n - 1 if not align_corners else i * (2 / max(1, n - 1)) - (1 if n > 1 else 0)
        axes.append(broadcast_to(reshape(at, (n, *[1] * axis)), tuple(size)))
    axes.append(broadcast_to(Tensor(np.ones((), theta.dtype)), tuple(size)))
    points = stack(axes, axis=-1)
    cells = reshape(points, (1, -1, rank + 1))
    return reshape(matmul(cells, matrix_transpose(theta)), (theta.shape[0], *size, rank))


# -- regions -----------------------------------------------------------------------------------------------------------
class _Regions(Op, abstract=True):
    size: tuple[Cells, Cells]
    ratio: Samples = 0
    scale: Scale = 1.0
    half_pixel: bool = True
    largest: ClassVar[bool] = False
    native = True

    def infer(self, x: Spec, rois: Spec, index: Spec) -> Spec:
        check_floating("roi_align", x=x, rois=rois)
        check_ids("roi_align", "index", index)
        if len(x.shape) != 4 or 0 in x.shape[1:3] or rois.shape != (*index.shape, 4) or len(index.shape) != 1:
            raise ShapeError(f"roi_align: x {x.shape}, rois {rois.shape}, index {index.shape}; expected [N, H, W, C], "
                             "[R, 4] and [R], H and W at least 1")  # fmt: skip
        return Spec((rois.shape[0], *self.size, x.shape[3]), x.dtype)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        x, rois, index = ins
        image.roi_align(
            outs[0], contiguous(x), contiguous(rois, x.dtype), contiguous(index, int64), scale=self.scale,
            ratio=self.ratio, half=self.half_pixel, largest=self.largest,
        )  # fmt: skip


class RoiAlign(_Regions):
    """[R, rows, columns, C]: the means of samples in the bins of regions; see `roi_align`."""

    def vjp(self, g: Tensor, y: Tensor, x: Tensor, rois: Tensor, index: Tensor) -> Any:
        n, h, w, _ = x.shape
        op = RoiAlignGrad((n, h, w), self.size, self.ratio, self.scale, self.half_pixel)
        return lambda: apply(op, g, rois, index), None, None


class RoiAlignGrad(Op):
    """dx [N, H, W, C] of `RoiAlign` from the gradient g [R, rows, columns, C]."""

    images: tuple[Length, Cells, Cells]
    size: tuple[Cells, Cells]
    ratio: Samples
    scale: Scale
    half_pixel: bool
    native = True

    def _forward(self) -> RoiAlign:
        return RoiAlign(self.size, self.ratio, self.scale, self.half_pixel)

    def infer(self, g: Spec, rois: Spec, index: Spec) -> Spec:
        x = Spec((*self.images, *g.shape[3:]), g.dtype)
        check_specs("gradient of roi_align", g=(g, self._forward().infer(x, rois, index)))
        return x

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        g, rois, index = ins
        image.roi_align_grad(
            outs[0], contiguous(g), contiguous(rois, g.dtype), contiguous(index, int64), scale=self.scale,
            ratio=self.ratio, half=self.half_pixel,
        )  # fmt: skip

    def vjp(self, g: Tensor, y: Tensor, _g: Tensor, rois: Tensor, index: Tensor) -> Any:
        return lambda: apply(self._forward(), g, rois, index), None, None


class RoiMax(_Regions):
    """[R, rows, columns, C]: the largest weighted cell beside a sample in each bin, as ONNX's RoiAlign has it."""

    largest = True
    vjp = not_differentiable("it is there for nets that were trained elsewhere")


def roi_align(
    x: TensorLike, rois: TensorLike, index: TensorLike, *, size: Sequence[int], scale: float = 1.0, ratio: int = 0,
    half_pixel: bool = True, mode: str = "avg",
) -> Tensor:  # fmt: skip
    """Regions of images in a fixed number of bins (He et al., arXiv 1703.06870).

    x [N, H, W, C], rois [R, 4] (x1, y1, x2, y2), index int [R] of each region's image -> [R, rows, columns, C]. A
    region with index -1 gives zeros. The gradient goes to x.

    size        (rows, columns)
    scale       what coordinates are multiplied by: cells of x in a pixel
    ratio       samples along each axis of a bin; 0: about one a cell
    half_pixel  cells have their centres at halves; without, regions are at least one cell wide
    mode        "avg", the mean of bilinear samples, or "max", without a gradient
    """
    if mode not in ("avg", "max") or len(size) != 2:
        raise UsageError(f"roi_align: mode={mode!r}, size={tuple(size)}; expected 'avg' or 'max', and (rows, columns)")
    kind = RoiAlign if mode == "avg" else RoiMax
    op = kind((int(size[0]), int(size[1])), int(ratio), float(scale), bool(half_pixel))
    found: Tensor = apply(op, *as_tensors(*in_float32(x, rois)), as_tensor(index))
    return found


__all__ = ["affine_grid", "grid_sample", "roi_align"]
