"""ShuffleNetV2: Ma, Zhang, Zheng, Sun, ShuffleNet V2: practical guidelines for efficient CNN architecture design, ECCV
2018 (arXiv 1807.11164). Names are torchvision's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import pdl
from pdl import nn
from pdl.hints import Range
from pdl.nn.blocks import FUSED, initialise
from pdl.nn.fused import Raw, conv_norm, finish
from pdl_cv.models.blocks import take_pretrained

Width = Annotated[int, Range(1)]

#: channels of the first convolution, the three stages and the last convolution by size, table 5
CHANNELS = {
    "x0_5": (24, 48, 96, 192, 1024),
    "x1_0": (24, 116, 232, 464, 1024),
    "x1_5": (24, 176, 352, 704, 1024),
    "x2_0": (24, 244, 488, 976, 2048),
}
#: blocks of the three stages
COUNTS = (4, 8, 4)


class Layers(nn.Sequential):
    """Convolutions, each with its norm and maybe a rectifier behind it, in one flat row; none: the identity."""

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, C] -> [N, H', W', channels]."""
        y: pdl.Tensor | Raw = x
        layers = list(self)
        while layers:
            conv, norm = layers.pop(0), layers.pop(0)
            assert isinstance(conv, nn.Conv2d)
            assert isinstance(norm, nn.BatchNorm2d)
            rectified = bool(layers) and isinstance(layers[0], nn.ReLU)
            y = conv_norm(y, conv, norm, FUSED[type(layers.pop(0))] if rectified else None)
        return finish(y) if isinstance(y, Raw) else y


def _wide(in_channels: int, channels: int, kernel: int = 1, stride: int = 1) -> list[nn.Module]:
    """A convolution with norm and rectifier."""
    conv = nn.Conv2d(in_channels, channels, kernel, stride=stride, padding=kernel // 2, bias=False)
    return [conv, nn.BatchNorm2d(channels), nn.ReLU()]


def _depthwise(channels: int, stride: int) -> list[nn.Module]:
    """A depthwise 3 x 3 convolution with norm."""
    conv = nn.Conv2d(channels, channels, 3, stride=stride, padding=1, groups=channels, bias=False)
    return [conv, nn.BatchNorm2d(channels)]


class InvertedResidual(nn.Module):
    """Figure 3 (c) at stride 1: half of the channels pass, half go through 1 x 1, depthwise and 1 x 1; (d) at stride 2:
    both halves come from all channels. Then the channels of the halves alternate.
    """

    def __init__(self, in_channels: int, channels: int, *, stride: int) -> None:
        half = channels // 2
        self.stride = stride
        first = [*_depthwise(in_channels, stride), *_wide(in_channels, half)] if stride > 1 else []
        self.branch1 = Layers(first)
        self.branch2 = Layers(
            *_wide(in_channels if stride > 1 else half, half), *_depthwise(half, stride), *_wide(half, half)
        )

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, C] -> [N, H / stride, W / stride, channels]."""
        half = x.shape[-1] // 2
        left, right = (x, x) if self.stride > 1 else (x[..., :half], x[..., half:])
        both = pdl.stack([self.branch1(left), self.branch2(right)], axis=-1)
        return both.reshape((*both.shape[:-2], 2 * both.shape[-2]))


class ShuffleNetV2(nn.Module):
    """x [N, H, W, in_channels] -> logits [N, num_classes].

    `size` names the factor of all channels. `small_images` lets the first convolution go at stride 1 and leaves out the
    max pool, for images of about 32 pixels. `pretrained`: a name of the hub or a file.
    """

    head: ClassVar[str] = "fc"
    stem: ClassVar[str] = "conv1.0"
    last_conv: ClassVar[str] = "conv5"

    def __init__(
        self,
        size: Literal["x0_5", "x1_0", "x1_5", "x2_0"] = "x1_0",
        *,
        small_images: bool = False,
        in_channels: Width = 3,
        num_classes: Width = 1000,
        dropout: Annotated[float, Range(0, below=1)] = 0.0,
        pretrained: str | None = None,
    ) -> None:
        first, *stages, last = CHANNELS[size]
        self.small_images = small_images
        self.conv1 = Layers(*_wide(in_channels, first, 3, 1 if small_images else 2))
        channels = first
        for number, (count, out) in enumerate(zip(COUNTS, stages, strict=True)):
            blocks = [InvertedResidual(out if i else channels, out, stride=1 if i else 2) for i in range(count)]
            setattr(self, f"stage{number + 2}", nn.Sequential(*blocks))
            channels = out
        self.conv5 = Layers(*_wide(channels, last))
        self.dropout = nn.Dropout(dropout)
        self.fc = nn.Linear(last, num_classes)
        initialise(self)
        take_pretrained(self, pretrained)

    stage2: nn.Sequential
    stage3: nn.Sequential
    stage4: nn.Sequential

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, C] -> logits [N, num_classes]."""
        x = self.conv1(x)
        if not self.small_images:
            x = pdl.max_pool(x, 3, stride=2, padding=1)
        x = self.conv5(self.stage4(self.stage3(self.stage2(x))))
        return self.fc(self.dropout(pdl.global_avg_pool(x)))  # type: ignore[no-any-return]


TASK = "classification"
VARIANTS: dict[str, dict[str, Any]] = {
    f"shufflenet_v2_{size}": {"_target_": "pdl_cv.ShuffleNetV2", "size": size} for size in CHANNELS
}


def remap(model: ShuffleNetV2, state: Mapping[str, Any]) -> dict[str, Any]:
    """A torchvision state dict (arrays by name) in pdl's layouts; the names are the same."""
    return nn.from_torch(model, state)
