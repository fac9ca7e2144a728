"""Deep Speech 2: Amodei et al., Deep Speech 2: end-to-end speech recognition in English and Mandarin, 2015 (arXiv
1512.02595)."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

import pdl
from pdl import nn
from pdl.hints import Range
from pdl.nn import init
from pdl.nn.blocks import initialise
from pdl.nn.streaming import WHOLE, Past
from pdl_speech.features import Features
from pdl_speech.models.audio_net import as_image
from pdl_speech.models.speech_net import Real, SpeechNet

Width = Annotated[int, Range(1)]
TIME = 11  # frames of a kernel
STEPS = 16  # of a chunk of a stream; any number gives the same
CLIP = 20.0  # of the clipped ReLU min(max(x, 0), 20)
BANDS = (41, 21, 21)  # of the kernels of two-dimensional convolutions (table 5)


class Convolutions(nn.Module):
    """Convolutions over time, or over time and frequency, each with batch norm and a clipped ReLU. `forward`: they look
    ahead no further than the frames of their own step."""

    def __init__(self, in_channels: int, channels: int, strides: tuple[int, ...], planar: bool, forward: bool) -> None:
        self.planar, self.strides, self.ahead = planar, strides, not forward
        self.convs, self.norms = nn.ModuleList(), nn.ModuleList()
        bands, before = in_channels, 1 if planar else in_channels
        for stride, wide in zip(strides, BANDS, strict=False):
            around = 0 if forward else TIME // 2
            if planar:
                conv: nn.Module = nn.Conv2d(
                    before, channels, (TIME, wide), stride=(stride, 2), padding=(around, wide // 2), bias=False
                )
                bands = -(-bands // 2)
            else:
                conv = nn.Conv1d(before, channels, TIME, stride=stride, padding=around, bias=False)
            self.convs.append(conv)
            self.norms.append(nn.BatchNorm2d(channels) if planar else nn.BatchNorm1d(channels))
            before = channels
        self.out = channels * (bands if planar else 1)

    def forward(self, x: pdl.Tensor, real: Real, past: Past) -> tuple[pdl.Tensor, Real]:
        """x [N, T, in_channels] -> [N, T', out], and which of these steps are real."""
        y = as_image(x) if self.planar else x
        for conv, norm, stride in zip(self.convs, self.norms, self.strides, strict=True):
            real = real.every(stride)
            if not self.ahead:
                y = past.extended(y, TIME - stride)
                if past is WHOLE and stride > 1:
                    y = pdl.pad(y, ((0, 0), (0, stride - 1), *((0, 0),) * (y.ndim - 2)))
            y = real.mask(pdl.hardtanh(norm(conv(y)), low=0.0, high=CLIP))
        return (y.reshape(y.shape[0], y.shape[1], self.out) if self.planar else y), real


class Recurrent(nn.Module):
    """A recurrent layer, forward or in both directions, whose outputs are summed, with sequence-wise batch norm: of
    W x, over all steps of a batch, and not of what comes from the step before (equation 10)."""

    def __init__(self, in_channels: int, hidden: int, cell: Literal["gru", "lstm"], both: bool) -> None:
        self.cell, self.width, self.hidden, self.both = cell, hidden * (3 if cell == "gru" else 4), hidden, both
        ways = 2 if both else 1
        self.inputs = nn.Linear(in_channels, ways * self.width, bias=False)
        self.norm = nn.BatchNorm1d(ways * self.width)
        self.forth = nn.Parameter(pdl.zeros((hidden, self.width)))
        if both:
            self.back = nn.Parameter(pdl.zeros((hidden, self.width)))

    def reset_parameters(self) -> None:
        """U(-a, a), a = 1 / sqrt(hidden), as recurrent layers have."""
        bound = 1.0 / math.sqrt(self.forth.shape[0])
        for weight in (self.inputs.weight, self.forth, *((self.back,) if self.both else ())):
            init.uniform_(weight, -bound, bound)

    def forward(self, x: pdl.Tensor, real: Real, past: Past) -> pdl.Tensor:
        """x [N, T, in_channels] -> [N, T, hidden], 0 behind the real steps."""
        gates = self.norm(self.inputs(x))
        run: Any = pdl.gru_from_gates if self.cell == "gru" else pdl.lstm_from_gates
        if not self.both:

            def forward(*state: pdl.Tensor | None) -> tuple[pdl.Tensor, ...]:
                first = state if len(state) > 1 else state[0]
                return run(gates, self.forth, initial=first, lengths=real.counts)  # type: ignore[no-any-return]

            return past.recurrent(x.shape[0], [(self.hidden,)] * (1 if self.cell == "gru" else 2), forward)
        forth = run(gates[..., : self.width], self.forth, lengths=real.counts)[0]
        back = run(gates[..., self.width :], self.back, lengths=real.counts, reverse=True)[0]
        return forth + back  # type: ignore[no-any-return]


class DeepSpeech2(SpeechNet):
    """Convolutions, recurrent layers, a linear layer. The paper's features are a power spectrogram
    of 20 ms every 10 ms.

    conv       "2d": two convolutions over time and frequency; "1d": over time alone, where channels are no frequencies
               that lie side by side (cepstra)
    channels   of each convolution (the paper: 32 in 2D, 1280 in 1D)
    stride     the frames of a step: 2 or 4
    cell       gru, or lstm (a variant that the paper does not have)
    hidden     of a recurrent layer, in each direction
    layers     recurrent ones
    dropout    in front of each recurrent layer and of the last one
    direction  both, or forward: recurrent layers of one direction, and convolutions that look back, for streaming (the
               paper's, section 3.7, but without its lookahead convolution)
    All else is as in `SpeechNet`.
    """

    def __init__(
        self,
        *,
        features: Features,
        num_classes: Annotated[int, Range(2)] = 29,
        conv: Literal["1d", "2d"] = "2d",
        channels: Width = 32,
        stride: Annotated[int, Range(2, 4)] = 2,
        cell: Literal["gru", "lstm"] = "gru",
        hidden: Width = 768,
        layers: Width = 5,
        dropout: Annotated[float, Range(0, below=1)] = 0.0,
        direction: Literal["both", "forward"] = "both",
        pretrained: str | None = None,
    ) -> None:
        self.features, forward = features, direction == "forward"
        if forward:
            features.framing  # noqa: B018 - says why, of features that cannot be streamed
            self.chunk = STEPS
        self.strides = (2, 2) if stride == 4 else (stride, 1)
        self.convs = Convolutions(features.channels, channels, self.strides, conv == "2d", forward)
        self.layers = nn.ModuleList(
            Recurrent(self.convs.out if i == 0 else hidden, hidden, cell, not forward) for i in range(layers)
        )
        self.norm = nn.BatchNorm1d(hidden)
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(hidden, num_classes)
        initialise(self)
        for layer in self.modules():
            if isinstance(layer, Recurrent):
                layer.reset_parameters()
        self.finish_init(pretrained)

    def encode(self, features: pdl.Tensor, real: Real, past: Past = WHOLE) -> tuple[pdl.Tensor, Real]:
        """features [N, frames, channels] -> [N, frames / stride, hidden]."""
        y, real = self.convs(features, real, past)
        for layer in self.layers:
            y = layer(self.dropout(y), real, past)
        return self.dropout(self.norm(y)), real


TASK = "speech_recognition"
VARIANTS = {"deep_speech_2": {"_target_": "pdl_speech.DeepSpeech2"}}
