"""MobileNet: Howard et al., MobileNets: efficient convolutional neural networks for mobile vision applications, 2017
(arXiv 1704.04861).
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import pdl
from pdl import nn
from pdl.hints import Range
from pdl_cv.models.blocks import ConvNorm, initialise, take_pretrained

Width = Annotated[int, Range(1)]

#: (channels, stride) of the thirteen depthwise separable blocks, table 1
BLOCKS = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1)]


class MobileNetV1(nn.Module):
    """x [N, H, W, in_channels] -> logits [N, num_classes]: a convolution and thirteen depthwise separable blocks.

    `width` multiplies all channels (1, 0.75, 0.5 and 0.25 in the paper). `pretrained`: a name of the hub or a file.
    """

    head: ClassVar[str] = "classifier.1"
    stem: ClassVar[str] = "features.0.0"

    def __init__(
        self,
        *,
        width: Annotated[float, Range(above=0)] = 1.0,
        in_channels: Width = 3,
        num_classes: Width = 1000,
        dropout: Annotated[float, Range(0, below=1)] = 0.001,
        pretrained: str | None = None,
    ) -> None:
        channels = int(32 * width)
        layers: list[nn.Module] = [ConvNorm(in_channels, channels, stride=2)]
        for base, stride in BLOCKS:
            out = int(base * width)
            depthwise = ConvNorm(channels, channels, stride=stride, groups=channels)
            layers.append(nn.Sequential(depthwise, ConvNorm(channels, out, 1)))
            channels = out
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(nn.Dropout(dropout), nn.Linear(channels, num_classes))
        initialise(self)
        take_pretrained(self, pretrained)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, C] -> logits [N, num_classes]."""
        return self.classifier(pdl.global_avg_pool(self.features(x)))  # type: ignore[no-any-return]


TASK = "classification"
VARIANTS: dict[str, dict[str, Any]] = {
    "mobilenet_v1": {"_target_": "pdl_cv.MobileNetV1"},
    "mobilenet_v1_075": {"_target_": "pdl_cv.MobileNetV1", "width": 0.75},
    "mobilenet_v1_050": {"_target_": "pdl_cv.MobileNetV1", "width": 0.5},
    "mobilenet_v1_025": {"_target_": "pdl_cv.MobileNetV1", "width": 0.25},
}
