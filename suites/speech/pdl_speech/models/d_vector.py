"""D-vectors of an LSTM: Wan, Wang, Papir, Lopez Moreno, Generalized end-to-end loss for speaker verification, 2017
(arXiv 1710.10467); as Resemblyzer has it (Resemble AI, Apache-2.0)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import pdl
from pdl import nn
from pdl.hints import Range
from pdl_speech.features import Features
from pdl_speech.models.speaker_net import SpeakerNet


class DVector(SpeakerNet):
    """Waveforms [N, T] -> embeddings [N, embedding_size]: the last output of an LSTM, a linear layer, ReLU.
    Resemblyzer's features are powers in 40 mel bands of 25 ms every 10 ms, without a logarithm; it learned from 1.6 s.

    hidden          numbers of a state
    layers          of the LSTM
    embedding_size  numbers of an embedding
    level           quieter recordings are raised to this level first, in dB of full scale; null: as they are
    All else is as in `SpeakerNet`.
    """

    def __init__(
        self,
        *,
        features: Features,
        hidden: Annotated[int, Range(1)] = 256,
        layers: Annotated[int, Range(1)] = 3,
        embedding_size: Annotated[int, Range(1)] = 256,
        level: Annotated[float, Range(high=0)] | None = None,
        pretrained: str | None = None,
    ) -> None:
        self.features, self.embedding_size, self.level = features, embedding_size, level
        self.lstm = nn.LSTM(features.channels, hidden, num_layers=layers)
        self.linear = nn.Linear(hidden, embedding_size)
        self.finish_init(pretrained)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, T] -> [N, embedding_size], rows of length 1."""
        return super().forward(x if self.level is None else raised(x, self.level))

    def classify(self, features: pdl.Tensor) -> pdl.Tensor:
        """features [N, frames, channels] -> [N, embedding_size], 0 or more."""
        return pdl.relu(self.linear(self.lstm(features)[0][:, -1]))


def raised(x: pdl.Tensor, level: float) -> pdl.Tensor:
    """Waveforms [N, T] whose root mean square is at least `level` (dB of full scale); silence stays silence."""
    size = pdl.sqrt(pdl.mean(pdl.square(x), axis=1, keepdims=True))
    return x * pdl.maximum(10 ** (level / 20) / pdl.maximum(size, 1e-7), 1.0)


def remap(model: DVector, state: Mapping[str, Any]) -> dict[str, Any]:
    """A state dict of Resemblyzer in pdl's layouts; the names are the same, but for those of its loss."""
    kept = {name: value for name, value in state.items() if not name.startswith("similarity_")}
    return nn.from_torch(model, kept)
