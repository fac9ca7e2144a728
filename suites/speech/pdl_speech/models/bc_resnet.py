"""BC-ResNet: Kim, Chang, Lee, Sung, Broadcasted residual learning for efficient keyword spotting, 2021 (arXiv
2106.04140).
"""

from __future__ import annotations

from typing import Annotated

import pdl
from pdl import nn
from pdl.errors import ConfigError
from pdl.hints import Range
from pdl.nn.blocks import ConvNorm
from pdl_speech.features import Features
from pdl_speech.models.audio_net import AudioNet, as_image

#: blocks, channels by base width, stride over frequency, and dilation over time of the four stages (table 1)
STAGES = ((2, 1.0, 1, 1), (2, 1.5, 2, 2), (4, 2.0, 2, 4), (4, 2.5, 1, 8))
BASE = 8
BANDS = 5


class SubSpectralNorm(nn.Module):
    """Batch norm of x [N, T, F, C] with statistics of their own for each of five bands of frequencies (Chang et al.,
    arXiv 2103.13620)."""

    def __init__(self, channels: int) -> None:
        self.norm = nn.BatchNorm2d(channels * BANDS)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, T, F, C], F a multiple of five -> the same shape."""
        n, time, bands, channels = x.shape
        split = pdl.permute_dims(x.reshape(n, time, BANDS, bands // BANDS, channels), (0, 1, 3, 2, 4))
        normed = self.norm(split.reshape(n, time, bands // BANDS, BANDS * channels))
        back = pdl.permute_dims(normed.reshape(n, time, bands // BANDS, BANDS, channels), (0, 1, 3, 2, 4))
        return back.reshape(n, time, bands, channels)


class Block(nn.Module):
    """y = relu(f2 + broadcast(f1(mean of f2 over frequency)) + x): f2 looks along frequency, f1 along time. A block
    that changes the width has a pointwise convolution first, and x is left out."""

    def __init__(self, in_channels: int, channels: int, *, stride: int, dilation: int, dropout: float) -> None:
        self.changes = in_channels != channels
        self.widen = ConvNorm(in_channels, channels, 1) if self.changes else nn.Identity()
        self.frequency = nn.Sequential(
            nn.Conv2d(channels, channels, (1, 3), stride=(1, stride), padding=(0, 1), groups=channels, bias=False),
            SubSpectralNorm(channels),
        )
        self.time = nn.Sequential(
            nn.Conv2d(
                channels, channels, (3, 1), padding=(dilation, 0), dilation=(dilation, 1), groups=channels, bias=False
            ),
            nn.BatchNorm2d(channels),
            nn.SiLU(),
            nn.Conv2d(channels, channels, 1, bias=False),
            nn.ChannelDropout(dropout),
        )

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, T, F, in_channels] -> [N, T, F / stride, channels]."""
        along = self.frequency(self.widen(x))
        y = along + self.time(along.mean(axis=2, keepdims=True))
        return pdl.relu(y if self.changes else y + x)


class BCResNet(AudioNet):
    """Waveforms [N, T] -> logits [N, num_classes]: residual blocks along frequency, with residuals along time that are
    computed of the mean over frequencies and broadcast. The paper's features are 40 log-mel of 30 ms every 10 ms.

    width     of all channels: BC-ResNet-1 to -8 of the paper have 1, 1.5, 2, 3, 6 and 8
    dropout   of channels in the blocks
    All else is as in `AudioNet`; channels of the features are a multiple of 40.
    """

    def __init__(
        self,
        *,
        features: Features,
        num_classes: Annotated[int, Range(1)] = 12,
        width: Annotated[float, Range(high=16, above=0)] = 1.0,
        dropout: Annotated[float, Range(0, below=1)] = 0.1,
        pretrained: str | None = None,
    ) -> None:
        self.features = features
        if features.channels % 40:
            raise ConfigError(
                f"BCResNet: features have {features.channels} channels; it takes a multiple of 40, such as n_mels: 40"
            )
        base = BASE * width
        channels = int(2 * base)
        self.stem = nn.Sequential(
            nn.Conv2d(1, channels, 5, stride=(1, 2), padding=2, bias=False), nn.BatchNorm2d(channels), nn.ReLU()
        )
        blocks: list[nn.Module] = []
        for count, factor, stride, dilation in STAGES:
            for number in range(count):
                out = int(base * factor)
                step = stride if number == 0 else 1
                blocks.append(Block(channels, out, stride=step, dilation=dilation, dropout=dropout))
                channels = out
        self.blocks = nn.Sequential(*blocks)
        last = int(4 * base)
        self.neck = nn.Sequential(
            nn.Conv2d(channels, channels, 5, padding=(2, 0), groups=channels, bias=False),
            nn.Conv2d(channels, last, 1, bias=False),
            nn.BatchNorm2d(last),
            nn.ReLU(),
        )
        self.classifier = nn.Linear(last, num_classes)
        self.finish_init(pretrained)

    def classify(self, features: pdl.Tensor) -> pdl.Tensor:
        """features [N, frames, channels] -> logits [N, num_classes]."""
        x = self.neck(self.blocks(self.stem(as_image(features))))
        return self.classifier(pdl.global_avg_pool(x))  # type: ignore[no-any-return]
