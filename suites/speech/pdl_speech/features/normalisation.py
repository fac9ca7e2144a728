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


class CMVN(FrameLayer):
    """Each channel less its mean over the frames of a recording, over its standard deviation (biased).

    variance  whether deviations are divided by
    eps       what is added to variances
    """

    shown = ("variance", "eps")

    def __init__(self, *, variance: bool = True, eps: Annotated[float, Range(above=0)] = 1e-5) -> None:
        self.variance, self.eps = variance, eps

    def forward(self, x: pdl.Tensor, frames: pdl.Tensor | None = None) -> pdl.Tensor:
        """x [N, frames, channels], normalised; padding becomes 0 where `frames` says what it is."""
        if frames is None:
            x = x - pdl.mean(x, axis=1, keepdims=True)
            return x / pdl.sqrt(pdl.mean(x * x, axis=1, keepdims=True) + self.eps) if self.variance else x
        own = inside(x, frames)
        count = pdl.astype(pdl.reshape(frames, (x.shape[0], 1, 1)), x.dtype)
        mean = pdl.sum(pdl.where(own, x, 0.0), axis=1, keepdims=True) / count
        x = pdl.where(own, x - mean, 0.0)
        return x / pdl.sqrt(pdl.sum(x * x, axis=1, keepdims=True) / count + self.eps) if self.variance else x


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
