"""CRNN: Shi, Bai, Yao, An end-to-end trainable neural network for image-based sequence recognition, 2015 (arXiv
1507.05717); with the paper's convolutions, and with PaddleOCR's backbones."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import pdl
from pdl import nn
from pdl.hints import Range
from pdl.nn.blocks import Chain, ConvNorm, SqueezeExcite, chain, divisible, initialise
from pdl_ocr.models.recogniser import Recogniser, columns

Width = Annotated[int, Range(1)]
DOWN = (2, 1)  # the stride of what halves the height and keeps the columns

#: kernel, expanded and output channels, squeeze-and-excite?, hard swish?, stride of a block: MobileNetV3 small, with
#: the strides of PaddleOCR's rec_mobile_v3
MOBILE: list[tuple[int, int, int, bool, bool, int | tuple[int, int]]] = [
    (3, 16, 16, True, False, 1),
    (3, 72, 24, False, False, DOWN),
    (3, 88, 24, False, False, 1),
    (5, 96, 40, True, True, DOWN),
    (5, 240, 40, True, True, 1),
    (5, 240, 40, True, True, 1),
    (5, 120, 48, True, True, 1),
    (5, 144, 48, True, True, 1),
    (5, 288, 96, True, True, DOWN),
    (5, 576, 96, True, True, 1),
    (5, 576, 96, True, True, 1),
]
RESNET: list[tuple[int, int, int | tuple[int, int]]] = [(64, 3, 1), (128, 4, DOWN), (256, 6, DOWN), (512, 3, DOWN)]
"""Channels, blocks and the first stride of ResNet-34's stages, the strides those of lines."""


class Inverted(nn.Module):
    """MobileNetV3's block: expand, filter, squeeze and excite, project; plus x where the shapes allow."""

    def __init__(
        self, before: int, kernel: int, hidden: int, out: int, squeeze: bool, swish: bool, stride: int | tuple[int, int]
    ) -> None:
        act = nn.Hardswish if swish else nn.ReLU
        self.block = nn.Sequential(
            ConvNorm(before, hidden, 1, activation=act),
            ConvNorm(hidden, hidden, kernel, stride=stride, groups=hidden, activation=act),
            *([SqueezeExcite(hidden, divisible(hidden / 4))] if squeeze else []),
            ConvNorm(hidden, out, 1, activation=None),
        )
        self.residual = stride == 1 and before == out

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, C] -> [N, H / stride, W / stride, out]."""
        return chain(self.block, x, residual=x if self.residual else None)


class Basic(nn.Module):
    """ResNet-vd's block of two 3 x 3 convolutions (He et al., arXiv 1812.01187): the way past a stride is a mean over
    windows and a 1 x 1 convolution."""

    def __init__(self, before: int, out: int, stride: int | tuple[int, int]) -> None:
        self.convs = nn.Sequential(ConvNorm(before, out, 3, stride=stride), ConvNorm(out, out, 3, activation=None))
        self.stride = stride
        self.past = None if stride == 1 and before == out else ConvNorm(before, out, 1, activation=None)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, C] -> [N, H / stride, W / stride, out]."""
        short = x
        if self.past is not None:
            short = self.past(x if self.stride == 1 else pdl.avg_pool(x, self.stride, stride=self.stride))
        return pdl.relu(chain(self.convs, x) + short)


def mobilenet(in_channels: int, width: float) -> tuple[nn.Module, int]:
    """MobileNetV3 small, and its channels: [N, 32, W, C] -> [N, 1, W / 4, channels]."""
    channels = divisible(16 * width)
    layers: list[nn.Module] = [ConvNorm(in_channels, channels, 3, stride=2, activation=nn.Hardswish)]
    for kernel, hidden, out, squeeze, swish, stride in MOBILE:
        layers.append(
            Inverted(channels, kernel, divisible(hidden * width), divisible(out * width), squeeze, swish, stride)
        )
        channels = divisible(out * width)
    last = divisible(576 * width)
    return Chain(*layers, ConvNorm(channels, last, 1, activation=nn.Hardswish), nn.MaxPool2d(2, stride=2)), last


