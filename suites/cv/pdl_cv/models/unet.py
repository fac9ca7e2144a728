"""U-Net: Ronneberger, Fischer, Brox, U-Net: convolutional networks for biomedical image segmentation, MICCAI 2015
(arXiv 1505.04597).

A path down, of two convolutions and a pooling each, and one up, whose maps are joined with those of the same size on
the way down. Convolutions keep the size and have batch norms, as in all later implementations.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Any, ClassVar

import pdl
from pdl import nn
from pdl.errors import ShapeError
from pdl.hints import Range
from pdl.nn.blocks import ConvNorm, initialise
from pdl_cv.models.blocks import take_pretrained

Width = Annotated[int, Range(1)]


class Double(nn.Sequential):
    """Two 3 x 3 convolutions."""

    def __init__(self, in_channels: int, channels: int) -> None:
        super().__init__(ConvNorm(in_channels, channels), ConvNorm(channels, channels))

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, in_channels] -> [N, H, W, channels]."""
        first, second = self
        return second(first.raw(x))  # type: ignore[no-any-return, attr-defined]


class Up(nn.Module):
    """Twice the size by a transposed convolution, joined with a map of that size, and two convolutions."""

    def __init__(self, in_channels: int, channels: int) -> None:
        self.up = nn.ConvTranspose2d(in_channels, channels, 2, stride=2)
        self.conv = Double(2 * channels, channels)

    def forward(self, x: pdl.Tensor, across: pdl.Tensor) -> pdl.Tensor:
        """x [N, h, w, in_channels], across [N, 2 h, 2 w, channels] -> as across."""
        return self.conv(pdl.concat([across, self.up(x)], axis=-1))  # type: ignore[no-any-return]


class UNet(nn.Module):
    """x [N, H, W, in_channels] -> logits [N, H, W, num_classes]; H and W are multiples of 2^depth.

    width  channels at the full size; each level below has twice as many
    depth  poolings
    """

    head: ClassVar[str] = "classifier"
    stem: ClassVar[str] = "inc.0.0"

    def __init__(
        self,
        *,
        width: Width = 64,
        depth: Annotated[int, Range(1, 6)] = 4,
        in_channels: Width = 3,
        num_classes: Width = 2,
        pretrained: str | None = None,
    ) -> None:
        channels = [width << level for level in range(depth + 1)]
        self.inc = Double(in_channels, width)
        steps = list(pairwise(channels))
        self.down = nn.ModuleList([Double(a, b) for a, b in steps])
        self.up = nn.ModuleList([Up(b, a) for a, b in reversed(steps)])
        self.classifier = nn.Conv2d(width, num_classes, 1)
        initialise(self)
        take_pretrained(self, pretrained)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, C] -> logits [N, H, W, num_classes]."""
        step = 1 << len(self.down)
        if x.ndim != 4 or x.shape[1] % step or x.shape[2] % step:
            raise ShapeError(f"UNet: x {x.shape} must be [N, H, W, C] with H and W multiples of {step}")
        maps = [self.inc(x)]
        for block in self.down:
            maps.append(block(pdl.max_pool(maps[-1], 2)))
        y = maps.pop()
        for block in self.up:
            y = block(y, maps.pop())
        return self.classifier(y)  # type: ignore[no-any-return]


TASK = "segmentation"
VARIANTS: dict[str, dict[str, Any]] = {"unet": {"_target_": "pdl_cv.UNet"}}
