"""Resize and Upsample: interpolation along one axis after the other, as a few taps for each cell of the result.

Where ONNX's reference evaluator and ONNX Runtime differ, this follows the second, which agrees with PyTorch, since
models are trained and checked with these: coordinates are computed in float32 from float32 scales, `align_corners`
stretches the cells of the result (not the scaled length) over those of x, and the size of a region that is cropped and
resized by scales is that of x scaled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pdl import ops
from pdl.dtype import Array
from pdl.errors import ShapeError, UsageError
from pdl.onnx.eager import in_single
from pdl.onnx.layouts import channels_first, channels_last
from pdl.onnx.registry import Context, NeedsValue, onnx_op
from pdl.onnx.values import in_numpy, require_room, tensor
from pdl.tensor import Tensor


class Taps(NamedTuple):
    """For each cell of an axis of the result the cells that it reads [out, taps], their weights, and (or None) which
    cells lie outside x.
    """

    places: Array
    weight: Array
    outside: Array | None


class Kernel(NamedTuple):
    """How to interpolate."""

    mode: str
    coordinates: str
    nearest: str = "floor"
    cubic: float = -0.75
    exclude_outside: bool = False
    antialias: bool = False


@onnx_op("Resize", since=11)
@in_single
def _resize(
    ctx: Context, x: Any, roi: Any = None, scales: Any = None, sizes: Any = None, *, antialias: int = 0,
    axes: Any = None, coordinate_transformation_mode: str = "half_pixel", cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0, extrapolation_value: float = 0.0, keep_aspect_ratio_policy: str = "stretch",
    mode: str = "nearest", nearest_mode: str = "round_prefer_floor",
) -> Any:  # fmt: skip
    """x interpolated to other sizes of some axes: the nearest cell, linearly, or by cubic splines (Keys 1981)."""
    kernel = Kernel(
        mode, coordinate_transformation_mode, nearest_mode, cubic_coeff_a, bool(exclude_outside), bool(antialias)
    )
    rank = len(x.shape)
    along = tuple(a % rank for a in axes) if axes else tuple(range(rank))
    spans = [(0.0, 1.0)] * len(along)
    if coordinate_transformation_mode == "tf_crop_and_resize" and roi is not None:
        values = ctx.value(roi, "the region").astype(np.float64)
        spans = list(zip(values[: len(along)].tolist(), values[len(along) :].tolist(), strict=True))
    new, factors = _target(ctx, [x.shape[a] for a in along], scales, sizes, keep_aspect_ratio_policy)
    resized = [Axis(a, x.shape[a], n, f, s) for a, n, f, s in zip(along, new, factors, spans, strict=True)]
    return _resized(ctx, x, kernel, resized, extrapolation_value)


@onnx_op("Resize", since=10)
@in_single
def _resize_10(ctx: Context, x: Any, scales: Any, *, mode: str = "nearest") -> Any:
    """x interpolated from places i / scale, rounded down for "nearest"."""
    return _scaled(ctx, x, ctx.value(scales, "the scales").tolist(), mode)


@onnx_op("Upsample", since=9)
@in_single
def _upsample_9(ctx: Context, x: Any, scales: Any, *, mode: str = "nearest") -> Any:
    """x enlarged, as Resize-10 does it."""
    return _scaled(ctx, x, ctx.value(scales, "the scales").tolist(), mode)


@onnx_op("Upsample", since=7)
@in_single
def _upsample_7(ctx: Context, x: Any, *, scales: Any, mode: str = "nearest") -> Any:
    """x enlarged by scales that are an attribute."""
    return _scaled(ctx, x, list(scales), mode)


def _scaled(ctx: Context, x: Any, scales: list[float], mode: str) -> Any:
    if len(scales) != len(x.shape):
        raise ShapeError(f"{ctx.node.label()}: {len(scales)} scales for x {tuple(x.shape)}")
    axes = [Axis(a, n, _times(ctx, n, s), s, (0.0, 1.0)) for a, (n, s) in enumerate(zip(x.shape, scales, strict=True))]
    return _resized(ctx, x, Kernel("linear" if mode == "bilinear" else mode, "asymmetric"), axes, 0.0)


class Axis(NamedTuple):
    """An axis of x: its size, the new one, by what it is scaled, and the part of it that is shown."""

    axis: int
    old: int
    new: int
    factor: float | None
    span: tuple[float, float]

    def changes(self) -> bool:
        """Whether anything but a copy happens along it."""
        return self.factor != 1 or self.span != (0.0, 1.0)

    def plain(self) -> bool:
        """Whether the new size is exactly the old one scaled."""
        return self.span == (0.0, 1.0) and (self.factor is None or int(self.old) * self.factor == int(self.new))


def _resized(ctx: Context, x: Any, kernel: Kernel, axes: list[Axis], filler: float) -> Any:
    """x resized by a kernel of pdl's that follows the same rule, else tap by tap."""
    name, shape = ctx.node.label(), list(x.shape)
    for a in axes:
        shape[a.axis] = a.new
    require_room(name, shape, x.dtype.itemsize)
    if 0 in (*x.shape, *shape) and not all(shape):
        return x if list(x.shape) == shape else ops.broadcast_to(tensor(np.zeros((), x.dtype)), shape)
    if not in_numpy(x) and _as_images(x, kernel, axes):
        y = ops.resize(
            channels_last(x), tuple(shape[2:]), mode=kernel.mode, align_corners=kernel.coordinates == "align_corners"
        )
        return channels_first(y)
    taps = {}
    for a in filter(Axis.changes, axes):
        if type(a.old) is not int or type(a.new) is not int:
            raise NeedsValue(f"{name} needs sizes that are known")
        factor = a.new / a.old if a.factor is None else a.factor
        taps[a.axis] = make_taps(name, kernel, a.old, a.new, factor, a.span)
    return interpolate(name, x, taps, filler)


