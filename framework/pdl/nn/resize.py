"""Layers that change the spatial size: interpolation, and pixels from channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pdl import ops
from pdl.errors import UsageError
from pdl.hints import Range
from pdl.nn.module import Module
from pdl.tensor import Tensor

Size = Annotated[int, Range(1)]
Factor = Annotated[float, Range(above=0)]


class Upsample(Module):
    """x [N, *spatial, C] interpolated to `size`, or by `scale`; see `pdl.resize` for the modes.

    mode  how what lies between the cells is computed
    """

    shown = ("size", "scale", "mode", "align_corners")

    def __init__(
        self,
        size: Size | Sequence[Size] | None = None,
        *,
        scale: Factor | Sequence[Factor] | None = None,
        mode: Literal[
            "nearest", "nearest_exact", "linear", "bilinear", "trilinear", "cubic", "bicubic", "area"
        ] = "nearest",
        align_corners: bool = False,
    ) -> None:
        if (size is None) == (scale is None):
            raise UsageError(f"Upsample: give either size or scale, got size={size} and scale={scale}")
        self.size, self.scale, self.mode, self.align_corners = size, scale, mode, align_corners

    def forward(self, x: Tensor) -> Tensor:
        return ops.resize(x, self.size, scale=self.scale, mode=self.mode, align_corners=self.align_corners)


class PixelShuffle(Module):
    """[N, H, W, C r^2] -> [N, H r, W r, C]. Shi et al., arXiv 1609.05158.

    factor  r
    """

    shown = ("factor",)

    def __init__(self, factor: Size) -> None:
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        return ops.pixel_shuffle(x, self.factor)


class PixelUnshuffle(PixelShuffle):
    """[N, H r, W r, C] -> [N, H, W, C r^2]: the inverse of `PixelShuffle`."""

    def forward(self, x: Tensor) -> Tensor:
        return ops.pixel_unshuffle(x, self.factor)
