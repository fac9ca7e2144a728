"""What nets that hear what is said have in common: sounds of different lengths in one batch."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import pdl
from pdl import nn
from pdl.decoder_state import Framing
from pdl.errors import UsageError
from pdl.nn.streaming import WHOLE, Past, Streaming
from pdl_speech.models.audio_net import AudioNet

if TYPE_CHECKING:
    from pdl_speech.models.attention_decoder import AttentionDecoder


class Real:
    """Which steps of a batch [N, T, ...] are real: the first counts[n] (int64 [N]) of row n; None: all of them. What
    lies behind them is kept at 0, as it would be behind the end of a sound that stands alone."""

    def __init__(self, counts: pdl.Tensor | None) -> None:
        self.counts = counts

    def there(self, x: pdl.Tensor) -> pdl.Tensor | None:
        """bool [N, T] of x [N, T, ...]."""
        if self.counts is None:
            return None
        return pdl.less(pdl.arange(x.shape[1]), pdl.expand_dims(self.counts, axis=1))

    def mask(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, T, ...] with 0 behind the end of each row."""
        there = self.there(x)
        if there is None:
            return x
        return pdl.where(there.reshape(*there.shape, *(1,) * (x.ndim - 2)), x, 0.0)

    def every(self, stride: int) -> Real:
        """The steps that a layer with this stride, which keeps the size at stride 1, makes of them: counts / stride,
        rounded up."""
        return self if self.counts is None or stride == 1 else Real((self.counts + stride - 1) // stride)


class SpeechNet(AudioNet):
    """Sounds [N, T] with their lengths [N] -> logits [N, steps, num_classes], and how many steps each has, int64 [N].
    In evaluation an answer does not depend on what fills a sound up, if its features do not (`pad_mode: constant`).
    Class 0 is the blank of CTC. A subclass has a `classifier` and defines `encode`. Recipes give

    features    the front end, a part of `pdl_speech.features`; its `rate` is that of the waveforms
    pretrained  a name of the hub, a bundle or a file of weights
    """

    strides: tuple[int, ...]
    """Of the layers that leave steps out, in order; those with padding keep sizes at stride 1."""
    classifier: nn.Linear
    tolerance: ClassVar[float] = 1e-4
    """How far a bundle may be from the net, as a share of the largest output."""
    decoder: AttentionDecoder | None = None
    """What judges texts of what `encode` gives; None: texts are written by CTC alone."""
    chunk: int | None = None
    """Of nets that can be streamed, the steps of a chunk; None: it reads whole sounds alone."""

    def steps(self, samples: Any) -> Any:
        """How many steps sounds of so many samples have: an int, a symbolic size or an int64 tensor."""
        count = self.features.frames(samples)
        for stride in self.strides:
            count = (count + stride - 1) // stride
        return count

    @property
    def seconds(self) -> float:
        """From one step to the next."""
        hours = 3600 * 100
        return round(hours / self.steps(hours * self.rate), 5)

    def forward(self, x: pdl.Tensor, lengths: pdl.Tensor | None = None) -> Any:
        """x [N, T], or what else the features take, and the samples of each, int64 [N] (None: all T) -> logits [N,
        steps, num_classes], and the steps of each, int64 [N] (None)."""
        y, real = self.encoded(x, lengths)
        return self.classifier(y), real.counts

    def encoded(self, x: pdl.Tensor, lengths: pdl.Tensor | None = None) -> tuple[pdl.Tensor, Real]:
        """Sounds as `forward` takes them -> what classifier and decoder read [N, steps, C], and which steps are
        real."""
        real = Real(None if lengths is None else self.features.frames(lengths))
        return self.encode(real.mask(self.features(x, lengths)), real)

    def encode(self, features: pdl.Tensor, real: Real, past: Past = WHOLE) -> tuple[pdl.Tensor, Real]:
        """features [N, frames, channels], 0 behind the real ones -> what the classifier reads [N, steps, C], and which
        steps are real. Nets with a `chunk` ask `past` for what lies before."""
        raise NotImplementedError(f"{type(self).__name__} must define encode")


class Chunks(Streaming):
    """A net with a `chunk`, chunk by chunk."""

    def __init__(self, net: SpeechNet) -> None:
        if net.chunk is None:
            raise UsageError(
                f"{type(net).__name__} reads whole sounds and has no chunks; take a net that has, or say so"
            )
        self.net = net

    @property
    def framing(self) -> Framing:
        """That of the features, with as many frames as a chunk has."""
        assert self.net.chunk is not None
        stride = math.prod(self.net.strides)
        return replace(self.net.features.framing, chunk=self.net.chunk * stride, stride=stride)

    @property
    def element(self) -> tuple[int, ...]:
        return self.net.features.element

    def step(self, x: pdl.Tensor, counts: pdl.Tensor, past: Past) -> pdl.Tensor:
        """Logits [N, steps, num_classes]."""
        real = Real(counts)
        y, _ = self.net.encode(real.mask(self.net.features.of_chunk(x)), real, past)
        return self.net.classifier(y)  # type: ignore[no-any-return]


def too_short(net: SpeechNet) -> tuple[str, str]:
    """Why a text that needs more steps than its sound has cannot be written, and what to do about it."""
    return (
        f"have more characters than their sounds have steps (one for {1000 * net.seconds:.0f} ms), so that CTC cannot "
        "write them",
        "take a net with a smaller stride, or correct texts that say more than is heard",
    )
