"""VGG (Simonyan and Zisserman, arXiv 1409.1556) at the size of single words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

import pdl
from pdl import nn
from pdl.errors import ConfigError
from pdl.hints import Range
from pdl.nn.blocks import ConvNorm, chain, initialise
from pdl_speech.features import Features
from pdl_speech.models.audio_net import AudioNet, as_image


class AudioVGG(AudioNet):
    """Waveforms [N, T] -> logits [N, num_classes]: stages of two 3x3 convolutions (the first has one) with batch norms;
    behind each the maxima of 2 frames by 2 channels, behind the last those of 2 channels; the mean over both.

    widths   channels of the stages
    dropout  in front of the classifier
    All else is as in `AudioNet`; features have at least 2^stages channels.
    """

    head: ClassVar[str] = "classifier.1"

    def __init__(
        self,
        *,
        features: Features,
        num_classes: Annotated[int, Range(1)] = 10,
        widths: Sequence[int] = (24, 48, 64),
        dropout: Annotated[float, Range(0, below=1)] = 0.3,
        pretrained: str | None = None,
    ) -> None:
        self.features = features
        if not widths or min(widths) < 1 or features.channels < 2 ** len(widths):
            raise ConfigError(
                f"AudioVGG: widths={list(widths)} of features with {features.channels} channels; expected at least one "
                "width, all from 1 on, and no more of them than channels can be halved"
            )
        layers: list[nn.Module] = []
        before = 1
        for number, channels in enumerate(widths, 1):
            layers += [ConvNorm(before, channels), *([ConvNorm(channels, channels)] if number > 1 else [])]
            layers.append(nn.MaxPool2d((1 if number == len(widths) else 2, 2)))
            before = channels
        self.layers = nn.Sequential(*layers)
        self.classifier = nn.Sequential(nn.Dropout(dropout), nn.Linear(before, num_classes))
        initialise(self)
        self.finish_init(pretrained)

    def classify(self, features: pdl.Tensor) -> pdl.Tensor:
        """features [N, frames, channels] -> logits [N, num_classes]."""
        return self.classifier(pdl.global_avg_pool(chain(self.layers, as_image(features))))  # type: ignore[no-any-return]
