"""ECAPA-TDNN: Desplanques, Thienpondt, Demuynck, ECAPA-TDNN: emphasized channel attention, propagation and aggregation
in TDNN based speaker verification, 2020 (arXiv 2005.07143)."""

from __future__ import annotations

from typing import Annotated

import pdl
from pdl import nn
from pdl.errors import ConfigError
from pdl.hints import Range
from pdl_speech.features import Features
from pdl_speech.models.speaker_net import TDNN, SpeakerNet, moments

SCALE = 8  # parts of the channels of a Res2Net block
DILATIONS = (2, 3, 4)  # of the three blocks
AGGREGATED, ATTENTION, SQUEEZED = 1536, 128, 128


class Res2(nn.Module):
    """Channels in eight parts: the first as it is, each other one through a convolution, after the result of the part
    before it is added (Gao et al., arXiv 1904.01169)."""

    def __init__(self, channels: int, kernel: int, dilation: int) -> None:
        self.width = channels // SCALE
        self.layers = nn.ModuleList(TDNN(self.width, self.width, kernel, dilation=dilation) for _ in range(SCALE - 1))

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, T, channels] -> the same shape."""
        parts = [x[:, :, i * self.width : (i + 1) * self.width] for i in range(SCALE)]
        found = parts[:1]
        for number, (layer, part) in enumerate(zip(self.layers, parts[1:], strict=True)):
            found.append(layer(part + found[-1] if number else part))
        return pdl.concat(found, axis=2)


class SqueezeExcite(nn.Module):
    """Channels times a gate in (0, 1) that the mean over all frames decides (Hu et al., arXiv 1709.01507)."""

    def __init__(self, channels: int, squeezed: int) -> None:
        self.down, self.up = nn.Linear(channels, squeezed), nn.Linear(squeezed, channels)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, T, channels] -> the same shape."""
        mean = pdl.mean(x, axis=1, keepdims=True)
        return x * pdl.sigmoid(self.up(pdl.relu(self.down(mean))))


class Block(nn.Module):
    """SE-Res2Block: pointwise, Res2, pointwise, squeeze and excitation, plus the input."""

    def __init__(self, channels: int, dilation: int, squeezed: int) -> None:
        self.layers = nn.Sequential(
            TDNN(channels, channels), Res2(channels, 3, dilation), TDNN(channels, channels),
            SqueezeExcite(channels, squeezed),
        )  # fmt: skip

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, T, channels] -> the same shape."""
        return self.layers(x) + x  # type: ignore[no-any-return]


class AttentiveStatistics(nn.Module):
    """Mean and standard deviation over frames that are weighted for each channel by what is in them, and by mean and
    standard deviation of the whole recording (equations 1 to 4)."""

    def __init__(self, channels: int, hidden: int) -> None:
        self.frames = nn.Linear(channels, hidden)
        self.context = nn.Linear(2 * channels, hidden, bias=False)
        self.scores = nn.Linear(hidden, channels)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, T, channels] -> [N, 2 channels]."""
        context = self.context(pdl.concat(moments(x), axis=2))
        weights = pdl.softmax(self.scores(pdl.tanh(self.frames(x) + context)), axis=1)
        return pdl.squeeze(pdl.concat(moments(x, weights), axis=2), axis=1)


class ECAPATDNN(SpeakerNet):
    """Waveforms [N, T] -> embeddings [N, embedding_size]: a convolution, three SE-Res2Blocks of which each reads the
    sum of all before it, their outputs together, attentive statistics. The paper's features are 80 MFCC of 25 ms every
    10 ms, less their means.

    channels        of the blocks, a multiple of 8: 512 or 1024 in the paper
    aggregated      channels that the outputs of the blocks become
    embedding_size  numbers of an embedding
    All else is as in `SpeakerNet`.
    """

    def __init__(
        self,
        *,
        features: Features,
        channels: Annotated[int, Range(SCALE)] = 512,
        aggregated: Annotated[int, Range(1)] = AGGREGATED,
        embedding_size: Annotated[int, Range(1)] = 192,
        pretrained: str | None = None,
    ) -> None:
        if channels % SCALE:
            raise ConfigError(f"ECAPATDNN: channels={channels} must be a multiple of {SCALE}")
        self.features, self.embedding_size = features, embedding_size
        self.stem = TDNN(features.channels, channels, 5)
        self.blocks = nn.ModuleList(Block(channels, dilation, SQUEEZED) for dilation in DILATIONS)
        self.aggregate = nn.Sequential(nn.Linear(len(DILATIONS) * channels, aggregated), nn.ReLU())
        self.pool = AttentiveStatistics(aggregated, ATTENTION)
        self.embed = nn.Sequential(
            nn.BatchNorm1d(2 * aggregated), nn.Linear(2 * aggregated, embedding_size), nn.BatchNorm1d(embedding_size)
        )
        self.finish_init(pretrained)

    def classify(self, features: pdl.Tensor) -> pdl.Tensor:
        """features [N, frames, channels] -> [N, embedding_size]."""
        total, found = self.stem(features), list[pdl.Tensor]()
        for block in self.blocks:
            found.append(block(total))
            total = total + found[-1]
        return self.embed(self.pool(self.aggregate(pdl.concat(found, axis=2))))  # type: ignore[no-any-return]
