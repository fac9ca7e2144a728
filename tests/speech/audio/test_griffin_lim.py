"""Waveforms from spectra without phases."""

from __future__ import annotations

import numpy as np
import pytest

import pdl
from pdl.errors import ShapeError
from pdl_speech.audio import GriffinLim, MelVocoder, Unmel
from pdl_speech.features import LogMel
from pdl_speech.synthesis.deploy import constants

RATE, HOP, POINTS = 8000, 64, 256
WINDOW = (np.sin(np.pi / POINTS * np.arange(POINTS)) ** 2).astype(np.float32)


def tones() -> np.ndarray:
    t = np.arange(RATE) / RATE
    mixed = sum(a * np.sin(2 * np.pi * hz * t + hz) for a, hz in ((0.4, 220), (0.3, 910), (0.2, 2333)))
    return (mixed * np.minimum(1, 8 * t)).astype(np.float32)


def moduli(wave: np.ndarray) -> np.ndarray:
    return np.abs(pdl.stft(wave, POINTS, hop_length=HOP, pad_mode="constant").numpy())


def missed(wave: np.ndarray, target: np.ndarray) -> float:
    """Spectral convergence, in dB."""
    found = moduli(wave)[: len(target)]
    return float(20 * np.log10(np.linalg.norm(found - target[: len(found)]) / np.linalg.norm(target)))


def test_it_inverts_tones_and_gets_nearer_with_each_turn() -> None:
    target = moduli(tones())
    errors = {(n, m): missed(GriffinLim(WINDOW, HOP, n, m)(target), target) for n, m in
              ((1, 0.0), (8, 0.0), (60, 0.0), (60, 0.99))}  # fmt: skip
    assert errors[1, 0.0] > errors[8, 0.0] > errors[60, 0.0] > errors[60, 0.99]
    assert errors[60, 0.99] < -22
    found = GriffinLim(WINDOW, HOP, 60)(target)
    assert found.dtype == np.float32
    assert len(found) == (len(target) - 1) * HOP
    power = np.abs(np.fft.rfft(found * np.hanning(len(found))))
    peaks = (
        np.flatnonzero((power[1:-1] > power[:-2]) & (power[1:-1] > power[2:]) & (power[1:-1] > 0.2 * power.max())) + 1
    )
    for hz in (220, 910, 2333):
        assert np.abs(peaks * RATE / len(found) - hz).min() < 6  # phases slip


def test_its_transforms_are_those_of_the_ops() -> None:
    made, wave = GriffinLim(WINDOW, HOP), tones()
    expected = pdl.stft(wave, POINTS, hop_length=HOP, pad_mode="constant").numpy()
    np.testing.assert_allclose(made.spectrum(wave, len(expected)), expected, atol=1e-4)
    samples = (len(expected) - 1) * HOP
    back = made._wave(expected, samples) * made._scale(len(expected), samples)
    np.testing.assert_allclose(back, wave[:samples], atol=1e-5)
    assert GriffinLim(WINDOW, HOP)(np.zeros((1, POINTS // 2 + 1))).shape == (0,)
    with pytest.raises(ShapeError, match=r"moduli \(3, 4\) must be \[frames, 129\]"):
        made(np.zeros((3, 4)))


def test_spectra_of_mel_bands_have_these_bands() -> None:
    front = LogMel(rate=RATE, n_mels=40, n_fft=POINTS, hop_length=HOP, pad_mode="constant", floor=1e-6)
    mel = front(pdl.tensor(tones()[None])).numpy()[0]
    spectra = Unmel(front.filters.numpy())(np.exp(mel))
    assert (spectra >= 0).all()
    off = np.linalg.norm(spectra @ front.filters.numpy() - np.exp(mel))
    assert off < 0.03 * np.linalg.norm(np.exp(mel))
    held = constants(front)
    wave = MelVocoder(held["filters"], held["window"], HOP, 2)(mel)
    again = front(pdl.tensor(wave[None])).numpy()[0]
    loud = mel > mel.max() - 7
    assert np.abs(again - mel)[loud].mean() < 0.25
