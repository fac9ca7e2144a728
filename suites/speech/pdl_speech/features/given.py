"""Features that the data has in place of waveforms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import pdl
from pdl.decoder_state import Framing
from pdl.errors import ShapeError
from pdl.hints import Range
from pdl_speech.features.base import Features, FrameLayer


class Given(Features):
    """Features [N, frames, channels] as they are, of data sets whose samples hold {"features"} and no {"audio"}.

    rate      frames a second
    channels  numbers of a frame
    then      `FrameLayer`s behind the features, in this order
    """

    shown = ("rate", "given")

    def __init__(
        self,
        *,
        rate: Annotated[int, Range(1)] = 100,
        channels: Annotated[int, Range(1)],
        then: Sequence[FrameLayer] = (),
    ) -> None:
        self.rate, self.given = rate, channels
        self.finish_init(channels, then)

    def frames(self, samples: Any) -> Any:
        """As many."""
        return samples

    @property
    def element(self) -> tuple[int, ...]:  # type: ignore[override]
        return (self.given,)

    @property
    def framing(self) -> Framing:
        """Frames as they are."""
        self.require_layers()
        return Framing(1, 1, 1)

    def compute(self, x: pdl.Tensor) -> pdl.Tensor:
        return x

    def forward(self, x: pdl.Tensor, lengths: pdl.Tensor | None = None) -> pdl.Tensor:
        """x [N, frames, channels] -> [N, frames, channels']; `lengths`, int64 [N], are the frames of each."""
        if x.ndim != 3 or x.shape[2] != self.given:
            raise ShapeError(f"Given: features {x.shape} must be [N, frames, {self.given}]")
        for layer in self.then:
            x = layer(x, lengths)
        return x
