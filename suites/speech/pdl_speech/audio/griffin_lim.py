"""Waveforms from spectra without phases, and spectra from mel bands."""

from __future__ import annotations

import numpy as np

from pdl.dtype import Array
from pdl.errors import ShapeError
from pdl.kernels import fft as kernels

ITERATIONS, MOMENTUM = 32, 0.99
STEPS = 24  # of the descent to spectra
SMALLEST = 1e-10
HIGHEST = 30.0  # of ln energies: no sound is as loud


class GriffinLim:
    """Moduli [frames, n_fft // 2 + 1] -> the waveform, float32 [(frames - 1) hop], whose `pdl.stft` (with `center`)
    has nearly these moduli.

    Phases and waveform are found in turns (Griffin and Lim, IEEE ASSP 32(2), 1984), each time a little further than to
    the nearest spectrum (Perraudin et al., WASPAA 2013). The first phases are random, always the same.

    window      [n_fft], as frames have it
    iterations  how many turns
    momentum    how much further; 0 is the method of 1984
    """

    def __init__(self, window: Array, hop: int, iterations: int = ITERATIONS, momentum: float = MOMENTUM) -> None:
        self.window, self.hop = np.ascontiguousarray(window, np.float32), hop
        self.iterations, self.momentum = iterations, momentum

    def __call__(self, moduli: Array) -> Array:
        bins = len(self.window) // 2 + 1
        if moduli.ndim != 2 or moduli.shape[1] != bins:
            raise ShapeError(f"GriffinLim: moduli {moduli.shape} must be [frames, {bins}]")
        samples = (len(moduli) - 1) * self.hop
        if samples < 1:
            return np.zeros(0, np.float32)
        target = np.ascontiguousarray(moduli, np.float32)
        turns = np.random.default_rng(0).random(target.shape, np.float32) * np.float32(2 * np.pi)
        spectrum, before = target * np.exp(1j * turns).astype(np.complex64), np.zeros(target.shape, np.complex64)
        scale, further = self._scale(len(moduli), samples), np.float32(self.momentum / (1 + self.momentum))
        for _ in range(self.iterations):
            now = self.spectrum(self._wave(spectrum, samples) * scale, len(moduli))
            spectrum = now - further * before
            size = np.abs(spectrum)
            spectrum *= target / np.maximum(size, np.float32(1e-16))
            before = now
        return self._wave(spectrum, samples) * scale

    def spectrum(self, wave: Array, frames: int) -> Array:
        """complex64 [frames, n_fft // 2 + 1] of a waveform [T], with zeros at its ends."""
        n = len(self.window)
        made = np.empty((1, frames, n // 2 + 1), np.complex64)
        kernels.forward(made, wave[None], self.window, None, "spectrum", n, self.hop, n // 2)
        return made[0]

    def _wave(self, spectrum: Array, samples: int) -> Array:
        """The sum of the windowed inverse transforms."""
        n = len(self.window)
        made = np.empty((1, samples), np.float32)
        kernels.overlap_add(made, spectrum[None], self.window, n, self.hop, n // 2, edge=1 / n, inner=1 / n)
        return made[0]

    def _scale(self, frames: int, samples: int) -> Array:
        """One by the sum of the squares of the windows at each sample; 0 where that is below 1e-6."""
        n, total = len(self.window), np.zeros((frames - 1) * self.hop + len(self.window))
        for begin in range(0, frames * self.hop, self.hop):
            total[begin : begin + n] += self.window.astype(np.float64) ** 2
        total = total[n // 2 : n // 2 + samples]
        return np.where(total > 1e-6, 1 / np.maximum(total, 1e-6), 0).astype(np.float32)


class Unmel:
    """Mel bands [frames, bands] -> spectra s >= 0 [frames, bins] with s filters near to them: the least squares, its
    negative parts cut off, then steps that keep signs (Lee and Seung, NIPS 2000).

    filters  [bins, bands]
    """

    def __init__(self, filters: Array, steps: int = STEPS) -> None:
        self.filters, self.steps = np.ascontiguousarray(filters, np.float32), steps
        self.inverse = np.linalg.pinv(filters.astype(np.float64), rcond=1e-3).astype(np.float32)

    def __call__(self, bands: Array) -> Array:
        mel = np.ascontiguousarray(bands, np.float32)
        unit = max(float(mel.max(initial=0)), SMALLEST)
        mel = mel / unit
        s = np.maximum(mel @ self.inverse, 1e-4 * mel.mean(axis=1, keepdims=True) + np.float32(1e-12))
        wanted = mel @ self.filters.T
        for _ in range(self.steps):
            s *= wanted / np.maximum((s @ self.filters) @ self.filters.T, np.float32(1e-20))
            np.maximum(s, np.float32(1e-18), out=s)  # no subnormal numbers, which are slow
        covered = self.filters.any(axis=1)
        made: Array = np.where(covered, s, 0) * np.float32(unit)
        return made


class MelVocoder:
    """ln mel energies [frames, bands] -> a waveform float32 [(frames - 1) hop]: `Unmel`, then `GriffinLim`.

    filters  [bins, bands]
    window   [n_fft], as frames have it
    power    of the moduli that the energies are of, 1 or 2
    """

    def __init__(
        self, filters: Array, window: Array, hop: int, power: int, iterations: int = ITERATIONS,
        momentum: float = MOMENTUM,
    ) -> None:  # fmt: skip
        self.unmel, self.power = Unmel(filters), power
        self.find = GriffinLim(window, hop, iterations, momentum)

    def __call__(self, mel: Array) -> Array:
        energies = self.unmel(np.exp(np.minimum(mel, HIGHEST)))
        return self.find(np.sqrt(energies) if self.power == 2 else energies)
