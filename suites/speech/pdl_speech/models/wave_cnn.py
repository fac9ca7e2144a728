"""Convolutions on raw waveforms: Dai, Dai, Qu, Li, Das, Very deep convolutional neural networks for raw waveforms, 2016
(arXiv 1610.00087)."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal

import pdl
from pdl import nn
from pdl.errors import ConfigError
from pdl.hints import Range
from pdl.nn.blocks import initialise
from pdl_speech.features import Features
from pdl_speech.models.audio_net import AudioNet

#: channels of convolutions: of the first one, and of those behind each pooling
FORMS: dict[str, tuple[tuple[int, ...], ...]] = {
    "m3": ((256,), (256,), ()),
    "m5": ((128,), (128,), (256,), (512,), ()),
    "m11": ((64,), (64,) * 2, (128,) * 2, (256,) * 3, (512,) * 2),
    "m18": ((64,), (64,) * 4, (128,) * 4, (256,) * 4, (512,) * 4),
}
REACH, STRIDE, POOL = 80, 4, 4  # samples of the first convolution, and from one to the next; steps of a pooling


class WaveCNN(AudioNet):
    """Waveforms [N, T] -> logits [N, num_classes] without a spectrum: a convolution of 80 samples every 4 is learned in
    its place; others of 3 steps follow, each with batch norm and ReLU, and behind groups of them the largest of four
    steps. The mean over time is classified. A recording has at least 1024 samples (m3: 64). The paper's are 4 s at 8
    kHz with mean 0 and deviation 1: features `Samples` with `then: [CMVN]`.

    form  m3, m5, m11 or m18: so many layers with weights
    All else is as in `AudioNet`; features have one channel.
    """

    def __init__(
        self,
        *,
        features: Features,
        num_classes: Annotated[int, Range(1)] = 10,
        form: Literal["m3", "m5", "m11", "m18"] = "m5",
        pretrained: str | None = None,
    ) -> None:
        if features.channels != 1:
            raise ConfigError(
                f"WaveCNN: features have {features.channels} channels; it reads samples, of one: "
                "{_target_: pdl_speech.features.Samples}"
            )
        self.features, groups = features, FORMS[form]
        widths = [1, *(width for group in groups for width in group)]
        self.pooled = [sum(map(len, groups[:i])) for i in range(1, len(groups))]  # layers that poolings stand behind
        self.convs = nn.ModuleList(
            nn.Conv1d(a, b, 3 if i else REACH, stride=1 if i else STRIDE, padding=1 if i else (REACH - STRIDE) // 2)
            for i, (a, b) in enumerate(pairwise(widths))
        )
        self.norms = nn.ModuleList(nn.BatchNorm1d(width) for width in widths[1:])
        self.classifier = nn.Linear(widths[-1], num_classes)
        initialise(self)
        self.finish_init(pretrained)

    def classify(self, features: pdl.Tensor) -> pdl.Tensor:
        """features [N, T, 1] -> logits [N, num_classes]."""
        y = features
        for number, (conv, norm) in enumerate(zip(self.convs, self.norms, strict=True), 1):
            y = norm(conv(y), activation="relu")
            y = pdl.max_pool(y, POOL) if number in self.pooled else y
        return self.classifier(pdl.mean(y, axis=1))  # type: ignore[no-any-return]
