"""CNN6, CNN10 and CNN14: Kong et al., PANNs: large-scale pretrained audio neural networks for audio pattern
recognition, 2020 (arXiv 1912.10211).
"""

from __future__ import annotations

from typing import Annotated, Literal

import pdl
from pdl import nn
from pdl.hints import Range
from pdl.nn.blocks import ConvNorm, chain, initialise
from pdl_speech.features import Features
from pdl_speech.models.audio_net import AudioNet, as_image

#: channels of the blocks, kernel of their convolutions, and how many these are (table 1)
LAYERS: dict[int, tuple[tuple[int, ...], int, int]] = {
    6: ((64, 128, 256, 512), 5, 1),
    10: ((64, 128, 256, 512), 3, 2),
    14: ((64, 128, 256, 512, 1024, 2048), 3, 2),
}


class PANN(AudioNet):
    """Waveforms [N, T] -> logits [N, num_classes]: CNN6, CNN10 or CNN14 of the paper: convolutions and pooling, the
    mean over frequencies, the sum of mean and maximum over time. The paper's features are 64 log-mel at 32 kHz.

    layers   6, 10 or 14
    width    of all channels, 1 in the paper
    dropout  behind each block; in front of and behind the hidden layer it is 0.5 where this is 0.2
    All else is as in `AudioNet`.
    """

    def __init__(
        self,
        *,
        features: Features,
        num_classes: Annotated[int, Range(1)] = 527,
        layers: Literal[6, 10, 14] = 10,
        width: Annotated[float, Range(high=4, above=0)] = 1.0,
        dropout: Annotated[float, Range(0, 0.4)] = 0.2,
        pretrained: str | None = None,
    ) -> None:
        self.features = features
        sizes, kernel, repeated = LAYERS[layers]
        self.norm = nn.BatchNorm1d(features.channels)  # of each frequency
        blocks, before = [], 1
        for number, size in enumerate(sizes, 1):
            channels = max(1, int(size * width))
            convs = [ConvNorm(before if i == 0 else channels, channels, kernel) for i in range(repeated)]
            pool = [nn.AvgPool2d(2)] if layers == 6 or number < len(sizes) else []
            blocks.append(nn.Sequential(*convs, *pool, nn.Dropout(dropout)))
            before = channels
        self.blocks = nn.Sequential(*blocks)
        self.hidden = nn.Linear(before, before)
        self.dropout = nn.Dropout(2.5 * dropout)
        self.classifier = nn.Linear(before, num_classes)
        initialise(self)
        self.finish_init(pretrained)

    def classify(self, features: pdl.Tensor) -> pdl.Tensor:
        """features [N, frames, channels] -> logits [N, num_classes]."""
        x = as_image(self.norm(features))
        for block in self.blocks:
            x = chain(block, x)  # type: ignore[arg-type]
        x = x.mean(axis=2)
        x = self.dropout(x.max(axis=1) + x.mean(axis=1))
        return self.classifier(self.dropout(pdl.relu(self.hidden(x))))  # type: ignore[no-any-return]
