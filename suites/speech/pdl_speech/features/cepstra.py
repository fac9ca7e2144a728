"""Mel-frequency cepstral coefficients: Davis and Mermelstein, IEEE ASSP 28(4), 1980; and as Kaldi computes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np

import pdl
from pdl import nn
from pdl.errors import UsageError
from pdl.hints import Range
from pdl_speech.features.base import FrameLayer
from pdl_speech.features.fbank import Fbank
from pdl_speech.features.filters import Norm, Scale, dct_matrix
from pdl_speech.features.mel import Floor, Log, LogMel, PadMode, Rate, Size
from pdl_speech.features.windows import Window


class MFCC(LogMel):
    """The first coefficients of the orthonormal cosine transform of log-mel energies, [N, frames, n_mfcc].

    n_mfcc  how many coefficients
    lifter  L of 1 + L / 2 sin(pi n / L), by which coefficient n = 1, 2, ... is multiplied; 0: none
    All else is as in `LogMel`. Energies are in dB, at most 80 below the largest, as in librosa and torchaudio.
    """

    def __init__(
        self,
        *,
        rate: Rate = 16000,
        n_mfcc: Size = 40,
        lifter: Floor = 0.0,
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
        log: Log = "db",
        floor: Floor = 1e-10,
        top_db: Floor | None = 80.0,
        then: Sequence[FrameLayer] = (),
    ) -> None:
        super().__init__(
            rate=rate, n_mels=n_mels, n_fft=n_fft, hop_length=hop_length, win_length=win_length, window=window,
            center=center, pad_mode=pad_mode, power=power, f_min=f_min, f_max=f_max, mel_scale=mel_scale, norm=norm,
            log=log, floor=floor, top_db=top_db,
        )  # fmt: skip
        self.dct = _transform("MFCC", n_mels, n_mfcc, lifter, 1)
        self.finish_init(n_mfcc, then)

    def compute(self, x: pdl.Tensor) -> pdl.Tensor:
        """Waveforms [N, T] -> [N, frames, n_mfcc]."""
        return super().compute(x) @ self.dct


class KaldiMFCC(Fbank):
    """Kaldi's `compute-mfcc-feats` without dither, [N, frames, n_mfcc]: the first coefficients of the orthonormal
    cosine transform of `Fbank`'s log-mel energies.

    n_mfcc  how many coefficients
    lifter  L of 1 + L / 2 sin(pi n / L), by which coefficient n = 0, 1, ... is multiplied; 0: none
    energy  what stands in the place of coefficient 0, the natural logarithm of the energy of a frame: raw (before
            pre-emphasis and window; --raw-energy) or windowed; null: nothing (--use-energy=false)
    All else is as in `Fbank`.
    """

    def __init__(
        self,
        *,
        rate: Rate = 16000,
        n_mfcc: Size = 13,
        lifter: Floor = 22.0,
        energy: Literal["raw", "windowed"] | None = "raw",
        n_mels: Size = 23,
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
        super().__init__(
            rate=rate, n_mels=n_mels, frame_length=frame_length, frame_shift=frame_shift, preemphasis=preemphasis,
            remove_dc=remove_dc, window=window, snip_edges=snip_edges, f_min=f_min, f_max=f_max, floor=floor,
            scale=scale,
        )  # fmt: skip
        self.dct, self.energy = _transform("KaldiMFCC", n_mels, n_mfcc, lifter, 0), energy
        # the energy of a frame by its spectrum (Parseval): bins between 0 and the half of the rate stand for two
        share = np.full((self.n_fft // 2 + 1, 1), 2 / self.n_fft, np.float32)
        share[[0, -1]] /= 2
        self.share = nn.Buffer(share, persistent=False)
        self.flat = nn.Buffer(np.full(self.size, scale, np.float32), persistent=False)
        self.finish_init(n_mfcc, then)

    def compute(self, x: pdl.Tensor) -> pdl.Tensor:
        """Waveforms [N, T] -> [N, frames, n_mfcc]."""
        y = super().compute(x) @ self.dct
        if self.energy is None:
            return y
        raw = self.energy == "raw"
        window, preemphasis = (self.flat, 0.0) if raw else (self.window, self.preemphasis)
        return pdl.concat([self.bands(x, self.share, window, preemphasis), y[..., 1:]], axis=2)


def _transform(name: str, n_mels: int, n_mfcc: int, lifter: float, first: int) -> nn.Buffer:
    """The cosine transform [n_mels, n_mfcc], whose columns are multiplied as `lifter` says, n = first, ..."""
    if n_mfcc > n_mels:
        raise UsageError(f"{name}: n_mfcc {n_mfcc} coefficients of n_mels {n_mels} bands; there are no more than bands")
    made = dct_matrix(n_mels, n_mfcc)
    if lifter:
        made *= 1 + lifter / 2 * np.sin(np.pi * (first + np.arange(n_mfcc)) / lifter)
    return nn.Buffer(made.astype(np.float32), persistent=False)
