"""Resizing."""

from __future__ import annotations

from typing import Any

import numpy as np

from pdl import ops
from pdl.errors import UsageError
from pdl.onnx.layouts import channels_first, channels_last
from pdl.onnx.registry import Context, onnx_op
from pdl.onnx.values import demand_room, tensor


@onnx_op("Upsample")
def _upsample_7(ctx: Context, x: Any, *, scales: Any, mode: str = "nearest") -> Any:
    return _upsample(ctx, x, np.asarray(scales, np.float32), mode=mode)


@onnx_op("Upsample", since=9)
def _upsample(ctx: Context, x: Any, scales: Any, *, mode: str = "nearest") -> Any:
    factors = [float(v) for v in ctx.value(scales, "scales")]
    return resized(ctx, x, factors, None, mode=mode, transform="asymmetric", nearest="floor")


@onnx_op("Resize", since=10)
def _resize_10(ctx: Context, x: Any, scales: Any, *, mode: str = "nearest") -> Any:
    return _upsample(ctx, x, scales, mode=mode)


@onnx_op("Resize", since=11)
def _resize(
    ctx: Context, x: Any, roi: Any = None, scales: Any = None, sizes: Any = None, *, antialias: int = 0,
    axes: Any = None, coordinate_transformation_mode: str = "half_pixel", cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0, extrapolation_value: float = 0.0, keep_aspect_ratio_policy: str = "stretch",
    mode: str = "nearest", nearest_mode: str = "round_prefer_floor",
) -> Any:  # fmt: skip
    if axes is not None or keep_aspect_ratio_policy != "stretch" or exclude_outside or cubic_coeff_a != -0.75:
        raise UsageError("axes, keep_aspect_ratio_policy, exclude_outside and cubic_coeff_a are not supported")
    wanted = None if sizes is None or not np.prod(sizes.shape) else ctx.ints(sizes, "sizes")
    factors = None if wanted is not None else [float(v) for v in ctx.value(scales, "scales")]
    return resized(
        ctx, x, factors, wanted, mode=mode, transform=coordinate_transformation_mode, nearest=nearest_mode,
        antialias=bool(antialias),
    )  # fmt: skip


def resized(
    ctx: Context, x: Any, factors: Any, sizes: Any, *, mode: str, transform: str, nearest: str, antialias: bool = False
) -> Any:
    """x [N, C, *spatial] resized; only the spatial axes may change."""
    x = tensor(x)
    if sizes is None:
        sizes = tuple(n if f == 1 else _scaled(n, f) for n, f in zip(x.shape, factors, strict=True))
    demand_room(ctx.node.label(), sizes, x.dtype.itemsize)
    if tuple(sizes[:2]) != tuple(x.shape[:2]) or not 3 <= x.ndim <= 5:
        raise UsageError(f"x {tuple(x.shape)} to {tuple(sizes)}: only spatial axes are resized")
    kind = {"nearest": "nearest", "linear": "linear", "bilinear": "linear", "cubic": "cubic"}[mode]
    corners = transform == "align_corners"
    if not (_same_cells(x, sizes, transform, nearest) if kind == "nearest" else corners or "half_pixel" in transform):
        raise UsageError(f"{mode} with {transform} and {nearest} is not supported")
    y = ops.resize(channels_last(x), tuple(sizes[2:]), mode=kind, align_corners=corners, antialias=antialias)
    return channels_first(y)


def _same_cells(x: Any, sizes: Any, transform: str, nearest: str) -> bool:
    """Whether ONNX's rule takes the cells floor(o I / O), as pdl's nearest does."""
    if transform == "asymmetric" and nearest == "floor":
        return True
    whole = all(int(s) % int(n) == 0 for n, s in zip(x.shape[2:], sizes[2:], strict=True))
    return whole and transform == "half_pixel"


def _scaled(size: int, factor: float) -> int:
    return size * int(factor) if factor == int(factor) else int(np.floor(int(size) * factor))
