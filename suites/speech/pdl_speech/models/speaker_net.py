"""What nets that tell voices apart have in common."""

from __future__ import annotations

from typing import ClassVar

import pdl
from pdl import nn
from pdl_speech.models.audio_net import AudioNet

LEAST = 1e-5  # variances count as at least so much


class SpeakerNet(AudioNet):
    """Waveforms [N, T] of any length -> embeddings [N, embedding_size] of length 1, whose products are the cosines that
    speakers are told apart by. A subclass defines `classify`, whose vectors may have any length. Recipes give

    features    the front end, a part of `pdl_speech.features`; its `rate` is that of the waveforms
    pretrained  a name of the hub, a bundle or a file of weights
    """

    embedding_size: int
    criterion: nn.Module | None = None
    """What training learns besides, such as the directions of its speakers; no part of an answer, nor of a bundle."""
    head: ClassVar[str] = "criterion"

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, T] -> [N, embedding_size], rows of length 1."""
        return pdl.normalize(super().forward(x))


def moments(x: pdl.Tensor, weights: pdl.Tensor | None = None) -> tuple[pdl.Tensor, pdl.Tensor]:
    """Mean and standard deviation over the frames of x [N, T, C], [N, 1, C] each; `weights` [N, T, C] of the frames sum
    to 1 over them."""
    if weights is None:
        mean = pdl.mean(x, axis=1, keepdims=True)
        variance = pdl.mean(pdl.square(x - mean), axis=1, keepdims=True)
    else:
        mean = pdl.sum(weights * x, axis=1, keepdims=True)
        variance = pdl.sum(weights * pdl.square(x - mean), axis=1, keepdims=True)
    return mean, pdl.sqrt(pdl.maximum(variance, LEAST))


class TDNN(nn.Sequential):
    """A convolution over time with zeros at both ends, ReLU, batch norm: x [N, T, in_channels] -> [N, T, channels]."""

    def __init__(self, in_channels: int, channels: int, kernel: int = 1, *, dilation: int = 1) -> None:
        half = dilation * (kernel - 1) // 2
        conv = nn.Conv1d(in_channels, channels, kernel, padding=half, dilation=dilation)
        super().__init__(conv, nn.ReLU(), nn.BatchNorm1d(channels))
