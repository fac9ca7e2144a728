"""DotNet: two convolutions and a linear layer, enough to find a dot."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import pdl
from pdl import nn
from pdl.errors import ShapeError
from pdl.hints import Range

Width = Annotated[int, Range(1)]


class DotNet(nn.Module):
    """x [N, image_size, image_size, in_channels] -> points [N, outputs]; `width` is that of the first convolution."""

    head: ClassVar[str] = "fc"
    stem: ClassVar[str] = "conv1"

    def __init__(
        self,
        *,
        in_channels: Width = 1,
        outputs: Width = 2,
        width: Width = 8,
        image_size: Annotated[int, Range(4)] = 16,
    ) -> None:
        self.image_size = image_size
        side = -(-image_size // 4)
        self.conv1 = nn.Conv2d(in_channels, width, 3, stride=2, padding=1)
        self.conv2 = nn.Conv2d(width, 2 * width, 3, stride=2, padding=1)
        self.fc = nn.Linear(side * side * 2 * width, outputs)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, C] -> points [N, outputs]."""
        if x.shape[1:3] != (self.image_size, self.image_size):
            raise ShapeError(
                f"DotNet: x {x.shape} holds images of {x.shape[1:3]}; the net has image_size={self.image_size}"
            )
        x = pdl.relu(self.conv2(pdl.relu(self.conv1(x))))
        return self.fc(pdl.flatten(x, start=1))


TASK = "locate"
VARIANTS: dict[str, dict[str, Any]] = {
    "dotnet": {"_target_": "pdl_newsuite.DotNet"},
    "dotnet_wide": {"_target_": "pdl_newsuite.DotNet", "width": 32},
}
