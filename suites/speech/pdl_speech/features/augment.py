"""Other voices and gaps, in training: VTLP (Jaitly and Hinton, ICML 2013 workshop) and SpecAugment (Park et al., arXiv
1904.08779)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np

import pdl
from pdl.errors import UsageError
from pdl.hints import Range
from pdl_speech.features.base import FrameLayer

MOST_WARP = 0.5


class VTLP(FrameLayer):
    """In training, each recording as of a longer or shorter vocal tract (vocal tract length perturbation): logarithms
    of energies in bands m = 0 to C - 1, at w = pi (m + 1/2) / C, are read at w + 2 atan(a sin w / (1 - a cos w)), the
    all-pass warping that leaves 0 and pi where they are, between two bands on the line through both. In evaluation
    nothing changes.

    warp  (from, to) of a, uniformly drawn from pdl's generator; of mel bands up to 4 kHz, 0.05 moves formants down by
          about a tenth, -0.05 up
    Behind `LogMel`, `Fbank` or `PCEN`, in front of normalisation.
    """

    shown = ("warp",)
    streams = True

    def __init__(self, *, warp: Sequence[float] = (-0.1, 0.1)) -> None:
        if len(warp) != 2 or not -MOST_WARP <= warp[0] <= warp[1] <= MOST_WARP:
            raise UsageError(f"VTLP: warp={warp!r} must be (from, to) within {-MOST_WARP} to {MOST_WARP}")
        self.warp = (float(warp[0]), float(warp[1]))

    def forward(self, x: pdl.Tensor, frames: pdl.Tensor | None = None) -> pdl.Tensor:
        """x [N, frames, channels] -> the same shape."""
        if not self.training:
            return x
        low, high = self.warp
        a = uniform(x.shape[0], 1) * (high - low) + low
        return x @ warping(x.shape[2], a)


def warping(channels: int, a: pdl.Tensor) -> pdl.Tensor:
    """[N, channels, channels]: what warps log energies [N, frames, channels] by a [N, 1], as a product."""
    w = np.pi / channels * (np.arange(channels, dtype=np.float32) + 0.5)
    sin, cos = pdl.as_tensor(np.sin(w)), pdl.as_tensor(np.cos(w))
    at = (2 * pdl.atan(a * sin / (1 - a * cos)) + w) * (channels / np.pi) - 0.5
    at = pdl.clip(at, 0, channels - 1)
    bands = pdl.as_tensor(np.arange(channels, dtype=np.float32)[:, None])
    return pdl.maximum(1 - pdl.abs(pdl.expand_dims(at, axis=1) - bands), 0.0)


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
