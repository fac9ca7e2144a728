"""SpecAugment: Park et al., arXiv 1904.08779."""

from __future__ import annotations

from typing import Annotated

import pdl
from pdl.hints import Range
from pdl_speech.features.base import FrameLayer


class SpecAugment(FrameLayer):
    """In training, runs of frames and runs of channels of each recording are set to `value`; in evaluation nothing
    changes. How wide a run is, and where it begins, are uniform, drawn from pdl's generator. No warping of time.

    time_masks      how many runs of frames
    time_width      the longest of them, in frames
    time_ratio      and as a share of the recording
    channel_masks   how many runs of channels
    channel_width   the widest of them
    value           what is put there: behind `CMVN`, 0 is the mean
    """

    shown = ("time_masks", "time_width", "time_ratio", "channel_masks", "channel_width", "value")
    streams = True

    def __init__(
        self,
        *,
        time_masks: Annotated[int, Range(0, 64)] = 2,
        time_width: Annotated[int, Range(0)] = 70,
        time_ratio: Annotated[float, Range(0, 1)] = 0.2,
        channel_masks: Annotated[int, Range(0, 64)] = 2,
        channel_width: Annotated[int, Range(0)] = 15,
        value: float = 0.0,
    ) -> None:
        self.time_masks, self.time_width, self.time_ratio = time_masks, time_width, time_ratio
        self.channel_masks, self.channel_width, self.value = channel_masks, channel_width, value

    def forward(self, x: pdl.Tensor, frames: pdl.Tensor | None = None) -> pdl.Tensor:
        """x [N, frames, channels] with runs of `value`; none of padding where `frames` says what it is."""
        if not self.training:
            return x
        n, count, channels = x.shape
        if self.time_masks and self.time_width:
            own = (
                pdl.full((n, 1), float(count)) if frames is None else pdl.astype(pdl.reshape(frames, (n, 1)), "float32")
            )
            widest = pdl.minimum(pdl.floor(own * self.time_ratio), float(self.time_width))
            x = pdl.where(pdl.expand_dims(runs(n, self.time_masks, count, own, widest), axis=2), self.value, x)
        if self.channel_masks and self.channel_width:
            own = pdl.full((n, 1), float(channels))
            widest = pdl.full((n, 1), float(min(self.channel_width, channels)))
            x = pdl.where(pdl.expand_dims(runs(n, self.channel_masks, channels, own, widest), axis=1), self.value, x)
        return x


def runs(n: int, masks: int, size: int, own: pdl.Tensor, widest: pdl.Tensor) -> pdl.Tensor:
    """bool [n, size]: `masks` runs a row of 0 to `widest` [n, 1] places, which lie within the first `own` [n, 1]."""
    width = pdl.floor(uniform(n, masks) * (widest + 1.0))
    begin = pdl.expand_dims(pdl.floor(uniform(n, masks) * (own - width + 1.0)), axis=2)
    places = pdl.reshape(pdl.astype(pdl.arange(size), "float32"), (1, 1, size))
    return pdl.any((places >= begin) & (places < begin + pdl.expand_dims(width, axis=2)), axis=1)


def uniform(*shape: int) -> pdl.Tensor:
    """In [0, 1), new numbers at every run of a program: the distribution function of a normal variable."""
    return pdl.minimum(0.5 * pdl.erf(pdl.noise(shape) * 0.5**0.5) + 0.5, 1 - 2.0**-24)
