"""Pitch: tones, and voices whose pitch is known."""

from __future__ import annotations

import numpy as np
import pytest

from pdl.errors import UsageError
from pdl_speech.audio import pitch
from pdl_speech.audio.pitch import contour


@pytest.mark.parametrize("rate", [8000, 16000, 22050])
@pytest.mark.parametrize("tone", [80.0, 123.4, 260.0, 440.0])
def test_a_tone_is_found_within_a_hertz(rate: int, tone: float) -> None:
    t = np.arange(rate // 2) / rate
    rng = np.random.default_rng(0)
    for wave in (np.sin(2 * np.pi * tone * t), sum(np.cos(2 * np.pi * k * tone * t + k) / k for k in (1, 2, 3, 4, 5))):
        found = pitch(wave + 0.001 * rng.standard_normal(len(t)), rate, rate // 100)
        assert found.dtype == np.float32
        assert found.shape == (1 + len(t) // (rate // 100),)
        assert np.abs(found[4:-4] - tone).max() < 1


def test_it_follows_a_glide_at_the_right_time_and_noise_and_silence_have_none() -> None:
    rate, hop = 16000, 160
    t = np.arange(rate) / rate
    wave = np.sin(2 * np.pi * (100 * t + 75 * t**2))
    found, expected = pitch(wave, rate, hop), 100 + 150 * np.arange(101) * hop / rate
    assert np.abs(found[5:-5] - expected[5:-5]).max() < 2
    noise = np.random.default_rng(0).standard_normal(rate)
    assert (pitch(noise, rate, hop) > 0).mean() < 0.1
    assert not pitch(np.zeros(rate), rate, hop).any()
    assert pitch(np.zeros(10), rate, hop).shape == (1,)
    with pytest.raises(UsageError, match=r"0 < low < high <= 8000 Hz"):
        pitch(noise, rate, hop, low=500, high=100)


def test_a_contour_bridges_what_is_not_voiced() -> None:
    np.testing.assert_allclose(contour(np.array([0, 128, 0, 0, 1024, 0.0])), [7, 7, 8, 9, 10, 10])
    assert np.isnan(contour(np.zeros(3))).all()