def _as_images(x: Any, kernel: Kernel, axes: list[Axis]) -> bool:
    """Whether `pdl.resize`, which changes spatial axes by the ratio of their sizes, gives the same values."""
    spatial = [a for a in axes if a.changes()]
    if not 3 <= len(x.shape) <= 5 or any(a.axis < 2 or not a.plain() for a in spatial) or x.dtype.kind in "iub":
        return False
    if kernel.mode == "nearest":
        if kernel.coordinates == "asymmetric" and kernel.nearest == "floor":
            return True
        whole = all(_whole_multiple(a) for a in spatial)
        return whole and kernel.coordinates == "half_pixel" and "round" in kernel.nearest
    if kernel.exclude_outside or kernel.antialias or (kernel.mode == "cubic" and kernel.cubic != -0.75):
        return False  # at the rim ONNX repeats cells, where pdl's filter for shrinking leaves them out
    many = all(type(a.new) is not int or a.new > 1 for a in spatial)  # for one cell the rules differ
    return kernel.coordinates == "half_pixel" or (kernel.coordinates == "align_corners" and many)


def _whole_multiple(a: Axis) -> bool:
    if a.factor is not None:
        return a.factor == int(a.factor)
    return type(a.old) is int and type(a.new) is int and a.new % a.old == 0


def _target(
    ctx: Context, old: Sequence[int], scales: Any, sizes: Any, policy: str
) -> tuple[list[int], list[float | None]]:
    """The new sizes, and by what they are scaled (None: by the ratio of sizes that are known only at run time)."""
    name = ctx.node.label()
    if sizes is not None and np.prod(sizes.shape):
        wanted = list(ctx.ints(sizes, "sizes"))
        if len(wanted) != len(old):
            raise ShapeError(f"{name}: sizes {wanted} for the axes {list(old)}")
        if policy == "stretch":
            return wanted, [1.0 if m is n else _ratio(m, n) for m, n in zip(wanted, old, strict=True)]
        ratios = [_ratio(m, n) for m, n in zip(wanted, old, strict=True)]
        if policy not in ("not_larger", "not_smaller") or None in ratios:
            raise NeedsValue(f"{name}: keep_aspect_ratio_policy {policy!r} with sizes {wanted}")
        factor = (min if policy == "not_larger" else max)(r for r in ratios if r is not None)
        return [math.floor(factor * n + 0.5) for n in old], [factor] * len(old)
    if scales is None or not np.prod(scales.shape):
        raise UsageError(f"{name}: neither scales nor sizes are given")
    factors = ctx.value(scales, "the scales").tolist()
    if len(factors) != len(old) or min(factors) <= 0:
        raise ShapeError(f"{name}: scales {factors} for the sizes {list(old)}")
    return [_times(ctx, n, f) for n, f in zip(old, factors, strict=True)], factors


def _ratio(new: int, old: int) -> float | None:
    return new / old if type(new) is int and type(old) is int and old else None


def _times(ctx: Context, size: int, factor: float) -> int:
    """floor(size factor) in float32; symbolic sizes can be multiplied by whole numbers."""
    if type(size) is int:
        return int(np.float32(size) * np.float32(factor))
    if factor != int(factor):
        raise NeedsValue(f"{ctx.node.label()} scales a size that is not known by {factor}")
    return size if factor == 1 else size * int(factor)


