"""Cepstral mean and variance normalisation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated

import numpy as np

import pdl
from pdl import nn
from pdl.errors import UsageError
from pdl.hints import Range
from pdl_speech.features.base import FrameLayer, inside

LOUD = 1e30  # above all features


class CMVN(FrameLayer):
    """Each channel less its mean over the frames of a recording, over its standard deviation (biased).

    variance  whether deviations are divided by
    eps       what is added to variances
    within    both are those of the frames alone whose mean over channels is at most so much below the largest one, in
              the unit of the features: of logarithms, the frames that are spoken, however much silence is around them;
              null: of all frames
    """

    shown = ("variance", "eps", "within")

    def __init__(
        self,
        *,
        variance: bool = True,
        eps: Annotated[float, Range(above=0)] = 1e-5,
        within: Annotated[float, Range(above=0)] | None = None,
    ) -> None:
        self.variance, self.eps, self.within = variance, eps, within

    def forward(self, x: pdl.Tensor, frames: pdl.Tensor | None = None) -> pdl.Tensor:
        """x [N, frames, channels], normalised; padding becomes 0 where `frames` says what it is."""
        own = None if frames is None else inside(x, frames)
        counted = own
        if self.within is not None:
            level = pdl.mean(x, axis=2, keepdims=True)
            most = pdl.max(level if own is None else pdl.where(own, level, -LOUD), axis=1, keepdims=True)
            loud = level >= most - self.within
            counted = loud if own is None else own & loud
        x = x - _mean(x, counted)
        if self.variance:
            x = x / pdl.sqrt(_mean(x * x, counted) + self.eps)
        return x if own is None else pdl.where(own, x, 0.0)


def _mean(x: pdl.Tensor, counted: pdl.Tensor | None) -> pdl.Tensor:
    """[N, 1, channels] of x [N, frames, channels], over all frames or those that count, bool [N, frames, 1]."""
    if counted is None:
        return pdl.mean(x, axis=1, keepdims=True)
    number = pdl.sum(pdl.astype(counted, x.dtype), axis=1, keepdims=True)
    return pdl.sum(pdl.where(counted, x, 0.0), axis=1, keepdims=True) / number


class GlobalCMVN(FrameLayer):
    """Each channel less a mean, over a standard deviation, that are the same for all recordings: buffers `mean` and
    `std` [channels], which `fit` measures.

    channels  of the features
    mean      of each channel, or one number for all
    std       of each channel, or one number for all
    """

    shown = ("channels",)
    streams = True

    def __init__(
        self,
        channels: Annotated[int, Range(1)],
        *,
        mean: float | Sequence[float] = 0.0,
        std: float | Sequence[float] = 1.0,
    ) -> None:
        self.channels = channels
        for name, given in (("mean", mean), ("std", std)):
            values = np.asarray(given, np.float32)
            if values.shape not in ((), (channels,)) or (name == "std" and not (values > 0).all()):
                raise UsageError(
                    f"GlobalCMVN: {name} must be one number or {channels}, deviations above 0; got {given}"
                )
            setattr(self, name, nn.Buffer(np.broadcast_to(values, (channels,)).copy()))

    mean: pdl.Tensor
    std: pdl.Tensor

    def fit(self, batches: Iterable[pdl.Tensor]) -> None:
        """Set mean and standard deviation to those of all frames of `batches` [N, frames, channels] or [frames,
        channels]; UsageError without a frame."""
        count, total, squares = 0, np.zeros(self.channels), np.zeros(self.channels)
        for batch in batches:
            x = batch.numpy().astype(np.float64).reshape(-1, self.channels)
            count, total, squares = count + len(x), total + x.sum(axis=0), squares + (x * x).sum(axis=0)
        if not count:
            raise UsageError("GlobalCMVN: fit() has had no frames")
        mean = total / count
        self.mean = nn.Buffer(mean.astype(np.float32))
        self.std = nn.Buffer(np.sqrt(np.maximum(squares / count - mean**2, 1e-10)).astype(np.float32))

    def forward(self, x: pdl.Tensor, frames: pdl.Tensor | None = None) -> pdl.Tensor:
        """x [N, frames, channels], normalised."""
        return (x - self.mean) / self.std
