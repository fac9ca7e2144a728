"""Simple Baselines: Xiao, Wu, Wei, Simple baselines for human pose estimation and tracking, ECCV 2018 (arXiv
1804.06208).

A classification net without its classifier, and three transposed convolutions, which take its last map from 1/32 to 1/4
of the input's resolution. Names are the authors', those of the backbone behind `backbone.net`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import pdl
from pdl import nn
from pdl.hints import Range
from pdl_cv.models.blocks import take_pretrained
from pdl_cv.models.detector import Backbone
from pdl_cv.models.mobilenet_v2 import MobileNetV2
from pdl_cv.models.resnet import ResNet

Width = Annotated[int, Range(1)]
Size = Literal["resnet50", "resnet101", "resnet152", "mobilenet_v2"]
FILTERS = 256  # of each transposed convolution


def _net(size: Size) -> nn.Module:
    """The classification net of a size, with fresh weights."""
    return MobileNetV2() if size == "mobilenet_v2" else ResNet(int(size.removeprefix("resnet")))  # type: ignore[arg-type]


class SimpleBaseline(nn.Module):
    """Images [N, H, W, 3] -> heatmaps [N, H / 4, W / 4, num_keypoints]; H and W are multiples of 32.

    `backbone`: any classification net; by default that of `size`, with fresh weights. `pretrained`: a name of the hub
    or a file, with weights of the whole net.

    num_keypoints  points of each object
    """

    head: ClassVar[str] = "final_layer"

    def __init__(
        self,
        size: Size = "resnet50",
        *,
        num_keypoints: Width = 17,
        backbone: nn.Module | None = None,
        pretrained: str | None = None,
    ) -> None:
        self.backbone = Backbone(_net(size) if backbone is None else backbone, (32,), last_conv=True)
        layers: list[nn.Module] = []
        for channels in (self.backbone.channels[0], FILTERS, FILTERS):
            up = nn.ConvTranspose2d(channels, FILTERS, 4, stride=2, padding=1, bias=False)
            nn.init.normal_(up.weight, std=0.001)
            layers += [up, nn.BatchNorm2d(FILTERS), nn.ReLU()]
        self.deconv_layers = nn.Sequential(*layers)
        self.final_layer = nn.Conv2d(FILTERS, num_keypoints, 1)
        nn.init.normal_(self.final_layer.weight, std=0.001)
        assert self.final_layer.bias is not None
        nn.init.zeros_(self.final_layer.bias)
        take_pretrained(self, pretrained)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, 3] -> heatmaps [N, H / 4, W / 4, num_keypoints]."""
        (last,) = self.backbone(x)
        return self.final_layer(self.deconv_layers(last))  # type: ignore[no-any-return]


TASK = "keypoints"
VARIANTS: dict[str, dict[str, Any]] = {
    f"simple_baseline_{size}": {"_target_": "pdl_cv.SimpleBaseline", "size": size}
    for size in ("resnet50", "resnet101", "resnet152", "mobilenet_v2")
}


def remap(model: SimpleBaseline, state: Mapping[str, Any]) -> dict[str, Any]:
    """A state dict (arrays by name) of the authors or of mmpose, of ResNets, in pdl's names and layouts."""
    own = re.compile(r"^(deconv_layers|final_layer|backbone\.net)\.")
    renamed = {}
    for name, value in state.items():
        name = re.sub(r"^(backbone\.(?!net\.)|keypoint_head\.|head\.)", "", name)
        renamed[name if own.match(name) else f"backbone.net.{name}"] = value
    return nn.from_torch(model, renamed)
