"""MobileNetV2: Sandler et al., MobileNetV2: inverted residuals and linear bottlenecks, CVPR 2018 (arXiv 1801.04381).
Names are torchvision's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Literal, cast

import pdl
from pdl import nn
from pdl.hints import Range
from pdl.nn.blocks import ConvNorm, divisible, initialise
from pdl.nn.fused import Raw, conv_norm, finish
from pdl_cv.models.blocks import take_pretrained

Width = Annotated[int, Range(1)]

#: expansion, channels, blocks, stride of the first; table 2
STAGES = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]


class InvertedResidual(nn.Module):
    """Expand by 1 x 1, filter by depthwise 3 x 3, project by 1 x 1 without activation; plus x where shapes allow."""

    def __init__(self, in_channels: int, channels: int, *, stride: int, expansion: int) -> None:
        hidden = in_channels * expansion
        expand = [ConvNorm(in_channels, hidden, 1, activation=nn.ReLU6)] if expansion != 1 else []
        self.conv = nn.Sequential(
            *expand,
            ConvNorm(hidden, hidden, stride=stride, groups=hidden, activation=nn.ReLU6),
            nn.Conv2d(hidden, channels, 1, bias=False),
            nn.BatchNorm2d(channels),
        )
        self.residual = stride == 1 and in_channels == channels

    def forward(self, x: pdl.Tensor | Raw) -> pdl.Tensor:
        """x [N, H, W, C] -> [N, H / stride, W / stride, channels]."""
        *layers, conv, norm = cast(Any, self.conv)
        if self.residual and isinstance(x, Raw):  # a narrow net: the stem is as wide as the first block
            x = finish(x)
        y = x
        for layer in layers:
            y = layer.raw(y)
        return finish(conv_norm(y, conv, norm), residual=cast(pdl.Tensor, x) if self.residual else None)


class MobileNetV2(nn.Module):
    """x [N, H, W, in_channels] -> logits [N, num_classes].

    `width` multiplies all channels but the last 1280, which only grow; `stride` is that of the first convolution, 2 in
    the paper, 1 for images of 32 pixels. `pretrained`: a name of the hub or a file.
    """

    head: ClassVar[str] = "classifier.1"
    stem: ClassVar[str] = "features.0.0"

    def __init__(
        self,
        *,
        width: Annotated[float, Range(above=0)] = 1.0,
        stride: Literal[1, 2] = 2,
        in_channels: Width = 3,
        num_classes: Width = 1000,
        dropout: Annotated[float, Range(0, below=1)] = 0.2,
        pretrained: str | None = None,
    ) -> None:
        channels, last = divisible(32 * width), divisible(1280 * max(1.0, width))
        layers: list[nn.Module] = [ConvNorm(in_channels, channels, stride=stride, activation=nn.ReLU6)]
        for expansion, base, count, first in STAGES:
            out = divisible(base * width)
            for number in range(count):
                layers.append(InvertedResidual(channels, out, stride=1 if number else first, expansion=expansion))
                channels = out
        self.features = nn.Sequential(*layers, ConvNorm(channels, last, 1, activation=nn.ReLU6))
        self.last_conv = f"features.{len(layers)}"
        self.classifier = nn.Sequential(nn.Dropout(dropout), nn.Linear(last, num_classes))
        initialise(self)
        take_pretrained(self, pretrained)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, C] -> logits [N, num_classes]."""
        y: Any = x
        for block in self.blocks():
            y = block(y)
        return self.classifier(pdl.global_avg_pool(y))  # type: ignore[no-any-return]

    def blocks(self) -> list[Callable[..., Any]]:
        """What images run through, one after the other, up to the mean over places."""
        stem, *others = cast(Any, self.features)
        return [stem.raw, *others]


TASK = "classification"
VARIANTS: dict[str, dict[str, Any]] = {
    "mobilenet_v2": {"_target_": "pdl_cv.MobileNetV2"},
    "mobilenet_v2_140": {"_target_": "pdl_cv.MobileNetV2", "width": 1.4},
    "mobilenet_v2_130": {"_target_": "pdl_cv.MobileNetV2", "width": 1.3},
    "mobilenet_v2_075": {"_target_": "pdl_cv.MobileNetV2", "width": 0.75},
    "mobilenet_v2_050": {"_target_": "pdl_cv.MobileNetV2", "width": 0.5},
    "mobilenet_v2_035": {"_target_": "pdl_cv.MobileNetV2", "width": 0.35},
}


def remap(model: MobileNetV2, state: Mapping[str, Any]) -> dict[str, Any]:
    """A torchvision state dict (arrays by name) in pdl's layouts; the names are the same."""
    return nn.from_torch(model, state)
