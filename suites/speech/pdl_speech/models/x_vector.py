"""X-vectors: Snyder, Garcia-Romero, Sell, Povey, Khudanpur, X-vectors: robust DNN embeddings for speaker recognition,
ICASSP 2018."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated

import pdl
from pdl import nn
from pdl.hints import Range
from pdl_speech.features import Features
from pdl_speech.models.speaker_net import TDNN, SpeakerNet, moments

#: kernel and dilation of the five layers on frames (table 1)
LAYERS = ((5, 1), (3, 2), (3, 3), (1, 1), (1, 1))


class XVector(SpeakerNet):
    """Waveforms [N, T] -> embeddings [N, embedding_size]: five convolutions over time, mean and standard deviation over
    all frames, a linear layer (embedding a of the paper). The paper's features are 24 filter banks of 25 ms every
    10 ms, less their means. Frames beyond the ends are zeros, so that short recordings have an answer, too.

    channels        of the first four layers, 512 in the paper
    last            channels of the fifth, 1500 in the paper
    embedding_size  numbers of an embedding
    All else is as in `SpeakerNet`.
    """

    def __init__(
        self,
        *,
        features: Features,
        channels: Annotated[int, Range(1)] = 512,
        last: Annotated[int, Range(1)] = 1500,
        embedding_size: Annotated[int, Range(1)] = 512,
        pretrained: str | None = None,
    ) -> None:
        self.features, self.embedding_size = features, embedding_size
        sizes = (features.channels, *(channels,) * (len(LAYERS) - 1), last)
        self.frames = nn.Sequential(
            *(
                TDNN(before, size, kernel, dilation=dilation)
                for (before, size), (kernel, dilation) in zip(pairwise(sizes), LAYERS, strict=True)
            )
        )
        self.embed = nn.Linear(2 * last, embedding_size)
        self.finish_init(pretrained)

    def classify(self, features: pdl.Tensor) -> pdl.Tensor:
        """features [N, frames, channels] -> [N, embedding_size]."""
        statistics = pdl.concat(moments(self.frames(features)), axis=2)
        return self.embed(pdl.squeeze(statistics, axis=1))  # type: ignore[no-any-return]
