"""DB and DB++: M. Liao et al., Real-time scene text detection with differentiable binarization (AAAI 2020, arXiv
1911.08947) and adaptive scale fusion (TPAMI 2022, arXiv 2202.10304); with PaddleOCR's backbones."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import pdl
from pdl import nn
from pdl.hints import Range
from pdl.nn.blocks import Chain, ConvNorm, divisible, initialise
from pdl_ocr.models.crnn import Basic, Inverted
from pdl_ocr.models.detector import Head, Pyramid, TextDetector
from pdl_ocr.models.svtr_lcnet import pages, separable

Channels = Annotated[int, Range(1)]

#: kernel, expanded and output channels, hard swish? and stride of a block: MobileNetV3 large, without squeeze and
#: excite, as PaddleOCR's detector has it; a stage begins with each stride of 2 but the first
MOBILE: list[tuple[int, int, int, bool, int]] = [
    (3, 16, 16, False, 1),
    (3, 64, 24, False, 2),
    (3, 72, 24, False, 1),
    (5, 72, 40, False, 2),
    (5, 120, 40, False, 1),
    (5, 120, 40, False, 1),
    (3, 240, 80, True, 2),
    (3, 200, 80, True, 1),
    (3, 184, 80, True, 1),
    (3, 184, 80, True, 1),
    (3, 480, 112, True, 1),
    (3, 672, 112, True, 1),
    (5, 672, 160, True, 2),
    (5, 960, 160, True, 1),
    (5, 960, 160, True, 1),
]
RESNET = (64, 128, 256, 512)  # channels of ResNet-18's stages of two blocks


def mobilenet(in_channels: int, width: float) -> tuple[list[nn.Module], tuple[int, ...]]:
    """The stages of MobileNetV3 large, which end at strides 4, 8, 16 and 32, and the channels of each."""
    channels = divisible(16 * width)
    layers: list[list[nn.Module]] = [[ConvNorm(in_channels, channels, 3, stride=2, activation=nn.Hardswish)]]
    ends = []
    for number, (kernel, hidden, out, swish, stride) in enumerate(MOBILE):
        if stride == 2 and number > 1:
            ends.append(channels)
            layers.append([])
        out = divisible(out * width)
        layers[-1].append(Inverted(channels, kernel, divisible(hidden * width), out, False, swish, stride))
        channels = out
    last = divisible(960 * width)
    layers[-1].append(ConvNorm(channels, last, 1, activation=nn.Hardswish))
    return [Chain(*some) for some in layers], (*ends, last)


def resnet(in_channels: int, width: float) -> tuple[list[nn.Module], tuple[int, ...]]:
    """The stages of ResNet-18-vd and the channels of each."""
    stem = (divisible(32 * width), divisible(32 * width), divisible(64 * width))
    first = [ConvNorm(in_channels, stem[0], 3, stride=2), ConvNorm(stem[0], stem[1], 3), ConvNorm(stem[1], stem[2], 3)]
    made: list[nn.Module] = []
    ends, channels = [], stem[-1]
    for number, base in enumerate(RESNET):
        out = divisible(base * width)
        blocks = [Basic(channels, out, 1 if number == 0 else 2), Basic(out, out, 1)]
        made.append(Chain(*first, nn.MaxPool2d(3, stride=2, padding=1), *blocks) if number == 0 else Chain(*blocks))
        channels = out
        ends.append(out)
    return made, tuple(ends)


def pplcnet(in_channels: int, width: float) -> tuple[list[nn.Module], tuple[int, ...]]:
    """The stages of PP-OCRv4's PP-LCNetV3 (Cui et al., arXiv 2109.15099) and the channels of each, without what random
    weights do not need: parallel branches, which a bundle would merge into the one here; single scales and shifts of
    whole maps, which the norms behind them take off again; and the 1 x 1 convolutions in front of the pyramid's own."""
    rows, last = pages(width)
    channels = divisible(16 * width, 16)
    stages: list[list[nn.Module]] = [[ConvNorm(in_channels, channels, 3, stride=2, activation=None)]]
    for number, (kernel, out, stride, squeeze) in enumerate(rows):
        stages[-1] += separable(channels, out, kernel, stride, squeeze, activated=stride == 1)
        channels = out
        stages += [[]] if number in last[:-1] else []
    return [Chain(*some) for some in stages], tuple(rows[number][1] for number in last)


Backbone = Literal["mobilenet_v3", "pplcnet_v3", "resnet18_vd"]
BACKBONES = {"mobilenet_v3": mobilenet, "pplcnet_v3": pplcnet, "resnet18_vd": resnet}


class Stages(nn.ModuleList):
    """The stages of a backbone: x [N, H, W, C] -> what each makes of the one before, at strides 4, 8, 16 and 32."""

    def forward(self, x: pdl.Tensor) -> tuple[pdl.Tensor, ...]:
        found: list[pdl.Tensor] = []
        for stage in self:
            found.append(stage(found[-1] if found else x))
        return tuple(found)


class DB(TextDetector):
    """Images [N, H, W, in_channels], H and W multiples of 32 -> probabilities [N, H, W, 1].

    backbone   mobilenet_v3 (PaddleOCR's width is 0.5), pplcnet_v3 (0.75) or resnet18_vd (1.0)
    width      multiplies the channels of the backbone
    channels   of the pyramid, a multiple of 16 (PaddleOCR: 96 behind mobilenet_v3, else 256)
    adaptive   DB++'s fusion of the scales
    pretrained  a run, a file or a name of the hub
    """

    head: ClassVar[tuple[str, ...]] = ("inside", "border")

    def __init__(
        self,
        backbone: Backbone = "mobilenet_v3",
        *,
        width: Annotated[float, Range(above=0)] = 0.5,
        channels: Channels = 96,
        adaptive: bool = False,
        in_channels: Channels = 3,
        pretrained: str | None = None,
    ) -> None:
        layers, ends = BACKBONES[backbone](in_channels, width)
        self.stages = Stages(layers)
        channels = divisible(channels, 16)
        self.pyramid = Pyramid(ends, channels, adaptive=adaptive)
        self.inside, self.border = Head(channels), Head(channels)
        initialise(self)
        if pretrained is not None:
            from pdl.hub import load_pretrained

            load_pretrained(self, pretrained)

    def features(self, x: pdl.Tensor) -> pdl.Tensor:
        return self.pyramid(self.stages(x))  # type: ignore[no-any-return]


TASK = "text_detection"
VARIANTS = {
    "db_mobilenet_v3": {"_target_": "pdl_ocr.DB"},
    "db_pplcnet_v3": {"_target_": "pdl_ocr.DB", "backbone": "pplcnet_v3", "width": 0.75},
    "db_resnet18_vd": {"_target_": "pdl_ocr.DB", "backbone": "resnet18_vd", "width": 1.0, "channels": 256},
    "dbpp_resnet18_vd": {
        "_target_": "pdl_ocr.DB", "backbone": "resnet18_vd", "width": 1.0, "channels": 256, "adaptive": True,
    },
}  # fmt: skip