def _coordinates(name: str, kind: str, out: int, size: int, factor: float, span: tuple[float, float]) -> Array:
    """The places in x, counted in cells, that the cells of the result stand for, in float32."""
    i, scale, half = np.arange(out, dtype=np.float32), np.float32(factor), np.float32(0.5)
    last, end = np.float32(size - 1), np.float32(out - 1)
    middle = (i + half) / scale - half
    if kind == "asymmetric":
        return i / scale
    if kind == "align_corners":
        return i * last / end if out > 1 else i * 0
    if kind == "tf_half_pixel_for_nn":
        return (i + half) / scale
    if kind == "tf_crop_and_resize":
        begin, stop = map(np.float32, span)
        return begin * last + i * (stop - begin) * last / end if out > 1 else i + half * (begin + stop) * last
    if kind == "half_pixel":
        return middle
    if kind == "pytorch_half_pixel":
        return middle if out > 1 else i * 0
    if kind == "half_pixel_symmetric":
        border = np.float32(size / 2) * (1 - np.float32(out) / (scale * np.float32(size)))
        return (float(border) + (i + 0.5).astype(np.float64) / float(scale) - 0.5).astype(np.float32)
    raise UsageError(f"{name}: coordinate_transformation_mode {kind!r} is not known")


def make_taps(name: str, kernel: Kernel, size: int, out: int, factor: float, span: tuple[float, float]) -> Taps:
    """The taps of one axis of `size` cells, resized to `out`."""
    if size < 1:
        raise ShapeError(f"{name}: an axis of {size} cells is resized to {out}")
    require_room(name, (out, 4), 8)
    at = _coordinates(name, kernel.coordinates, out, size, factor, span)
    outside = None
    if kernel.coordinates == "tf_crop_and_resize":
        outside = (at < 0) | (at > size - 1)
        outside = outside if outside.any() else None
    if kernel.mode == "nearest":
        cells = _nearest(name, kernel.nearest, at)
        return Taps(np.clip(cells, 0, size - 1).astype(np.int64)[:, None], np.ones((out, 1)), outside)
    if kernel.mode not in ("linear", "cubic"):
        raise UsageError(f"{name}: mode {kernel.mode!r} is not known")
    shrink = min(1.0, factor) if kernel.antialias else 1.0
    reach = (1 if kernel.mode == "linear" else 2) / shrink
    first = math.floor(-reach) + 1
    steps = np.arange(first, 2 - first)
    base = np.floor(at)
    distance = (steps - (at - base)[:, None]) * shrink
    weight = np.clip(1 - np.abs(distance), 0, 1) if kernel.mode == "linear" else cubic(distance, kernel.cubic)
    cells = base[:, None] + steps
    if kernel.exclude_outside:
        weight = weight * ((cells >= 0) & (cells < size))
    if kernel.exclude_outside or shrink < 1:
        weight = weight / weight.sum(axis=1, keepdims=True)
    return Taps(np.clip(cells, 0, size - 1).astype(np.int64), weight, outside)


def _nearest(name: str, kind: str, at: Array) -> Array:
    """The cell nearest to each place."""
    rules: dict[str, Callable[[Array], Array]] = {
        "round_prefer_floor": lambda v: np.ceil(v - 0.5),
        "round_prefer_ceil": lambda v: np.floor(v + 0.5),
        "floor": np.floor,
        "ceil": np.ceil,
    }
    if kind not in rules:
        raise UsageError(f"{name}: nearest_mode {kind!r} is not known")
    return rules[kind](at)


def cubic(distance: Array, a: float) -> Array:
    """Keys' kernel with the parameter a."""
    d = np.abs(distance)
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0))


def interpolate(name: str, x: Any, taps: dict[int, Taps], filler: float) -> Any:
    """x with each axis in `taps` replaced by its weighted sums; `filler` where a place lies outside."""
    require_room(name, [len(taps[a].places) if a in taps else n for a, n in enumerate(x.shape)], 8)
    if in_numpy(x):
        wide: Array = x if all(t.weight.shape[1] == 1 for t in taps.values()) else x.astype(np.float64)
        for axis, t in taps.items():
            wide = _along(wide, t, axis, np.take, np.add)
        return wide.astype(x.dtype)
    y = tensor(x)
    exact = all(t.weight.shape[1] == 1 for t in taps.values())
    dtype = y.dtype
    if not exact and dtype.kind in "iub":
        y = ops.astype(y, "float32")
    for axis, t in taps.items():
        y = _along(y, t, axis, _take, ops.add)
    for axis, t in taps.items():
        if t.outside is not None:
            where = Tensor(t.outside.reshape([-1 if a == axis else 1 for a in range(y.ndim)]))
            y = ops.where(where, Tensor(np.array(filler, y.dtype)), y)
    return ops.astype(y, dtype)


def _take(x: Tensor, index: Array, axis: int) -> Tensor:
    return ops.take(x, Tensor(index), axis=axis)


def _along(x: Any, taps: Taps, axis: int, take: Any, add: Any) -> Any:
    """The weighted sums along one axis."""
    if taps.weight.shape[1] == 1:
        return take(x, taps.places[:, 0], axis)
    total = None
    for k in range(taps.weight.shape[1]):
        weight = taps.weight[:, k].reshape([-1 if a == axis else 1 for a in range(len(x.shape))]).astype(x.dtype)
        part = take(x, taps.places[:, k], axis) * (weight if isinstance(x, np.ndarray) else Tensor(weight))
        total = part if total is None else add(total, part)
    return total
