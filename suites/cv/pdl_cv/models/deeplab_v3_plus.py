"""DeepLabV3+: Chen et al., Encoder-decoder with atrous separable convolution for semantic image segmentation, ECCV 2018
(arXiv 1802.02611).

A classification net whose last map has 1/16 of the resolution, looked at by convolutions of several rates side by side
(ASPP, arXiv 1706.05587), enlarged, and joined with a map of 1/4.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

import pdl
from pdl import nn
from pdl.errors import ShapeError
from pdl.hints import Range
from pdl.nn.blocks import ConvNorm, initialise
from pdl_cv.models.blocks import take_pretrained
from pdl_cv.models.detector import Backbone
from pdl_cv.models.mobilenet_v2 import MobileNetV2
from pdl_cv.models.pyramids import dilated

Width = Annotated[int, Range(1)]
LOW = 48  # channels of the map of 1/4, section 4.1
STRIDE = 16


class Separable(nn.Module):
    """A depthwise 3 x 3 convolution of a rate and a 1 x 1 one, each with its norm and rectifier."""

    def __init__(self, in_channels: int, channels: int, rate: int = 1) -> None:
        self.depthwise = nn.Conv2d(
            in_channels, in_channels, 3, padding=rate, dilation=rate, groups=in_channels, bias=False
        )
        self.norm = nn.BatchNorm2d(in_channels)
        self.pointwise = ConvNorm(in_channels, channels, 1)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, in_channels] -> [N, H, W, channels]."""
        return self.pointwise(pdl.relu(self.norm(self.depthwise(x))))  # type: ignore[no-any-return]


class Pooled(nn.Module):
    """The mean over the image, through a 1 x 1 convolution."""

    def __init__(self, in_channels: int, channels: int) -> None:
        self.conv = ConvNorm(in_channels, channels, 1)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, in_channels] -> [N, H, W, channels]."""
        return pdl.resize(self.conv(pdl.global_avg_pool(x, keepdims=True)), x.shape[1:3], mode="nearest")


class ASPP(nn.Module):
    """Atrous spatial pyramid pooling: a 1 x 1 convolution, separable ones of some rates, and the image's mean, side by
    side, and a 1 x 1 convolution of all of them."""

    def __init__(self, in_channels: int, channels: int, rates: Sequence[int], dropout: float) -> None:
        branches = [ConvNorm(in_channels, channels, 1), *(Separable(in_channels, channels, rate) for rate in rates)]
        self.branches = nn.ModuleList([*branches, Pooled(in_channels, channels)])
        self.project = ConvNorm((len(rates) + 2) * channels, channels, 1)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, in_channels] -> [N, H, W, channels]."""
        return self.dropout(self.project(pdl.concat([each(x) for each in self.branches], axis=-1)))  # type: ignore[no-any-return]


class DeepLabV3Plus(nn.Module):
    """Images [N, H, W, 3] -> logits [N, H / 4, W / 4, num_classes]; H and W are multiples of 16.

    backbone    any classification net; by default MobileNetV2 with fresh weights
    channels    of the pyramid and the decoder
    rates       of its convolutions
    pretrained  a name of the hub or a file, with weights of the whole net
    """

    head: ClassVar[str] = "classifier"

    def __init__(
        self,
        *,
        backbone: nn.Module | None = None,
        channels: Width = 256,
        rates: Sequence[Width] = (6, 12, 18),
        dropout: Annotated[float, Range(0, below=1)] = 0.1,
        num_classes: Width = 21,
        pretrained: str | None = None,
    ) -> None:
        net = dilated(MobileNetV2() if backbone is None else backbone, STRIDE)
        self.backbone = Backbone(net, (4, STRIDE))
        low, high = self.backbone.channels
        decoder: list[nn.Module] = [
            ASPP(high, channels, rates, dropout), ConvNorm(low, LOW, 1),
            nn.Sequential(Separable(channels + LOW, channels), Separable(channels, channels)),
        ]  # fmt: skip
        for module in decoder:  # the backbone keeps its weights
            initialise(module)
        self.aspp, self.low, self.decoder = decoder
        self.classifier = nn.Conv2d(channels, num_classes, 1)
        take_pretrained(self, pretrained)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, 3] -> logits [N, H / 4, W / 4, num_classes]."""
        if x.ndim != 4 or x.shape[1] % STRIDE or x.shape[2] % STRIDE:
            raise ShapeError(f"DeepLabV3Plus: x {x.shape} must be [N, H, W, C] with H and W multiples of {STRIDE}")
        low, high = self.backbone(x)
        y = pdl.resize(self.aspp(high), low.shape[1:3], mode="bilinear")
        return self.classifier(self.decoder(pdl.concat([self.low(low), y], axis=-1)))  # type: ignore[no-any-return]


TASK = "segmentation"
VARIANTS: dict[str, dict[str, Any]] = {"deeplab_v3_plus_mobilenet_v2": {"_target_": "pdl_cv.DeepLabV3Plus"}}
