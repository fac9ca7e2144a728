"""What nets that read lines of text have in common."""

from __future__ import annotations

from typing import ClassVar

import pdl
from pdl import nn
from pdl.errors import ShapeError


class Recogniser(nn.Module):
    """Images of lines [N, H, W, C] -> logits [N, T, num_classes], one for each step from left to right; class 0 is the
    blank of CTC (Graves et al., ICML 2006)."""

    stride: int
    """Columns of the image in a step: T = W / stride."""
    width: int | None = None
    """The width that images must have; None: any multiple of `stride`."""
    tolerance: ClassVar[float] = 1e-5
    """How far a bundle may be from the net, as a share of the largest output."""
    heights: ClassVar[tuple[int, ...]] = (32,)
    """Heights of images that the net takes."""

    def steps(self, width: int) -> int:
        """T of images of this width."""
        return width // self.stride

    def check(self, x: pdl.Tensor) -> None:
        """ShapeError for images that the net does not take."""
        name = type(self).__name__
        if x.ndim != 4:
            raise ShapeError(f"{name}: x {x.shape} has {x.ndim} dimensions, expected 4: [N, H, W, C]")
        height, width = x.shape[1:3]
        if height not in self.heights:
            raise ShapeError(
                f"{name}: images are {height} pixels high, expected {' or '.join(map(str, self.heights))}: set the "
                "height of ResizeHeight"
            )
        if self.width is not None and width != self.width:
            raise ShapeError(f"{name}: images are {width} pixels wide, but the net was built for {self.width}")


def columns(x: pdl.Tensor) -> pdl.Tensor:
    """x [N, h, T, C] -> the mean over the height [N, T, C]."""
    return x.mean(axis=1)