def resnet(in_channels: int, width: float) -> tuple[nn.Module, int]:
    """ResNet-34-vd, and its channels: [N, 32, W, C] -> [N, 1, W / 4, channels]."""
    stem = (divisible(32 * width), divisible(32 * width), divisible(64 * width))
    layers: list[nn.Module] = [ConvNorm(a, b, 3) for a, b in zip((in_channels, *stem), stem, strict=False)]
    layers.append(nn.MaxPool2d(3, stride=2, padding=1))
    channels = stem[-1]
    for base, blocks, first in RESNET:
        for block in range(blocks):
            layers.append(Basic(channels, divisible(base * width), first if block == 0 else 1))
            channels = divisible(base * width)
    return Chain(*layers, nn.MaxPool2d(2, stride=2)), channels


def vgg(in_channels: int, width: float) -> tuple[nn.Module, int]:
    """The paper's convolutions, with norms, and their channels: [N, 32, W, C] -> [N, 1, W / 4, channels]."""
    layers: list[nn.Module] = []
    channels = in_channels
    for base, pool in ((64, 2), (128, 2), (256, None), (256, DOWN), (512, None), (512, DOWN), (512, DOWN)):
        layers.append(ConvNorm(channels, divisible(base * width), 3))
        channels = divisible(base * width)
        layers += [] if pool is None else [nn.MaxPool2d(pool, stride=pool)]
    return Chain(*layers), channels


BACKBONES = {"mobilenet_v3": mobilenet, "resnet34_vd": resnet, "vgg": vgg}


class CRNN(Recogniser):
    """Images of lines [N, 32, W, in_channels] -> logits [N, W / 4, num_classes]: convolutions until one row is left,
    LSTMs in both directions along it, a linear layer.

    backbone   mobilenet_v3 or resnet34_vd, as in PaddleOCR, or the paper's vgg
    width      multiplies the channels of the backbone (PaddleOCR's mobilenet_v3 has 0.5)
    hidden     of an LSTM, in each direction (PaddleOCR: 48 behind mobilenet_v3, else 256)
    layers     LSTMs one on top of the other
    dropout    before the last layer
    pretrained  a run, a file or a name of the hub
    """

    head: ClassVar[str] = "classifier"
    stride = 4

    def __init__(
        self,
        backbone: Literal["mobilenet_v3", "resnet34_vd", "vgg"] = "mobilenet_v3",
        *,
        width: Annotated[float, Range(above=0)] = 0.5,
        hidden: Width = 48,
        layers: Width = 2,
        dropout: Annotated[float, Range(0, below=1)] = 0.0,
        in_channels: Width = 3,
        num_classes: Annotated[int, Range(2)] = 37,
        pretrained: str | None = None,
    ) -> None:
        self.features, channels = BACKBONES[backbone](in_channels, width)
        self.rnn = nn.LSTM(channels, hidden, num_layers=layers, bidirectional=True)
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(2 * hidden, num_classes)
        initialise(self.features)
        if pretrained is not None:
            from pdl.hub import load_pretrained

            load_pretrained(self, pretrained)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, 32, W, C] -> logits [N, W / 4, num_classes]."""
        self.check(x)
        y, _ = self.rnn(columns(self.features(x)))
        return self.classifier(self.dropout(y))  # type: ignore[no-any-return]


TASK = "text_recognition"
VARIANTS = {
    "crnn_mobilenet_v3": {"_target_": "pdl_ocr.CRNN"},
    "crnn_resnet34_vd": {"_target_": "pdl_ocr.CRNN", "backbone": "resnet34_vd", "width": 1.0, "hidden": 256},
    "crnn_vgg": {"_target_": "pdl_ocr.CRNN", "backbone": "vgg", "width": 1.0, "hidden": 256},
}
