"""Silero VAD, version 6: where somebody speaks (Silero Team, github.com/snakers4/silero-vad)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

import pdl
from pdl import nn
from pdl.decoder_state import Framing
from pdl.errors import ShapeError
from pdl.nn.blocks import initialise
from pdl.nn.streaming import WHOLE, Past, Streaming

HOP, BEFORE, AHEAD = 512, 64, 64  # samples of a step at 16 kHz, of the step before that it reads, and mirrored behind
BANDS = 129


class SileroVAD(Streaming):
    """Waveforms [N, T] at 16 kHz -> logits [N, steps] that somebody speaks, a step for each 512 samples (32 ms), the
    last of which zeros may fill up. A step is a spectrogram of 4 frames of 256 samples, whose transform is learned,
    four convolutions down to one frame, and a step of an LSTM. It can be streamed.

    pretrained  a name of the hub, a bundle or a file of weights
    """

    rate: ClassVar[int] = 16000
    head: ClassVar[str] = "classifier"
    framing = Framing(size=HOP + BEFORE, shift=HOP, chunk=1, before=BEFORE, after=HOP - 1)

    def __init__(self, *, pretrained: str | None = None) -> None:
        self.transform = nn.Conv1d(1, 2 * BANDS, 256, stride=128, bias=False)
        sizes = ((BANDS, 128, 1), (128, 64, 2), (64, 64, 2), (64, 128, 1))
        self.encoder = nn.ModuleList(nn.Conv1d(a, b, 3, stride=stride, padding=1) for a, b, stride in sizes)
        self.gates = nn.Linear(128, 4 * 128)
        self.recurrent = nn.Parameter(pdl.zeros((128, 4 * 128)))
        self.classifier = nn.Linear(128, 1)
        initialise(self)
        nn.init.xavier_uniform_(self.recurrent)
        if pretrained is not None:
            from pdl.hub import load_pretrained

            load_pretrained(self, pretrained)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, T] -> logits [N, steps]."""
        if x.ndim != 2:
            raise ShapeError(f"SileroVAD: waveforms {x.shape} must be [N, T]")
        steps = (x.shape[1] + HOP - 1) // HOP
        return self._follow(pdl.pad(x, ((0, 0), (BEFORE, steps * HOP - x.shape[1]))), WHOLE)

    def step(self, x: pdl.Tensor, counts: pdl.Tensor, past: Past) -> pdl.Tensor:
        return self._follow(x, past)

    def _follow(self, x: pdl.Tensor, past: Past) -> pdl.Tensor:
        """x [N, 64 + 512 steps] -> [N, steps]."""
        n, steps = x.shape[0], (x.shape[1] - BEFORE) // HOP
        own = x[:, BEFORE:].reshape(n * steps, HOP)
        before = x[:, : steps * HOP].reshape(n * steps, HOP)[:, :BEFORE]
        y = pdl.pad(pdl.concat([before, own], axis=1), ((0, 0), (0, AHEAD)), mode="reflect")
        y = self.transform(pdl.expand_dims(y, axis=2))
        y = pdl.sqrt(y[..., :BANDS] ** 2 + y[..., BANDS:] ** 2)
        for conv in self.encoder:
            y = pdl.relu(conv(y))
        gates = self.gates(y.reshape(n, steps, 128))

        def run(h: pdl.Tensor | None, c: pdl.Tensor | None) -> tuple[pdl.Tensor, ...]:
            return pdl.lstm_from_gates(gates, self.recurrent, initial=(h, c))

        y = pdl.relu(past.recurrent(n, [(128,), (128,)], run))
        return self.classifier(y).reshape(n, steps)  # type: ignore[no-any-return]


#: layers as the published ONNX files call them, and as silero_vad_16k.safetensors does, whose weights are older ones
_NAMES = (
    ("transform", "model.stft.forward_basis_buffer", "stft_conv"),
    *((f"encoder.{i}", f"model.encoder.{i}.reparam_conv", f"conv{i + 1}") for i in range(4)),
    ("cell", "model.decoder.rnn", "lstm_cell"),
    ("classifier", "model.decoder.decoder.2", "final_conv"),
)


def remap(model: SileroVAD, state: Mapping[str, Any]) -> dict[str, Any]:
    """The published weights in pdl's names and layouts; both biases of the cell are one."""
    given = {name: np.asarray(value) for name, value in state.items()}
    if "model.stft.forward_basis_buffer" in given:
        given["model.stft.forward_basis_buffer.weight"] = given.pop("model.stft.forward_basis_buffer")
    found = {
        f"{own}.{name.rpartition('.')[2]}": value
        for name, value in given.items()
        for own, *theirs in _NAMES
        if name.rpartition(".")[0] in theirs
    }
    made = {name: value for name, value in found.items() if not name.startswith("cell.")}
    made["gates.weight"] = found["cell.weight_ih"]
    made["gates.bias"] = found["cell.bias_ih"] + found["cell.bias_hh"]
    made["recurrent"] = found["cell.weight_hh"].T
    made["classifier.weight"] = made["classifier.weight"][:, :, 0]
    return nn.from_torch(model, made)
