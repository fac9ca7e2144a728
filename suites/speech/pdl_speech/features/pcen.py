"""Per-channel energy normalization: Wang et al., arXiv 1607.05666."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np

import pdl
from pdl import nn
from pdl.decoder_state import Framing
from pdl.errors import UsageError
from pdl.hints import Range
from pdl_speech.features.base import FrameLayer
from pdl_speech.features.filters import Norm, Scale
from pdl_speech.features.mel import Floor, LogMel, PadMode, Rate, Size
from pdl_speech.features.windows import Window


class PCEN(LogMel):
    """(E / (eps + M)^gain + bias)^root - bias^root of mel energies E [N, frames, n_mels], M their running mean over
    time, M_t = (1 - s) M_(t-1) + s E_t.

    gain, bias, root  alpha, delta and r of the paper
    time_constant     of the running mean, in seconds, from which s follows
    eps               what is added to the running mean
    start             first: the mean begins with the first frame; one: with 1, as in librosa
    scale             what samples are multiplied by; librosa's are of 32 bits, 2^31
    trainable         whether logarithms of gain, bias and root are learned, for every channel
    All else is as in `LogMel`.
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
        power: Literal[1, 2] = 1,
        f_min: Floor = 0.0,
        f_max: Floor | None = None,
        mel_scale: Scale = "htk",
        norm: Norm | None = None,
        gain: Annotated[float, Range(above=0)] = 0.98,
        bias: Annotated[float, Range(above=0)] = 2.0,
        root: Annotated[float, Range(above=0)] = 0.5,
        time_constant: Annotated[float, Range(above=0)] = 0.4,
        eps: Annotated[float, Range(above=0)] = 1e-6,
        start: Literal["first", "one"] = "first",
        scale: Annotated[float, Range(above=0)] = 2.0**31,
        trainable: bool = False,
        then: Sequence[FrameLayer] = (),
    ) -> None:
        super().__init__(
            rate=rate, n_mels=n_mels, n_fft=n_fft, hop_length=hop_length, win_length=win_length, window=window,
            center=center, pad_mode=pad_mode, power=power, f_min=f_min, f_max=f_max, mel_scale=mel_scale, norm=norm,
            log="none",
        )  # fmt: skip
        self.eps, self.start, self.scale = eps, start, float(scale) ** power
        steps = time_constant * rate / hop_length
        self.smoothing = float((np.sqrt(1 + 4 * steps**2) - 1) / (2 * steps**2))
        kind = nn.Parameter if trainable else nn.Buffer
        for name, value in (("log_gain", gain), ("log_bias", bias), ("log_root", root)):
            setattr(self, name, kind(np.full(n_mels, np.log(value), np.float32)))
        self.finish_init(n_mels, then)

    log_gain: pdl.Tensor
    log_bias: pdl.Tensor
    log_root: pdl.Tensor

    @property
    def framing(self) -> Framing:
        raise UsageError("PCEN smooths over a whole recording, so it cannot be streamed; take LogMel")

    def compute(self, x: pdl.Tensor) -> pdl.Tensor:
        """Waveforms [N, T] -> [N, frames, n_mels]."""
        energy = super().compute(x) * self.scale
        first, s = energy[:, :1], self.smoothing
        # constants of the shape of energies, which are not below 0: what is computed from no input has fixed sizes
        before = first if self.start == "first" else pdl.where(first < 0.0, 0.0, 1.0)
        decay = pdl.where(energy < 0.0, 0.0, 1 - s)
        mean = pdl.linear_scan(decay, pdl.concat([before * (1 - s) + first * s, energy[:, 1:] * s], axis=1), axis=1)
        level = energy * pdl.exp(-pdl.exp(self.log_gain) * pdl.log(mean + self.eps))
        root = pdl.exp(self.log_root)
        return pdl.exp(root * self.log_bias) * pdl.expm1(root * pdl.log1p(level * pdl.exp(-self.log_bias)))
