"""Reading images at places that are computed: grids, regions of interest, boxes."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from pdl import ops
from pdl.dtype import Array, float32
from pdl.errors import ShapeError, UsageError
from pdl.kernels import boxes as box_kernels
from pdl.kernels import image
from pdl.onnx.eager import computed, in_single, scalar
from pdl.onnx.layouts import channels_first, channels_last
from pdl.onnx.registry import Context, NeedsValue, onnx_op
from pdl.onnx.table.resize import cubic
from pdl.onnx.values import require_room, tensor

_MODES = {"bilinear": "linear", "bicubic": "cubic"}  # opset 16's names
_OURS = {"linear": "bilinear", "nearest": "nearest", "cubic": "bicubic"}


@onnx_op("GridSample", since=16)
@in_single
def _grid_sample(
    ctx: Context, x: Any, grid: Any, *, align_corners: int = 0, mode: str = "linear", padding_mode: str = "zeros"
) -> Any:
    """x [N, C, *spatial] at the places of grid [N, *out, rank], where -1 and 1 end each axis, the last first."""
    name, rank, mode = ctx.node.label(), len(x.shape) - 2, _MODES.get(mode, mode)
    if mode not in _OURS or padding_mode not in image.PADDING:
        raise UsageError(f"{name}: mode {mode!r} with padding_mode {padding_mode!r} is not known")
    if grid.shape[-1] != rank or len(grid.shape) != rank + 2 or grid.shape[0] != x.shape[0]:
        raise ShapeError(f"{name}: grid {tuple(grid.shape)} for x {tuple(x.shape)}")
    if rank != 2 or x.dtype.kind != "f":
        return _volumes(ctx, x, grid, mode, padding_mode, bool(align_corners))
    points = ops.astype(tensor(grid), x.dtype)
    how: dict[str, Any] = {"mode": _OURS[mode], "padding_mode": padding_mode, "align_corners": bool(align_corners)}
    return channels_first(ops.grid_sample(channels_last(x), points, **how))


@computed
def _volumes(ctx: Context, x: Any, grid: Any, mode: str, padding_mode: str, align_corners: bool) -> Any:
    """The same along any number of axes, in NumPy."""
    rank = x.ndim - 2
    places = grid.astype(np.float64)[..., ::-1]
    taps = []
    for axis, size in enumerate(x.shape[2:]):
        at = places[..., axis]
        at = (at + 1) / 2 * (size - 1) if align_corners else ((at + 1) * size - 1) / 2
        taps.append(_taps(at, size, mode, padding_mode, bool(align_corners)))
    wide = x.astype(np.float64 if x.dtype == np.float64 else np.float32)
    made = np.zeros((len(x), *grid.shape[1:-1], x.shape[1]), wide.dtype)
    rows = np.moveaxis(wide, 1, -1)
    batch = np.arange(len(x)).reshape(-1, *[1] * rank)
    for choice in itertools.product(*taps):
        weight = math.prod((w for _, w in choice), start=np.ones(1))
        made += rows[(batch, *(i for i, _ in choice))] * np.asarray(weight)[..., None].astype(wide.dtype)
    return np.moveaxis(made, -1, 1).astype(x.dtype)


def _taps(at: Array, size: int, mode: str, padding: str, corners: bool) -> list[tuple[Array, Array]]:
    """(cells, weights) along one axis, as many as the mode reads."""
    at = np.where(np.isfinite(at), at, -2.0)
    if mode != "cubic":
        at = _inside(at, size, padding, corners)
    if mode == "nearest":
        cells = [(np.rint(at), np.ones_like(at))]
    elif mode == "linear":
        low = np.floor(at)
        cells = [(low, 1 - (at - low)), (low + 1, at - low)]
    else:
        low = np.floor(at)
        cells = [(low + k, cubic(at - low - k, -0.75)) for k in range(-1, 3)]
    made = []
    for cell, weight in cells:
        cell = np.rint(_inside(cell, size, padding, corners)) if mode == "cubic" else cell
        kept = np.clip(cell, 0, size - 1)
        made.append((kept.astype(np.int64), np.where(kept == cell, weight, 0) if padding == "zeros" else weight))
    return made


def _inside(at: Array, size: int, padding: str, corners: bool) -> Array:
    """Places moved into the axis by the padding mode; "zeros" leaves them."""
    if padding == "zeros":
        return at
    if padding == "reflection":
        low, high = (0.0, size - 1.0) if corners else (-0.5, size - 0.5)
        span = high - low
        if span <= 0:
            return np.zeros_like(at)
        off = np.mod(at - low, 2 * span)
        at = low + np.where(off > span, 2 * span - off, off)
    return np.clip(at, 0, size - 1)


@onnx_op("AffineGrid", since=20)
@in_single
def _affine_grid(ctx: Context, theta: Any, size: Any, *, align_corners: int = 0) -> Any:
    """theta (x, y, ..., 1) for the places of an image of this size, which go from -1 to 1; [N, *spatial, rank]."""
    samples, _, *spatial = ctx.ints(size)
    if not all(type(n) is int for n in spatial):
        raise NeedsValue(f"{ctx.node.label()} makes a grid of a size that is not known")
    if theta.shape[0] != samples:
        raise ShapeError(f"{ctx.node.label()}: theta {tuple(theta.shape)} for {samples} images")
    require_room(ctx.node.label(), (samples, *spatial, len(spatial)), 8)
    return ops.affine_grid(tensor(theta), spatial, align_corners=bool(align_corners))


@onnx_op("RoiAlign", since=10)
@in_single
def _roi_align_10(ctx: Context, x: Any, rois: Any, batch: Any, *, mode: str = "avg", output_height: int = 1,
                  output_width: int = 1, sampling_ratio: int = 0, spatial_scale: float = 1.0) -> Any:  # fmt: skip
    """Regions without the shift by half a pixel, at least one pixel wide (He et al., arXiv 1703.06870)."""
    how: dict[str, Any] = {"size": (output_height, output_width), "ratio": sampling_ratio, "scale": spatial_scale}
    return _roi_align(ctx, x, rois, batch, mode, how | {"half_pixel": False})


@onnx_op("RoiAlign", since=16)
@in_single
def _roi_align_16(
    ctx: Context, x: Any, rois: Any, batch: Any, *, coordinate_transformation_mode: str = "half_pixel",
    mode: str = "avg", output_height: int = 1, output_width: int = 1, sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> Any:  # fmt: skip
    """Means or maxima of bilinear samples in the cells of each region [x1, y1, x2, y2]; [regions, C, height, width]."""
    if coordinate_transformation_mode not in ("half_pixel", "output_half_pixel"):
        raise UsageError(f"{ctx.node.label()}: {coordinate_transformation_mode!r} is not known")
    how: dict[str, Any] = {"size": (output_height, output_width), "ratio": sampling_ratio, "scale": spatial_scale}
    how["half_pixel"] = coordinate_transformation_mode == "half_pixel"
    return _roi_align(ctx, x, rois, batch, mode, how)


def _roi_align(ctx: Context, x: Any, rois: Any, batch: Any, mode: str, how: dict[str, Any]) -> Any:
    require_room(ctx.node.label(), (rois.shape[0], x.shape[1], *how["size"]), 4)
    rois = ops.astype(tensor(rois), x.dtype)
    return channels_first(ops.roi_align(channels_last(x), rois, tensor(batch), mode=mode, **how))


@onnx_op("NonMaxSuppression", since=10)
@computed
def _nms(
    ctx: Context, boxes: Any, scores: Any, most: Any = None, iou_threshold: Any = None, score_threshold: Any = None, *,
    center_point_box: int = 0,
) -> Any:  # fmt: skip
    """[image, class, box] of the boxes kept: by descending score, those that overlap no kept box of their class by more
    than `iou_threshold` (intersection over union).
    """
    limit = 0 if most is None else int(scalar(most, "max_output_boxes_per_class"))
    overlap = 0.0 if iou_threshold is None else float(scalar(iou_threshold, "iou_threshold"))
    lowest = None if score_threshold is None else float(scalar(score_threshold, "score_threshold"))
    if scores.shape[0] != boxes.shape[0] or scores.shape[2] != boxes.shape[1] or boxes.shape[2] != 4:
        raise ShapeError(f"{ctx.node.label()}: boxes {boxes.shape}, scores {scores.shape}")
    images, kinds, n = scores.shape
    limit = max(0, min(limit, n))
    require_room(ctx.node.label(), (images, kinds, limit), 8)
    kept, counts = np.zeros((images * kinds, limit), np.int64), np.zeros(images * kinds, np.int64)
    boxes, scores = (np.ascontiguousarray(x, float32) for x in (boxes, scores))
    box_kernels.suppress(kept, counts, boxes, scores, overlap=overlap, lowest=lowest, centred=bool(center_point_box))
    group = np.repeat(np.arange(len(counts)), counts)
    found = kept[np.arange(limit) < counts[:, None]]
    return np.stack([group // max(1, kinds), group % max(1, kinds), found], axis=1)
