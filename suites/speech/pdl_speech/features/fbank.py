"""Log-mel energies as Kaldi computes them: Povey et al., ASRU 2011."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np

import pdl
from pdl import nn
from pdl.decoder_state import Framing
from pdl.errors import UsageError
from pdl.hints import Range
from pdl_speech.features.base import Features, FrameLayer
from pdl_speech.features.filters import check_range, kaldi_filters
from pdl_speech.features.mel import Floor, Rate, Size
from pdl_speech.features.windows import Window, window_of


class Fbank(Features):
    """Kaldi's `compute-fbank-feats` without dither, [N, frames, n_mels]: frames less their means, pre-emphasis,
    symmetric window, zeros up to the next power of 2, powers, bands of mel, natural logarithm.

    n_mels         how many bands
    frame_length   of a frame, in ms
    frame_shift    from one frame to the next, in ms
    preemphasis    c of x_j - c x_(j-1) within each frame
    remove_dc      whether means of frames are subtracted
    window         povey, hamming, hann, blackman or ones
    snip_edges     whether frames lie within the waveform; otherwise it is mirrored at its ends, and there is a frame
                   for every frame_shift of it
    f_min          where bands begin, in Hz
    f_max          where they end, in Hz; 0 and below: so much below half the rate
    floor          what smaller energies count as
    scale          what samples are multiplied by; Kaldi's are integers of 16 bits
    All else is as in `Features`.
    """

    shown = ("rate", "size", "hop")

    def __init__(
        self,
        *,
        rate: Rate = 16000,
        n_mels: Size = 80,
        frame_length: Annotated[float, Range(above=0)] = 25.0,
        frame_shift: Annotated[float, Range(above=0)] = 10.0,
        preemphasis: Annotated[float, Range(0, 1)] = 0.97,
        remove_dc: bool = True,
        window: Window = "povey",
        snip_edges: bool = True,
        f_min: Floor = 20.0,
        f_max: float = 0.0,
        floor: Annotated[float, Range(above=0)] = float(np.finfo(np.float32).eps),
        scale: Annotated[float, Range(above=0)] = 32768.0,
        then: Sequence[FrameLayer] = (),
    ) -> None:
        self.rate, self.n_mels, self.floor = rate, n_mels, floor
        self.preemphasis, self.remove_dc, self.snip_edges = preemphasis, remove_dc, snip_edges
        self.size, self.hop = int(rate * frame_length / 1000), int(rate * frame_shift / 1000)
        if self.size < 2 or self.hop < 1:
            raise UsageError(
                f"{type(self).__name__}: frames of {frame_length} ms every {frame_shift} ms are too short at {rate} Hz"
            )
        self.n_fft = 1 << (self.size - 1).bit_length()
        highest = f_max if f_max > 0 else rate / 2 + f_max
        check_range(type(self).__name__, rate, f_min, highest)
        before = 0 if snip_edges else self.size // 2 - self.hop // 2
        self.padding = (max(0, before), 0 if snip_edges else self.size - self.hop // 2 - before)
        shape = window_of(window, self.size, periodic=False) * scale
        self.window = nn.Buffer(shape.astype(np.float32), persistent=False)
        filters = kaldi_filters(n_mels, self.n_fft, rate, f_min=f_min, f_max=highest)
        self.filters = nn.Buffer(filters.astype(np.float32), persistent=False)
        self.finish_init(n_mels, then)

    def frames(self, samples: Any) -> Any:
        """Those that fit; without `snip_edges` one for every frame_shift, rounded."""
        return (samples + (sum(self.padding) - self.size)) // self.hop + 1

    @property
    def framing(self) -> Framing:
        """Frames within the waveform."""
        if not self.snip_edges:
            raise UsageError(
                f"{type(self).__name__}: without snip_edges a recording is mirrored at its ends, so it cannot be "
                "streamed"
            )
        self.require_layers()
        return Framing(self.size, self.hop, 1)

    def compute(self, x: pdl.Tensor) -> pdl.Tensor:
        """Waveforms [N, T] -> [N, frames, n_mels]."""
        return self.bands(x, self.filters, self.window, self.preemphasis)

    def bands(self, x: pdl.Tensor, filters: pdl.Tensor, window: pdl.Tensor, preemphasis: float) -> pdl.Tensor:
        """Logarithms of the energies in bands, filters [n_fft // 2 + 1, B] -> [N, frames, B]."""
        return pdl.mel_spectrogram(
            x, filters, self.n_fft, hop_length=self.hop, win_length=self.size, window=window,
            padding=self.padding, pad_mode="symmetric", remove_dc=self.remove_dc, preemphasis=preemphasis,
            log_floor=self.floor,
        )  # fmt: skip
