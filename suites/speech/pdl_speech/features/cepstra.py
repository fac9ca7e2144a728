"""Mel-frequency cepstral coefficients: Davis and Mermelstein, IEEE ASSP 28(4), 1980."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

import pdl
from pdl import nn
from pdl.errors import UsageError
from pdl_speech.features.base import FrameLayer
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
        if n_mfcc > n_mels:
            raise UsageError(
                f"MFCC: n_mfcc {n_mfcc} coefficients of n_mels {n_mels} bands; there are no more than bands"
            )
        made = dct_matrix(n_mels, n_mfcc)
        if lifter:
            made *= 1 + lifter / 2 * np.sin(np.pi * np.arange(1, n_mfcc + 1) / lifter)
        self.dct = nn.Buffer(made.astype(np.float32), persistent=False)
        self.finish_init(n_mfcc, then)

    def compute(self, x: pdl.Tensor) -> pdl.Tensor:
        """Waveforms [N, T] -> [N, frames, n_mfcc]."""
        return super().compute(x) @ self.dct
