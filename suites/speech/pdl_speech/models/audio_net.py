"""What nets that take waveforms have in common."""

from __future__ import annotations

from typing import Any, ClassVar

import pdl
from pdl import nn
from pdl.errors import ShapeError
from pdl_speech.features import Features


class AudioNet(nn.Module):
    """Waveforms [N, T] -> what a subclass makes of their features: the front end is a part of the net, so that a bundle
    computes what training did. Recipes give

    features    the front end, a part of `pdl_speech.features`; its `rate` is that of the waveforms
    pretrained  a name of the hub, a bundle or a file of weights
    """

    features: Features
    head: ClassVar[str] = "classifier"
    """The layer that depends on the number of classes."""

    @property
    def rate(self) -> int:
        """Samples a second of the waveforms."""
        return self.features.rate

    def finish_init(self, pretrained: str | None) -> None:
        """The end of a subclass's `__init__`: weights that there are already."""
        if pretrained is not None:
            from pdl.hub import load_pretrained

            load_pretrained(self, pretrained)

    def forward(self, x: pdl.Tensor) -> Any:
        """x [N, T] -> what `classify` makes of its features."""
        if x.ndim != 2:
            raise ShapeError(f"{type(self).__name__}: waveforms {x.shape} must be [N, T]")
        return self.classify(self.features(x))

    def classify(self, features: pdl.Tensor) -> pdl.Tensor:
        """features [N, frames, channels] -> logits [N, num_classes]."""
        raise NotImplementedError(f"{type(self).__name__} must define classify")


def as_image(features: pdl.Tensor) -> pdl.Tensor:
    """[N, frames, channels] -> [N, frames, channels, 1], an image whose height is time."""
    return pdl.expand_dims(features, axis=3)
