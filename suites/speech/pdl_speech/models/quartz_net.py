"""QuartzNet: Kriman et al., QuartzNet: deep automatic speech recognition with 1D time-channel separable convolutions,
2019 (arXiv 1910.10261)."""

from __future__ import annotations

from typing import Annotated, ClassVar

import pdl
from pdl import nn
from pdl.hints import Range
from pdl.nn.blocks import divisible, initialise
from pdl.nn.streaming import WHOLE, Past
from pdl_speech.features import Features
from pdl_speech.models.speech_net import Real, SpeechNet

#: frames of the kernels and channels of the five groups of blocks (table 1)
GROUPS = ((33, 256), (39, 256), (51, 512), (63, 512), (75, 512))
FIRST, LAST, WIDE = (33, 256), (87, 512), 1024


class Separable(nn.Module):
    """A depthwise convolution over time, a pointwise one, batch norm; activation and dropout are left to the block."""

    def __init__(self, in_channels: int, channels: int, kernel: int, *, stride: int = 1, dilation: int = 1) -> None:
        half = dilation * (kernel - 1) // 2
        self.depthwise = nn.Conv1d(
            in_channels, in_channels, kernel, stride=stride, padding=half, dilation=dilation, groups=in_channels,
            bias=False,
        )  # fmt: skip
        self.pointwise = nn.Linear(in_channels, channels, bias=False)
        self.norm = nn.BatchNorm1d(channels)

    def forward(self, x: pdl.Tensor, real: Real) -> pdl.Tensor:
        """x [N, T, in_channels] -> [N, T / stride, channels]."""
        return self.norm(self.pointwise(self.depthwise(real.mask(x))))  # type: ignore[no-any-return]


class Block(nn.Module):
    """`layers` separable convolutions, with a pointwise residual in front of the last activation."""

    def __init__(self, in_channels: int, channels: int, kernel: int, layers: int, dropout: float) -> None:
        self.layers = nn.ModuleList(
            Separable(in_channels if i == 0 else channels, channels, kernel) for i in range(layers)
        )
        self.past = nn.Linear(in_channels, channels, bias=False)
        self.past_norm = nn.BatchNorm1d(channels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: pdl.Tensor, real: Real) -> pdl.Tensor:
        """x [N, T, in_channels] -> [N, T, channels]."""
        before = self.past_norm(self.past(x))
        for layer in list(self.layers)[:-1]:
            x = self.dropout(pdl.relu(layer(x, real)))
        return self.dropout(pdl.relu(self.layers[-1](x, real) + before))  # type: ignore[no-any-return]


class QuartzNet(SpeechNet):
    """QuartzNet-BxR of the paper, 5x5 by default: separable convolutions over time with wide kernels, a step for two
    frames. The paper's features are 64 mel bands of 20 ms every 10 ms.

    repeats  of each of the five groups of blocks: 1, 2 and 3 for B = 5, 10 and 15
    layers   R: convolutions of a block
    width    multiplies all channels
    stride   the frames of a step: 2 (the paper's) or 4, the first of the blocks then has the other 2
    dropout  behind each activation of the blocks
    All else is as in `SpeechNet`.
    """

    head: ClassVar[str] = "classifier"

    def __init__(
        self,
        *,
        features: Features,
        num_classes: Annotated[int, Range(2)] = 29,
        repeats: Annotated[int, Range(1, 3)] = 1,
        layers: Annotated[int, Range(1, 8)] = 5,
        width: Annotated[float, Range(above=0)] = 1.0,
        stride: Annotated[int, Range(2, 4)] = 2,
        dropout: Annotated[float, Range(0, below=1)] = 0.0,
        pretrained: str | None = None,
    ) -> None:
        self.features = features
        self.strides = (2,) if stride == 2 else (2, 2)
        kernel, base = FIRST
        channels = divisible(base * width)
        self.before = nn.ModuleList(
            Separable(features.channels if i == 0 else channels, channels, kernel, stride=each)
            for i, each in enumerate(self.strides)
        )
        blocks: list[Block] = []
        for kernel, base in GROUPS:
            for _ in range(repeats):
                out = divisible(base * width)
                blocks.append(Block(channels, out, kernel, layers, dropout))
                channels = out
        self.blocks = nn.ModuleList(blocks)
        kernel, base = LAST
        self.behind = Separable(channels, divisible(base * width), kernel, dilation=2)
        wide = divisible(WIDE * width)
        self.wide, self.wide_norm = nn.Linear(divisible(base * width), wide, bias=False), nn.BatchNorm1d(wide)
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(wide, num_classes)
        initialise(self)
        for module in self.modules():
            if isinstance(module, nn.Linear) and module is not self.classifier:
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        self.finish_init(pretrained)

    def encode(self, features: pdl.Tensor, real: Real, past: Past = WHOLE) -> tuple[pdl.Tensor, Real]:
        """features [N, frames, channels] -> [N, frames / stride, 1024 width]."""
        x = features
        for layer, stride in zip(self.before, self.strides, strict=True):
            x = pdl.relu(layer(x, real))
            real = real.every(stride)
        for block in self.blocks:
            x = block(x, real)
        x = self.dropout(pdl.relu(self.behind(x, real)))
        return self.dropout(pdl.relu(self.wide_norm(self.wide(x)))), real


TASK = "speech_recognition"
VARIANTS = {
    f"quartz_net_{5 * repeats}x5": {"_target_": "pdl_speech.QuartzNet", "repeats": repeats} for repeats in (1, 2, 3)
}
