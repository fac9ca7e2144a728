"""R(2+1)D: Tran et al., A closer look at spatiotemporal convolutions for action recognition, CVPR 2018 (arXiv
1711.11248), with torchvision's names.

A convolution over space and time is one over space, a norm and a rectifier, and one over time, with so many channels
between them that both have as many weights as one of 3 x 3 x 3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import pdl
from pdl import nn
from pdl.errors import ShapeError
from pdl.hints import Range
from pdl_cv.models.blocks import take_pretrained

Width = Annotated[int, Range(1)]
STEM = 45  # channels between the convolutions of a stem of 64


def spatial(in_channels: int, channels: int, kernel: int = 3, stride: int = 1) -> nn.Conv3d:
    """A convolution of each frame that keeps the size at stride 1."""
    half = kernel // 2
    sizes: dict[str, Any] = {"stride": (1, stride, stride), "padding": (0, half, half)}
    return nn.Conv3d(in_channels, channels, (1, kernel, kernel), bias=False, **sizes)


def temporal(in_channels: int, channels: int, stride: int = 1) -> nn.Conv3d:
    """A convolution of three frames at each place."""
    return nn.Conv3d(in_channels, channels, (3, 1, 1), stride=(stride, 1, 1), padding=(1, 0, 0), bias=False)


def factored(in_channels: int, channels: int, middle: int, stride: int = 1) -> nn.Sequential:
    """Both convolutions in place of one, and the norm behind them."""
    layers = [spatial(in_channels, middle, stride=stride), nn.BatchNorm3d(middle), nn.ReLU()]
    both = nn.Sequential(*layers, temporal(middle, channels, stride))
    return nn.Sequential(both, nn.BatchNorm3d(channels))


class Block(nn.Module):
    """relu(shortcut(x) + conv2(relu(conv1(x))))."""

    def __init__(self, in_channels: int, channels: int, stride: int) -> None:
        middle = (in_channels * channels * 27) // (in_channels * 9 + 3 * channels)  # section 3.5; of both convolutions
        self.conv1, self.conv2 = factored(in_channels, channels, middle, stride), factored(channels, channels, middle)
        self.downsample: nn.Module | None = None
        if stride != 1 or in_channels != channels:
            project = nn.Conv3d(in_channels, channels, 1, stride=stride, bias=False)
            self.downsample = nn.Sequential(project, nn.BatchNorm3d(channels))

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, T, H, W, in_channels] -> [N, T / stride, H / stride, W / stride, channels]."""
        y = self.conv2(pdl.relu(self.conv1(x)))
        return pdl.relu(y + (x if self.downsample is None else self.downsample(x)))


class R2Plus1D(nn.Module):
    """Clips [N, T, H, W, in_channels] -> logits [N, num_classes]: 18 layers.

    width       channels of the first stage, doubled in each of the three others
    dropout     before the head
    pretrained  a name of the hub or a file
    """

    head: ClassVar[str] = "fc"

    def __init__(
        self,
        *,
        width: Width = 64,
        in_channels: Width = 3,
        num_classes: Width = 400,
        dropout: Annotated[float, Range(0, below=1)] = 0.0,
        pretrained: str | None = None,
    ) -> None:
        middle = max(1, STEM * width // 64)
        first = [spatial(in_channels, middle, 7, 2), nn.BatchNorm3d(middle), nn.ReLU()]
        self.stem = nn.Sequential(*first, temporal(middle, width), nn.BatchNorm3d(width), nn.ReLU())
        channels = width
        for stage in range(4):
            out, stride = width * 2**stage, 2 if stage else 1
            setattr(self, f"layer{stage + 1}", nn.Sequential(Block(channels, out, stride), Block(out, out, 1)))
            channels = out
        self.dropout, self.fc = nn.Dropout(dropout), nn.Linear(channels, num_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv3d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        take_pretrained(self, pretrained)

    layer1: nn.Sequential
    layer2: nn.Sequential
    layer3: nn.Sequential
    layer4: nn.Sequential

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, T, H, W, C] -> logits [N, num_classes]."""
        if x.ndim != 5:
            raise ShapeError(f"R2Plus1D: x {x.shape} must be clips [N, T, H, W, C]")
        y = self.layer4(self.layer3(self.layer2(self.layer1(self.stem(x)))))
        return self.fc(self.dropout(y.mean(axis=(1, 2, 3))))  # type: ignore[no-any-return]


TASK = "video"
VARIANTS: dict[str, dict[str, Any]] = {"r2plus1d_18": {"_target_": "pdl_cv.R2Plus1D"}}


def remap(model: R2Plus1D, state: Mapping[str, Any]) -> dict[str, Any]:
    """A torchvision state dict (arrays by name) in pdl's layouts; the names are the same."""
    return nn.from_torch(model, state)
