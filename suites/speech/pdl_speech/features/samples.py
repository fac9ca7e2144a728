"""Waveforms as they are, for nets that find their features themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pdl
from pdl.decoder_state import Framing
from pdl_speech.features.base import Features, FrameLayer
from pdl_speech.features.mel import Rate


class Samples(Features):
    """Samples as frames of one channel, [N, T, 1]. With `then: [CMVN]` each waveform has mean 0 and deviation 1.

    All is as in `Features`.
    """

    shown = ("rate",)

    def __init__(self, *, rate: Rate = 16000, then: Sequence[FrameLayer] = ()) -> None:
        self.rate = rate
        self.finish_init(1, then)

    def frames(self, samples: Any) -> Any:
        """As many."""
        return samples

    @property
    def framing(self) -> Framing:
        """Samples as they are."""
        self.require_layers()
        return Framing(1, 1, 1)

    def compute(self, x: pdl.Tensor) -> pdl.Tensor:
        """Waveforms [N, T] -> [N, T, 1]."""
        return pdl.expand_dims(x, axis=2)
