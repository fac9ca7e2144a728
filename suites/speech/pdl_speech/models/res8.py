"""Res8 and its like: Tang, Lin, Deep residual learning for small-footprint keyword spotting, 2018 (arXiv
1710.10361).
"""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple

import pdl
from pdl import nn
from pdl.hints import Range
from pdl.nn.blocks import initialise
from pdl_speech.features import Features
from pdl_speech.models.audio_net import AudioNet, as_image


class Form(NamedTuple):
    """Of a variant: convolutions in blocks, channels, whether dilations grow (2^(i // 3)), and pooling (time,
    frequency)."""

    layers: int
    channels: int
    dilated: bool
    pool: tuple[int, int] | None


FORMS = {
    "res8": Form(6, 45, False, (4, 3)),
    "res8-narrow": Form(6, 19, False, (4, 3)),
    "res15": Form(13, 45, True, None),
    "res15-narrow": Form(13, 19, True, None),
    "res26": Form(24, 45, False, (2, 2)),
    "res26-narrow": Form(24, 19, False, (2, 2)),
}


class SpeechResNet(AudioNet):
    """Waveforms [N, T] -> logits [N, num_classes]: 3x3 convolutions of one width in residual blocks of two, batch norms
    without weights behind the activations, and the mean over time and channels. The paper's features are 40 MFCC of
    30 ms every 10 ms.

    form   res8, res15 or res26 of the paper, or one of them with "-narrow"
    All else is as in `AudioNet`.
    """

    def __init__(
        self,
        *,
        features: Features,
        num_classes: Annotated[int, Range(1)] = 12,
        form: Literal["res8", "res8-narrow", "res15", "res15-narrow", "res26", "res26-narrow"] = "res8",
        pretrained: str | None = None,
    ) -> None:
        self.features = features
        layers, channels, dilated, pool = FORMS[form]
        self.stem = nn.Conv2d(1, channels, 3, padding=1, bias=False)
        self.pool = nn.Identity() if pool is None else nn.AvgPool2d(pool)
        steps = [2 ** (i // 3) if dilated else 1 for i in range(layers)]
        self.convs = nn.ModuleList(
            nn.Conv2d(channels, channels, 3, padding=step, dilation=step, bias=False) for step in steps
        )
        self.norms = nn.ModuleList(nn.BatchNorm2d(channels, affine=False) for _ in steps)
        self.classifier = nn.Linear(channels, num_classes)
        initialise(self)
        self.finish_init(pretrained)

    def classify(self, features: pdl.Tensor) -> pdl.Tensor:
        """features [N, frames, channels] -> logits [N, num_classes]."""
        x = before = self.pool(pdl.relu(self.stem(as_image(features))))
        for number, (conv, norm) in enumerate(zip(self.convs, self.norms, strict=True), 1):
            x = pdl.relu(conv(x))
            if number % 2 == 0:
                x = before = x + before
            x = norm(x)
        return self.classifier(pdl.global_avg_pool(x))  # type: ignore[no-any-return]
