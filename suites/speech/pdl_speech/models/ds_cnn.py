"""DS-CNN: Zhang et al., Hello Edge: keyword spotting on microcontrollers, 2017 (arXiv 1711.07128)."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import pdl
from pdl import nn
from pdl.hints import Range
from pdl.nn.blocks import ConvNorm, chain, initialise
from pdl_speech.features import Features
from pdl_speech.models.audio_net import AudioNet, as_image

#: channels, strides (time, frequency) of the first convolution and of the first block, and how many blocks (table 4)
SIZES: dict[str, tuple[int, tuple[int, int], int, int]] = {
    "small": (64, (2, 2), 1, 4),
    "medium": (172, (2, 1), 2, 4),
    "large": (276, (2, 1), 2, 5),
}


class DSCNN(AudioNet):
    """Waveforms [N, T] -> logits [N, num_classes]: a convolution over 10 frames by 4 channels, depthwise separable
    blocks, and the mean over time and channels. The paper's features are 10 MFCC of 40 ms every 20 ms.

    size      "small", "medium" or "large" of the paper
    dropout   in front of the classifier
    All else is as in `AudioNet`.
    """

    head: ClassVar[str] = "classifier.1"

    def __init__(
        self,
        *,
        features: Features,
        num_classes: Annotated[int, Range(1)] = 12,
        size: Literal["small", "medium", "large"] = "small",
        dropout: Annotated[float, Range(0, below=1)] = 0.2,
        pretrained: str | None = None,
    ) -> None:
        self.features = features
        channels, stride, first, blocks = SIZES[size]
        layers: list[nn.Module] = [ConvNorm(1, channels, (10, 4), stride=stride)]
        for number in range(blocks):
            step = first if number == 0 else 1
            layers += [ConvNorm(channels, channels, stride=step, groups=channels), ConvNorm(channels, channels, 1)]
        self.layers = nn.Sequential(*layers)
        self.classifier = nn.Sequential(nn.Dropout(dropout), nn.Linear(channels, num_classes))
        initialise(self)
        self.finish_init(pretrained)

    def classify(self, features: pdl.Tensor) -> pdl.Tensor:
        """features [N, frames, channels] -> logits [N, num_classes]."""
        return self.classifier(pdl.global_avg_pool(chain(self.layers, as_image(features))))  # type: ignore[no-any-return]
