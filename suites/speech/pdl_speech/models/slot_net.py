"""SlotNet: what is said of each slot of an order, from its sound alone (the task of Lugosch et al., Speech model
pre-training for end-to-end spoken language understanding, 2019, arXiv 1904.03670), by separable convolutions over time
(as in QuartzNet, arXiv 1910.10261), a recurrent layer, and attention of a query for each slot (Lin et al., A structured
self-attentive sentence embedding, 2017, arXiv 1703.03130)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal

import pdl
from pdl import nn
from pdl.errors import ConfigError, ShapeError
from pdl.hints import Range
from pdl.nn.blocks import initialise
from pdl_speech.features import Features
from pdl_speech.models.audio_net import AudioNet
from pdl_speech.models.matchbox_net import Separable
from pdl_speech.models.speech_net import Real

Width = Annotated[int, Range(1)]
FIRST = 5  # frames of the kernels that leave steps out
NEVER = -1e9  # score of a step that is none


class Strided(nn.Module):
    """Convolutions over time with stride 2, each with batch norm and ReLU: 2 ** layers frames become a step."""

    def __init__(self, in_channels: int, width: int, layers: int) -> None:
        sizes = (in_channels, *(width,) * layers)
        self.convs = nn.ModuleList(
            nn.Conv1d(before, width, FIRST, stride=2, padding=FIRST // 2, bias=False) for before in sizes[:-1]
        )
        self.norms = nn.ModuleList(nn.BatchNorm1d(width) for _ in range(layers))

    def forward(self, x: pdl.Tensor, real: Real) -> tuple[pdl.Tensor, Real]:
        """x [N, T, in_channels] -> [N, T', width], and which of these steps are real."""
        for conv, norm in zip(self.convs, self.norms, strict=True):
            real = real.every(2)
            x = real.mask(pdl.relu(norm(conv(x))))
        return x, real


class Residual(nn.Module):
    """relu(x + norm(pointwise(depthwise(x))))."""

    def __init__(self, width: int, kernel: int, dropout: float) -> None:
        self.separable = Separable(width, width, kernel)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: pdl.Tensor, real: Real) -> pdl.Tensor:
        """x [N, T, width] -> the same shape."""
        return real.mask(pdl.relu(x + self.dropout(self.separable(x))))


class SlotHeads(nn.Module):
    """For each slot the steps it listens to, a = softmax over time of q tanh(W x + b), and a linear layer on the sum of
    a x: its scores."""

    def __init__(self, in_channels: int, attention: int, sizes: Sequence[int]) -> None:
        self.keys = nn.Linear(in_channels, attention)
        self.queries = nn.Linear(attention, len(sizes), bias=False)
        self.classifiers = nn.ModuleList(nn.Linear(in_channels, size) for size in sizes)

    def forward(self, x: pdl.Tensor, real: Real) -> pdl.Tensor:
        """x [N, T, in_channels] -> [N, sum of sizes]."""
        scores = self.queries(pdl.tanh(self.keys(x)))
        there = real.there(x)
        if there is not None:
            scores = pdl.where(pdl.expand_dims(there, axis=2), scores, NEVER)
        heard = pdl.permute_dims(pdl.softmax(scores, axis=1), (0, 2, 1)) @ x  # [N, S, in_channels]
        return pdl.concat([layer(heard[:, k]) for k, layer in enumerate(self.classifiers)], axis=1)


class SlotNet(AudioNet):
    """Waveforms [N, T], with their lengths [N] where they are filled up, -> logits [N, sum of sizes], those of one slot
    behind those of another. In evaluation an answer does not depend on what fills a recording up, if its features do
    not (`pad_mode: constant`).

    sizes      how many values each slot has, that it is not said among them; by default those of the data
    width      channels of the convolutions
    blocks     residual ones, at one step each
    kernel     steps of a block's kernel, an odd number
    stride     frames of a step
    hidden     numbers of a state of a recurrent layer (GRU) that reads both ways; 0: there is none
    attention  numbers by which a slot compares steps
    dropout    in the blocks, and behind the recurrent layer
    All else is as in `AudioNet`.
    """

    head: ClassVar[str] = "slots"

    def __init__(
        self,
        *,
        features: Features,
        sizes: Sequence[Annotated[int, Range(1)]] = (2,),
        width: Width = 96,
        blocks: Annotated[int, Range(0, 64)] = 6,
        kernel: Annotated[int, Range(1, 255)] = 9,
        stride: Literal[2, 4, 8] = 4,
        hidden: Annotated[int, Range(0)] = 64,
        attention: Width = 64,
        dropout: Annotated[float, Range(0, below=1)] = 0.1,
        pretrained: str | None = None,
    ) -> None:
        if not sizes:
            raise ConfigError("SlotNet: sizes is empty; give how many values each slot has")
        if kernel % 2 == 0:
            raise ConfigError(f"SlotNet: kernel={kernel} must be an odd number")
        self.features, self.sizes = features, list(sizes)
        self.strided = Strided(features.channels, width, stride.bit_length() - 1)
        self.blocks = nn.ModuleList(Residual(width, kernel, dropout) for _ in range(blocks))
        self.gru = nn.GRU(width, hidden, bidirectional=True) if hidden else None
        self.dropout = nn.Dropout(dropout)
        self.slots = SlotHeads(2 * hidden if hidden else width, attention, self.sizes)
        initialise(self)
        for layer in (self.slots.keys, self.slots.queries, *self.slots.classifiers):  # else it hardly begins to learn
            layer.reset_parameters()
        self.finish_init(pretrained)

    def forward(self, x: pdl.Tensor, lengths: pdl.Tensor | None = None) -> Any:
        """x [N, T], and the samples of each, int64 [N] (None: all T) -> logits [N, sum of sizes]."""
        if x.ndim != 2:
            raise ShapeError(f"{type(self).__name__}: waveforms {x.shape} must be [N, T]")
        real = Real(None if lengths is None else self.features.frames(lengths))
        y, real = self.strided(real.mask(self.features(x, lengths)), real)
        for block in self.blocks:
            y = block(y, real)
        if self.gru is not None:
            y = self.gru(y, lengths=real.counts)[0]
        return self.slots(self.dropout(y), real)
