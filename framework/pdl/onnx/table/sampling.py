"""Reading images at places that are computed: grids, regions of interest, boxes."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from pdl.dtype import Array
from pdl.errors import IndexRangeError, ShapeError, UsageError
from pdl.limits import check_time
from pdl.onnx.eager import computed, rounded, scalar, to_single
from pdl.onnx.registry import Context, onnx_op
from pdl.onnx.table.resize import cubic
from pdl.onnx.values import require_room

_MODES = {"bilinear": "linear", "bicubic": "cubic"}  # opset 16's names


@onnx_op("GridSample", since=16)
@computed
def _grid_sample(
    ctx: Context, x: Any, grid: Any, *, align_corners: int = 0, mode: str = "linear", padding_mode: str = "zeros"
) -> Any:
    """x [N, C, *spatial] at the places of grid [N, *out, rank], where -1 and 1 end each axis, the last first."""
    name, rank, mode = ctx.node.label(), x.ndim - 2, _MODES.get(mode, mode)
    if mode not in ("linear", "nearest", "cubic") or padding_mode not in ("zeros", "border", "reflection"):
        raise UsageError(f"{name}: mode {mode!r} with padding_mode {padding_mode!r} is not known")
    if grid.shape[-1] != rank or grid.ndim != x.ndim or len(grid) != len(x):
        raise ShapeError(f"{name}: grid {grid.shape} for x {x.shape}")
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
@computed
def _affine_grid(ctx: Context, theta: Any, size: Any, *, align_corners: int = 0) -> Any:
    """theta (x, y, ..., 1) for the places of an image of this size, which go from -1 to 1; [N, *spatial, rank]."""
    spatial = [int(n) for n in size[2:]]
    rank = len(spatial)
    if theta.shape[1:] != (rank, rank + 1) or len(theta) != size[0]:
        raise ShapeError(f"{ctx.node.label()}: theta {theta.shape} for the size {size.tolist()}")
    require_room(ctx.node.label(), (*size[:1].tolist(), *spatial, rank), 8)
    axes = []
    for n in spatial:
        i = np.arange(n, dtype=np.float64)
        axes.append((np.linspace(-1, 1, n) if n > 1 else i * 0) if align_corners else (2 * i + 1) / n - 1)
    places = np.stack([*np.meshgrid(*axes, indexing="ij")[::-1], np.ones(spatial)], axis=-1)
    return np.einsum("nij,...j->n...i", theta.astype(np.float64), places).astype(theta.dtype)


@onnx_op("RoiAlign", since=10)
@computed
def _roi_align_10(ctx: Context, x: Any, rois: Any, batch: Any, *, mode: str = "avg", output_height: int = 1,
                  output_width: int = 1, sampling_ratio: int = 0, spatial_scale: float = 1.0) -> Any:  # fmt: skip
    """Regions without the shift by half a pixel, at least one pixel wide (He et al., arXiv 1703.06870)."""
    return _roi_align(ctx, x, rois, batch, mode, (output_height, output_width), sampling_ratio, spatial_scale, False)


@onnx_op("RoiAlign", since=16)
@computed
def _roi_align_16(
    ctx: Context, x: Any, rois: Any, batch: Any, *, coordinate_transformation_mode: str = "half_pixel",
    mode: str = "avg", output_height: int = 1, output_width: int = 1, sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> Any:  # fmt: skip
    """Means or maxima of bilinear samples in the cells of each region [x1, y1, x2, y2]; [regions, C, height, width]."""
    if coordinate_transformation_mode not in ("half_pixel", "output_half_pixel"):
        raise UsageError(f"{ctx.node.label()}: {coordinate_transformation_mode!r} is not known")
    half = coordinate_transformation_mode == "half_pixel"
    return _roi_align(ctx, x, rois, batch, mode, (output_height, output_width), sampling_ratio, spatial_scale, half)


def _roi_align(
    ctx: Context, x: Array, rois: Array, batch: Array, mode: str, out: tuple[int, int], ratio: int, scale: float,
    half: bool,
) -> Array:  # fmt: skip
    if mode not in ("avg", "max"):
        raise UsageError(f"{ctx.node.label()}: mode {mode!r} is not known")
    if batch.size and (batch.min() < 0 or batch.max() >= len(x)):
        raise IndexRangeError(f"{ctx.node.label()}: regions of image {batch.max()}, there are {len(x)}")
    require_room(ctx.node.label(), (len(rois), x.shape[1], *out, max(1, ratio) ** 2), 4)
    wide = to_single(x)
    made = np.zeros((len(rois), x.shape[1], *out), wide.dtype)
    for n, (roi, image) in enumerate(zip(rois.astype(np.float64), batch.tolist(), strict=True)):
        check_time()
        ends = roi * scale - (0.5 if half else 0)
        picked = [
            _region(ends[1 - a], ends[3 - a], out[a], ratio, x.shape[2 + a], at_least_one=not half) for a in (0, 1)
        ]
        (rows, row_weights), (columns, column_weights) = picked
        parts = [
            wide[image][:, rows[i]][:, :, columns[j]] * np.multiply.outer(row_weights[i], column_weights[j])
            for i in (0, 1)
            for j in (0, 1)
        ]
        samples = np.maximum.reduce(parts) if mode == "max" else np.add.reduce(parts)
        cells = samples.reshape(x.shape[1], out[0], -1, out[1], len(columns[0]) // out[1])
        made[n] = cells.max(axis=(2, 4)) if mode == "max" else cells.mean(axis=(2, 4))
    return rounded(made, x.dtype)


def _region(
    start: float, end: float, cells: int, ratio: int, size: int, *, at_least_one: bool
) -> tuple[list[Array], list[Array]]:
    """The two neighbours of every sample of a region along one axis, and their weights."""
    length = max(end - start, 1.0) if at_least_one else end - start
    count = ratio if ratio > 0 else max(1, math.ceil(length / cells))
    at = start + (np.arange(cells * count) + 0.5) * (length / cells / count)
    alive = (at >= -1) & (at <= size)
    at = np.clip(at, 0, size - 1)
    low = np.minimum(np.floor(at), size - 1).astype(np.int64)
    part = at - low
    return [low, np.minimum(low + 1, size - 1)], [(1 - part) * alive, part * alive]


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
    lowest = -math.inf if score_threshold is None else float(scalar(score_threshold, "score_threshold"))
    if scores.shape[0] != boxes.shape[0] or scores.shape[2] != boxes.shape[1] or boxes.shape[2] != 4:
        raise ShapeError(f"{ctx.node.label()}: boxes {boxes.shape}, scores {scores.shape}")
    corners = _corners(boxes.astype(np.float64), bool(center_point_box))
    found = [
        (image, kind, box)
        for image in range(len(boxes))
        for kind in range(scores.shape[1])
        for box in _kept(corners[image], scores[image, kind], limit, overlap, lowest)
    ]
    return np.array(found, np.int64).reshape(-1, 3)


def _corners(boxes: Array, centred: bool) -> Array:
    """[low, low, high, high] from two opposite corners, or from centre and size."""
    if centred:
        middle, half = boxes[..., :2], boxes[..., 2:] / 2
        return np.concatenate([middle - half, middle + half], axis=-1)
    one, two = boxes[..., :2], boxes[..., 2:]
    return np.concatenate([np.minimum(one, two), np.maximum(one, two)], axis=-1)


def _kept(boxes: Array, scores: Array, limit: int, overlap: float, lowest: float) -> list[int]:
    order = [i for i in np.argsort(-scores, kind="stable").tolist() if scores[i] > lowest]
    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    kept: list[int] = []
    for i in order:
        if len(kept) >= limit:
            break
        check_time()
        others = boxes[kept]
        low, high = np.maximum(others[:, :2], boxes[i, :2]), np.minimum(others[:, 2:], boxes[i, 2:])
        shared = np.prod(np.maximum(high - low, 0), axis=1)
        union = area[kept] + area[i] - shared
        if not (shared > overlap * union).any():
            kept.append(i)
    return kept
