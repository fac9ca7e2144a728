"""Spectrograms and log-mel spectrograms."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np

import pdl
from pdl import nn
from pdl.decoder_state import Framing
from pdl.errors import UsageError
from pdl.hints import Range
from pdl_speech.features.base import Features, FrameLayer
from pdl_speech.features.filters import Norm, Scale, check_range, mel_filters
from pdl_speech.features.windows import Window, window_of

Rate: TypeAlias = Annotated[int, Range(1)]
Size: TypeAlias = Annotated[int, Range(1)]
PadMode = Literal["constant", "reflect", "symmetric", "edge"]
Log = Literal["none", "log", "log10", "db"]
Floor: TypeAlias = Annotated[float, Range(0)]


class _Frames(Features):
    """What features of windowed frames have in common, with the arguments and conventions of librosa and torchaudio."""

    shown = ("rate", "n_fft", "hop_length", "win_length")

    def __init__(
        self,
        rate: int,
        n_fft: int,
        hop_length: int,
        win_length: int | None,
        window: Window,
        center: bool,
        pad_mode: PadMode,
        power: int,
        log: Log,
        floor: float,
        top_db: float | None,
    ) -> None:
        self.rate, self.n_fft, self.hop_length = rate, n_fft, hop_length
        self.win_length = n_fft if win_length is None else win_length
        self.center, self.pad_mode, self.power = center, pad_mode, power
        self.log, self.floor, self.top_db = log, floor, top_db
        if self.win_length > n_fft:
            raise UsageError(f"{type(self).__name__}: win_length {win_length} is more than n_fft {n_fft}")
        if log != "none" and floor <= 0:
            raise UsageError(f"{type(self).__name__}: floor is {floor}; log={log!r} needs one above 0")
        self.window = nn.Buffer(window_of(window, self.win_length).astype(np.float32), persistent=False)

    def options(self) -> dict[str, Any]:
        """How frames are taken, for `pdl.spectrogram` and `pdl.mel_spectrogram`."""
        return {
            "hop_length": self.hop_length, "win_length": self.win_length, "window": self.window,
            "center": self.center, "pad_mode": self.pad_mode, "power": self.power,
        }  # fmt: skip

    def frames(self, samples: Any) -> Any:
        """1 + samples // hop_length of centred frames; of others, those that fit."""
        reach = self.n_fft // 2 * 2 if self.center else 0
        return (samples + (reach - self.n_fft)) // self.hop_length + 1

    @property
    def framing(self) -> Framing:
        """Windows of n_fft samples; with zeros in front of a centred first one."""
        if self.center and self.pad_mode != "constant":
            raise UsageError(
                f"{type(self).__name__}: pad_mode {self.pad_mode} mirrors a recording at its ends, so it "
                "cannot be streamed; take pad_mode: constant, or center: false"
            )
        if self.top_db is not None:
            raise UsageError(f"{type(self).__name__}: top_db looks at a whole recording, so it cannot be streamed")
        self.require_layers()
        reach = self.n_fft // 2 if self.center else 0
        return Framing(self.n_fft, self.hop_length, 1, before=reach, after=reach)

    def compute_inside(self, x: pdl.Tensor) -> pdl.Tensor:
        made = copy(self)
        made.center = False
        return made.compute(x)

    def unit(self) -> float:
        """What natural logarithms are multiplied by."""
        return 1.0 if self.log == "log" else float({"log10": 1, "db": 20 / self.power}[self.log] / np.log(10))

    def limited(self, y: pdl.Tensor) -> pdl.Tensor:
        """Logarithms [N, frames, channels] that are at most `top_db` below the largest."""
        if self.top_db is None or self.log == "none":
            return y
        return pdl.maximum(y, pdl.max(y, axis=(1, 2), keepdims=True) - self.top_db)


class Spectrogram(_Frames):
    """Spectra of frames, [N, frames, n_fft // 2 + 1].

    n_fft        points of a transform; powers of 2, 3 and 5 are fast
    hop_length   samples from one frame to the next
    win_length   samples of the window, which stands in the middle of n_fft points; n_fft by default
    window       hann, hamming, blackman, povey or ones; periodic
    center       frame f has sample f hop_length in its middle, and the waveform is padded at both ends
    pad_mode     constant (zeros), reflect, symmetric or edge
    power        2: squared moduli, 1: moduli
    log          none, log (natural), log10, or db: 10 log10 of power 2, 20 log10 of power 1
    floor        what smaller values count as in front of the logarithm
    top_db       values lie at most this much below the largest of a recording, in the unit of `log`; null: anywhere
    All else is as in `Features`.
    """

    def __init__(
        self,
        *,
        rate: Rate = 16000,
        n_fft: Size = 400,
        hop_length: Size = 160,
        win_length: Size | None = None,
        window: Window = "hann",
        center: bool = True,
        pad_mode: PadMode = "reflect",
        power: Literal[1, 2] = 2,
        log: Log = "log",
        floor: Floor = 1e-10,
        top_db: Floor | None = None,
        then: Sequence[FrameLayer] = (),
    ) -> None:
        super().__init__(rate, n_fft, hop_length, win_length, window, center, pad_mode, power, log, floor, top_db)
        self.finish_init(n_fft // 2 + 1, then)

    def compute(self, x: pdl.Tensor) -> pdl.Tensor:
        """Waveforms [N, T] -> [N, frames, n_fft // 2 + 1]."""
        y = pdl.spectrogram(x, self.n_fft, **self.options())
        return y if self.log == "none" else self.limited(pdl.log(pdl.maximum(y, self.floor)) * self.unit())


class LogMel(_Frames):
    """Logarithms of the energies in `n_mels` bands that are even on a mel scale, [N, frames, n_mels].

    n_mels     how many bands
    f_min      where they begin, in Hz
    f_max      where they end, in Hz; half the rate by default
    mel_scale  htk (torchaudio's default) or slaney (librosa's)
    norm       slaney: bands have the same area (librosa's default); null: the same height (torchaudio's)
    All else is as in `Spectrogram`. librosa's features have mel_scale, norm: slaney, pad_mode: constant, log: db.
    """

    def __init__(
        self,
        *,
        rate: Rate = 16000,
        n_mels: Size = 80,
        n_fft: Size = 400,
        hop_length: Size = 160,
        win_length: Size | None = None,
        window: Window = "hann",
        center: bool = True,
        pad_mode: PadMode = "reflect",
        power: Literal[1, 2] = 2,
        f_min: Floor = 0.0,
        f_max: Floor | None = None,
        mel_scale: Scale = "htk",
        norm: Norm | None = None,
        log: Log = "log",
        floor: Floor = 1e-10,
        top_db: Floor | None = None,
        then: Sequence[FrameLayer] = (),
    ) -> None:
        super().__init__(rate, n_fft, hop_length, win_length, window, center, pad_mode, power, log, floor, top_db)
        self.n_mels = n_mels
        highest = rate / 2 if f_max is None else f_max
        check_range(type(self).__name__, rate, f_min, highest)
        filters = mel_filters(n_mels, n_fft, rate, f_min=f_min, f_max=highest, mel_scale=mel_scale, norm=norm)
        self.filters = nn.Buffer(filters.astype(np.float32), persistent=False)
        self.finish_init(n_mels, then)

    def compute(self, x: pdl.Tensor) -> pdl.Tensor:
        """Waveforms [N, T] -> [N, frames, n_mels]."""
        log: dict[str, Any] = {} if self.log == "none" else {"log_floor": self.floor, "log_scale": self.unit()}
        return self.limited(pdl.mel_spectrogram(x, self.filters, self.n_fft, **self.options(), **log))
