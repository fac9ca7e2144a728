"""What all front ends have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import pdl
from pdl import nn
from pdl.decoder_state import Framing
from pdl.errors import ShapeError, UsageError


class FrameLayer(nn.Module):
    """What stands behind features: x [N, frames, channels] -> [N, frames, channels']. `frames`, int64 [N], says how
    many frames of each recording are its own where the others are padding."""

    def out_channels(self, channels: int) -> int:
        """Channels of the output, for so many of the input."""
        return channels

    streams: ClassVar[bool] = False
    """Whether, in evaluation, a frame's output depends on that frame alone."""

    def forward(self, x: pdl.Tensor, frames: pdl.Tensor | None = None) -> pdl.Tensor:
        """x [N, frames, channels] -> [N, frames, channels']."""
        raise NotImplementedError(f"{type(self).__name__} must define forward")


class Features(nn.Module):
    """Waveforms [N, T] -> features [N, frames, channels], float32. Samples lie in [-1, 1].

    rate  samples a second of the waveforms
    then  `FrameLayer`s behind the features, in this order
    """

    rate: int
    channels: int
    """Numbers of a frame, behind all of `then`."""

    def finish_init(self, channels: int, then: Sequence[FrameLayer]) -> None:
        """The end of a subclass's `__init__`: the layers behind features of so many channels."""
        self.then = nn.ModuleList(then)
        for layer in then:
            channels = layer.out_channels(channels)
        self.channels = channels

    def frames(self, samples: Any) -> Any:
        """How many frames `samples` make: an int, a symbolic size, or an int64 tensor."""
        raise NotImplementedError(f"{type(self).__name__} must define frames")

    def compute(self, x: pdl.Tensor) -> pdl.Tensor:
        """Waveforms [N, T] -> features, without the layers behind them."""
        raise NotImplementedError(f"{type(self).__name__} must define compute")

    # -- chunks of a stream --------------------------------------------------------------------------------------------
    element: tuple[int, ...] = ()
    """The shape of what they read at a point of time; () of samples."""

    @property
    def framing(self) -> Framing:
        """Which samples a frame reads. UsageError where it is no fixed window of them."""
        raise UsageError(f"{type(self).__name__} depends on a whole recording, so it cannot be streamed")

    def compute_inside(self, x: pdl.Tensor) -> pdl.Tensor:
        """`compute` of samples [N, T] that are inside of a waveform: frames lie within them."""
        return self.compute(x)

    def of_chunk(self, x: pdl.Tensor) -> pdl.Tensor:
        """Samples [N, T] of a few frames, as `framing` says -> features [N, frames, channels]."""
        y = self.compute_inside(x)
        for layer in self.then:
            y = layer(y)
        return y

    def require_layers(self) -> None:
        """UsageError where a layer behind the features does not stream."""
        for layer in self.then:
            assert isinstance(layer, FrameLayer)
            if not layer.streams:
                raise UsageError(
                    f"features.then: {type(layer).__name__} looks at a whole recording, so the net cannot be streamed; "
                    "take GlobalCMVN, or leave it out"
                )

    def forward(self, x: pdl.Tensor, lengths: pdl.Tensor | None = None) -> pdl.Tensor:
        """x [N, T] -> [N, frames, channels]; `lengths`, int64 [N], are samples of each, the rest padding."""
        if x.ndim != 2:
            raise ShapeError(f"{type(self).__name__}: waveforms {x.shape} must be [N, T]")
        y, frames = self.compute(x), None if lengths is None else self.frames(lengths)
        for layer in self.then:
            y = layer(y, frames)
        return y


def inside(x: pdl.Tensor, frames: pdl.Tensor) -> pdl.Tensor:
    """Which frames of x [N, frames, channels] are no padding: bool [N, frames, 1]."""
    places = pdl.expand_dims(pdl.arange(x.shape[1]), axis=0)
    return pdl.expand_dims(places < pdl.expand_dims(frames, axis=1), axis=2)
