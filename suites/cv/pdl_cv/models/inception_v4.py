"""Inception-v4: Szegedy, Ioffe, Vanhoucke, Alemi, Inception-v4, Inception-ResNet and the impact of residual connections
on learning, AAAI 2017 (arXiv 1602.07261). Names are timm's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import pdl
from pdl import nn
from pdl.hints import Range
from pdl.nn.blocks import Chain, NamedConvNorm, require_size
from pdl_cv.models.blocks import take_pretrained

Width = Annotated[int, Range(1)]


def unit(
    in_channels: int, channels: int, height: int, width: int | None = None, *, stride: int = 1, pad: bool = True
) -> NamedConvNorm:
    """A convolution with norm and rectifier; with `pad` it keeps the size."""
    kernel = (height, height if width is None else width)
    padding = (kernel[0] // 2, kernel[1] // 2) if pad else 0
    return NamedConvNorm(in_channels, channels, kernel, stride=stride, padding=padding, eps=1e-3)


def halved(in_channels: int, channels: int) -> NamedConvNorm:
    """3 x 3 of stride 2, without padding."""
    return unit(in_channels, channels, 3, stride=2, pad=False)


def averaged(in_channels: int, channels: int) -> Chain:
    """The mean of 3 x 3 neighbours, then 1 x 1."""
    return Chain(nn.AvgPool2d(3, stride=1, padding=1, count_include_pad=False), unit(in_channels, channels, 1))


class _Branches(nn.Module):
    """The children, side by side on the same x; what they give is put together along the channels, in their order."""

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, C] -> [N, H', W', sum of the children's channels]."""
        return pdl.concat([branch(x) for branch in self.children()], axis=-1)


class Mixed3a(_Branches):
    """64 -> 160 channels at half the size; figure 3."""

    def __init__(self) -> None:
        self.maxpool = nn.MaxPool2d(3, stride=2)
        self.conv = halved(64, 96)


class Mixed4a(_Branches):
    """160 -> 192 channels, two cells less; figure 3."""

    def __init__(self) -> None:
        self.branch0 = Chain(unit(160, 64, 1), unit(64, 96, 3, pad=False))
        self.branch1 = Chain(unit(160, 64, 1), unit(64, 64, 1, 7), unit(64, 64, 7, 1), unit(64, 96, 3, pad=False))


class Mixed5a(_Branches):
    """192 -> 384 channels at half the size; figure 3."""

    def __init__(self) -> None:
        self.conv = halved(192, 192)
        self.maxpool = nn.MaxPool2d(3, stride=2)


class InceptionA(_Branches):
    """384 -> 384 channels; figure 4."""

    def __init__(self) -> None:
        self.branch0 = unit(384, 96, 1)
        self.branch1 = Chain(unit(384, 64, 1), unit(64, 96, 3))
        self.branch2 = Chain(unit(384, 64, 1), unit(64, 96, 3), unit(96, 96, 3))
        self.branch3 = averaged(384, 96)


class ReductionA(_Branches):
    """384 -> 1024 channels at half the size; figure 7 with k, l, m, n = 192, 224, 256, 384."""

    def __init__(self) -> None:
        self.branch0 = halved(384, 384)
        self.branch1 = Chain(unit(384, 192, 1), unit(192, 224, 3), halved(224, 256))
        self.branch2 = nn.MaxPool2d(3, stride=2)


class InceptionB(_Branches):
    """1024 -> 1024 channels; figure 5."""

    def __init__(self) -> None:
        self.branch0 = unit(1024, 384, 1)
        self.branch1 = Chain(unit(1024, 192, 1), unit(192, 224, 1, 7), unit(224, 256, 7, 1))
        self.branch2 = Chain(
            unit(1024, 192, 1), unit(192, 192, 7, 1), unit(192, 224, 1, 7), unit(224, 224, 7, 1), unit(224, 256, 1, 7)
        )
        self.branch3 = averaged(1024, 128)


class ReductionB(_Branches):
    """1024 -> 1536 channels at half the size; figure 8."""

    def __init__(self) -> None:
        self.branch0 = Chain(unit(1024, 192, 1), halved(192, 192))
        self.branch1 = Chain(unit(1024, 256, 1), unit(256, 256, 1, 7), unit(256, 320, 7, 1), halved(320, 320))
        self.branch2 = nn.MaxPool2d(3, stride=2)


class InceptionC(nn.Module):
    """1536 -> 1536 channels; figure 6. Two branches end in a fork of 1 x 3 and 3 x 1."""

    def __init__(self) -> None:
        self.branch0 = unit(1536, 256, 1)
        self.branch1_0 = unit(1536, 384, 1)
        self.branch1_1a, self.branch1_1b = unit(384, 256, 1, 3), unit(384, 256, 3, 1)
        self.branch2_0, self.branch2_1, self.branch2_2 = unit(1536, 384, 1), unit(384, 448, 3, 1), unit(448, 512, 1, 3)
        self.branch2_3a, self.branch2_3b = unit(512, 256, 1, 3), unit(512, 256, 3, 1)
        self.branch3 = averaged(1536, 256)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, 1536] -> the same shape."""
        first = self.branch1_0(x)
        second = self.branch2_2(self.branch2_1.raw(self.branch2_0.raw(x)))
        forks = [
            self.branch1_1a(first), self.branch1_1b(first), self.branch2_3a(second), self.branch2_3b(second),
        ]  # fmt: skip
        return pdl.concat([self.branch0(x), *forks, self.branch3(x)], axis=-1)


class InceptionV4(nn.Module):
    """x [N, H, W, in_channels] -> logits [N, num_classes]; figure 9 of the paper, for images of 299 x 299.

    H and W are at least 75. The paper's `dropout` is 0.2. `pretrained`: a name of the hub or a file.
    """

    head: ClassVar[str] = "last_linear"
    stem: ClassVar[str] = "features.0.conv"
    least: ClassVar[int] = 75

    def __init__(
        self,
        *,
        in_channels: Width = 3,
        num_classes: Width = 1000,
        dropout: Annotated[float, Range(0, below=1)] = 0.2,
        pretrained: str | None = None,
    ) -> None:
        self.features = Chain(
            halved(in_channels, 32),
            unit(32, 32, 3, pad=False),
            unit(32, 64, 3),
            Mixed3a(),
            Mixed4a(),
            Mixed5a(),
            *(InceptionA() for _ in range(4)),
            ReductionA(),
            *(InceptionB() for _ in range(7)),
            ReductionB(),
            *(InceptionC() for _ in range(3)),
        )
        self.dropout = nn.Dropout(dropout)
        self.last_linear = nn.Linear(1536, num_classes)
        take_pretrained(self, pretrained)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, C] -> logits [N, num_classes]."""
        require_size(self, x, self.least)
        return self.last_linear(self.dropout(pdl.global_avg_pool(self.features(x))))  # type: ignore[no-any-return]


TASK = "classification"
VARIANTS: dict[str, dict[str, Any]] = {"inception_v4": {"_target_": "pdl_cv.InceptionV4"}}


def remap(model: InceptionV4, state: Mapping[str, Any]) -> dict[str, Any]:
    """A timm state dict (arrays by name) in pdl's layouts; the names are the same."""
    return nn.from_torch(model, state)
