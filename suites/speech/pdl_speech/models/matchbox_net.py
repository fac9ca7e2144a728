"""MatchboxNet: Majumdar, Ginsburg, 1D time-channel separable convolutional neural network architecture for speech
commands recognition, 2020 (arXiv 2004.08531)."""

from __future__ import annotations

from typing import Annotated

import pdl
from pdl import nn
from pdl.hints import Range
from pdl.nn.blocks import initialise
from pdl_speech.features import Features
from pdl_speech.models.audio_net import AudioNet

EDGE = 128  # channels of the layers before and behind the blocks
FIRST = 11  # frames of the kernel in front of the blocks; that of the i-th is 11 + 2 i


class Separable(nn.Module):
    """A depthwise convolution over time, a pointwise one, batch norm; activation and dropout are left to the block."""

    def __init__(self, in_channels: int, channels: int, kernel: int, *, dilation: int = 1) -> None:
        half = dilation * (kernel - 1) // 2
        self.depthwise = nn.Conv1d(
            in_channels, in_channels, kernel, padding=half, dilation=dilation, groups=in_channels, bias=False
        )
        self.pointwise = nn.Conv1d(in_channels, channels, 1, bias=False)
        self.norm = nn.BatchNorm1d(channels)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, T, in_channels] -> [N, T, channels]."""
        return self.norm(self.pointwise(self.depthwise(x)))  # type: ignore[no-any-return]


class Block(nn.Module):
    """`layers` separable convolutions, with a pointwise residual in front of the last activation."""

    def __init__(self, in_channels: int, channels: int, kernel: int, layers: int, dropout: float) -> None:
        self.layers = nn.ModuleList(
            Separable(in_channels if i == 0 else channels, channels, kernel) for i in range(layers)
        )
        self.residual = nn.Sequential(nn.Conv1d(in_channels, channels, 1, bias=False), nn.BatchNorm1d(channels))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, T, in_channels] -> [N, T, channels]."""
        before = self.residual(x)
        for layer in list(self.layers)[:-1]:
            x = self.dropout(pdl.relu(layer(x)))
        return self.dropout(pdl.relu(self.layers[-1](x) + before))  # type: ignore[no-any-return]


class MatchboxNet(AudioNet):
    """Waveforms [N, T] -> logits [N, num_classes]: MatchboxNet-BxRxC of the paper, 3x1x64 by default. The paper's
    features are 64 MFCC of 25 ms every 10 ms.

    blocks, layers, channels  B, R and C
    dropout                   behind each activation of the blocks
    All else is as in `AudioNet`.
    """

    def __init__(
        self,
        *,
        features: Features,
        num_classes: Annotated[int, Range(1)] = 30,
        blocks: Annotated[int, Range(1, 16)] = 3,
        layers: Annotated[int, Range(1, 16)] = 1,
        channels: Annotated[int, Range(1)] = 64,
        dropout: Annotated[float, Range(0, below=1)] = 0.1,
        pretrained: str | None = None,
    ) -> None:
        self.features = features
        self.before = Separable(features.channels, EDGE, FIRST)
        self.blocks = nn.Sequential(
            *(
                Block(EDGE if i == 0 else channels, channels, FIRST + 2 * (i + 1), layers, dropout)
                for i in range(blocks)
            )
        )
        self.behind = Separable(channels, EDGE, 29, dilation=2)
        self.last = nn.Sequential(nn.Conv1d(EDGE, EDGE, 1, bias=False), nn.BatchNorm1d(EDGE), nn.ReLU())
        self.classifier = nn.Linear(EDGE, num_classes)
        initialise(self)
        self.finish_init(pretrained)

    def classify(self, features: pdl.Tensor) -> pdl.Tensor:
        """features [N, frames, channels] -> logits [N, num_classes]."""
        x = self.blocks(pdl.relu(self.before(features)))
        x = self.last(pdl.relu(self.behind(x)))
        return self.classifier(x.mean(axis=1))  # type: ignore[no-any-return]
