"""PSPNet: Zhao et al., Pyramid scene parsing network, CVPR 2017 (arXiv 1612.01105).

A classification net whose last map has 1/8 of the resolution, and beside every place of it means over the image and
over 4, 9 and 36 parts of it: what a place is depends on the scene.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

import pdl
from pdl import nn
from pdl.errors import ConfigError, ShapeError
from pdl.hints import Range
from pdl.nn.blocks import ConvNorm, initialise
from pdl_cv.models.blocks import Auxiliary, PixelHead, take_pretrained
from pdl_cv.models.pyramids import Taps, dilated
from pdl_cv.models.resnet import ResNet

Width = Annotated[int, Range(1)]
STRIDE = 8
AUXILIARY = 0.4  # section 3.3


class PyramidPooling(nn.Module):
    """A map, and its means over grids of cells, each through a 1 x 1 convolution and enlarged, side by side: figure
    3."""

    def __init__(self, in_channels: int, bins: Sequence[int]) -> None:
        self.bins = tuple(bins)
        self.stages = nn.ModuleList([ConvNorm(in_channels, in_channels // len(bins), 1) for _ in bins])

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, h, w, in_channels] -> [N, h, w, 2 in_channels]."""
        means = [
            pdl.resize(stage(pdl.adaptive_avg_pool(x, (cells, cells))), x.shape[1:3], mode="bilinear")
            for cells, stage in zip(self.bins, self.stages, strict=True)
        ]
        return pdl.concat([x, *means], axis=-1)


class PSPNet(nn.Module):
    """Images [N, H, W, 3] -> logits [N, H / 8, W / 8, num_classes]; H and W are multiples of 8. In training the maps
    before the last have heads of their own (`Auxiliary`).

    backbone    any classification net; by default ResNet-50 with fresh weights
    after       its modules: behind the last of them stands the map that is pooled, behind the others those of the
                auxiliary heads; of MobileNetV2 [features.13, features.17]
    bins        cells a side of the grids whose means are taken
    channels    of the head; an auxiliary one has half as many
    pretrained  a name of the hub or a file, with weights of the whole net
    """

    head: ClassVar[str] = "classifier.logits"

    def __init__(
        self,
        *,
        backbone: nn.Module | None = None,
        after: Sequence[str] = ("layer3", "layer4"),
        bins: Sequence[Width] = (1, 2, 3, 6),
        channels: Width = 512,
        dropout: Annotated[float, Range(0, below=1)] = 0.1,
        num_classes: Width = 19,
        pretrained: str | None = None,
    ) -> None:
        net = dilated(ResNet(50) if backbone is None else backbone, STRIDE)
        missing = [path for path in after if path not in dict(net.named_modules())]
        if missing or not after:
            raise ConfigError(
                f"model.after: {type(net).__name__} has no module {missing[0] if missing else ''!r}; name those whose "
                "maps are used, such as [features.13, features.17] of MobileNetV2"
            )
        self.backbone = Taps(net, tuple(after), last_conv=False)
        *others, last = self.backbone.channels
        self.pool = PyramidPooling(last, bins)
        self.classifier = PixelHead(last + last // len(bins) * len(bins), channels, num_classes, dropout)
        self.auxiliary = nn.ModuleList([PixelHead(width, channels // 2, num_classes, dropout) for width in others])
        for module in (self.pool, self.classifier, self.auxiliary):  # the backbone keeps its weights
            initialise(module)
        take_pretrained(self, pretrained)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor | Auxiliary:
        """x [N, H, W, 3] -> logits [N, H / 8, W / 8, num_classes], or in training `Auxiliary`."""
        if x.ndim != 4 or x.shape[1] % STRIDE or x.shape[2] % STRIDE:
            raise ShapeError(f"PSPNet: x {x.shape} must be [N, H, W, C] with H and W multiples of {STRIDE}")
        *others, last = self.backbone(x)
        logits = self.classifier(self.pool(last))
        if not (self.training and others):
            return logits  # type: ignore[no-any-return]
        return Auxiliary(logits, tuple(head(y) for head, y in zip(self.auxiliary, others, strict=True)), AUXILIARY)


TASK = "segmentation"
VARIANTS: dict[str, dict[str, Any]] = {
    f"pspnet_resnet{depth}": {
        "_target_": "pdl_cv.PSPNet",
        "backbone": {"_target_": "pdl_cv.ResNet", "depth": depth, "deep_stem": True},
    }
    for depth in (50, 101)
}
