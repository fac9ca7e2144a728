"""Banks of triangular filters that are even on a mel scale, and the cosine transform of cepstra."""

from __future__ import annotations

from typing import Literal

import numpy as np

from pdl.dtype import Array
from pdl.errors import UsageError

Scale = Literal["htk", "slaney"]
Norm = Literal["slaney"]

#: Slaney's Auditory Toolbox, 1998: linear below 1000 Hz, where 200/3 Hz are 1 mel; above, 27 mel are a factor of 6.4
LINEAR, CORNER, STEP = 200 / 3, 1000.0, np.log(6.4) / 27


def hz_to_mel(frequency: Array, scale: Scale = "htk") -> Array:
    """Mel of Hz: 2595 log10(1 + f / 700) (htk; O'Shaughnessy, 1987), or Slaney's."""
    f = np.asarray(frequency, np.float64)
    if scale == "htk":
        return np.asarray(2595 * np.log10(1 + f / 700))
    high = CORNER / LINEAR + np.log(np.maximum(f, CORNER) / CORNER) / STEP
    return np.where(f < CORNER, f / LINEAR, high)


def mel_to_hz(mel: Array, scale: Scale = "htk") -> Array:
    """The inverse of `hz_to_mel`."""
    m = np.asarray(mel, np.float64)
    if scale == "htk":
        return np.asarray(700 * (10 ** (m / 2595) - 1))
    return np.where(m < CORNER / LINEAR, m * LINEAR, CORNER * np.exp(STEP * (m - CORNER / LINEAR)))


def check_range(name: str, rate: int, f_min: float, f_max: float) -> None:
    """UsageError unless 0 <= f_min < f_max <= rate / 2."""
    if not 0 <= f_min < f_max <= rate / 2:
        raise UsageError(
            f"{name}: filters from {f_min:g} to {f_max:g} Hz; expected 0 <= f_min < f_max <= {rate / 2:g}, half the "
            "rate"
        )


def _even(ends: Array, n_mels: int) -> Array:
    """The corners of so many filters between two ends."""
    return np.linspace(ends[0], ends[1], n_mels + 2)


def mel_filters(
    n_mels: int,
    n_fft: int,
    rate: int,
    *,
    f_min: float,
    f_max: float,
    mel_scale: Scale = "htk",
    norm: Norm | None = None,
) -> Array:
    """Triangles over frequency in Hz, float64 [n_fft // 2 + 1, n_mels], whose corners are even on the mel scale from
    f_min to f_max. Their height is 1, or with `norm` "slaney" their area over frequency. As in librosa and torchaudio.
    """
    bins = np.arange(n_fft // 2 + 1) * rate / n_fft
    corners = mel_to_hz(_even(hz_to_mel(np.array([f_min, f_max]), mel_scale), n_mels), mel_scale)
    slopes = (bins[:, None] - corners) / np.concatenate([np.diff(corners), [1.0]])
    made = np.maximum(0, np.minimum(slopes[:, :-2], -slopes[:, 1:-1] + 1))
    return made * (2 / (corners[2:] - corners[:-2])) if norm == "slaney" else made


def kaldi_filters(n_mels: int, n_fft: int, rate: int, *, f_min: float, f_max: float) -> Array:
    """Kaldi's triangles over mel, 1127 ln(1 + f / 700), float64 [n_fft // 2 + 1, n_mels]; the last bin is in none."""
    mel = 1127 * np.log(1 + np.arange(n_fft // 2 + 1) * rate / n_fft / 700)
    corners = _even(1127 * np.log(1 + np.array([f_min, f_max]) / 700), n_mels)
    slopes = (mel[:, None] - corners) / (corners[1] - corners[0])
    made = np.maximum(0, np.minimum(slopes[:, :-2], 1 - slopes[:, 1:-1]))
    made[-1] = 0
    return made


def dct_matrix(n_mels: int, n_mfcc: int) -> Array:
    """The orthonormal cosine transform of type II, float64 [n_mels, n_mfcc]."""
    made = np.cos(np.pi / n_mels * (np.arange(n_mels)[:, None] + 0.5) * np.arange(n_mfcc)) * np.sqrt(2 / n_mels)
    made[:, 0] /= np.sqrt(2)
    return np.asarray(made)
