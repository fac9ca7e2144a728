"""Resampling: held to its formula, to sines, and to itself in pieces."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pdl.errors import DataError, UsageError
from pdl_speech.audio import Resampler, resample

RATES = [(16_000, 8000), (8000, 16_000), (44_100, 16_000), (16_000, 44_100), (48_000, 16_000), (11, 10), (9, 10),
         (16_000, 11_025), (1009, 1013), (7, 90), (96_000, 8000)]  # fmt: skip


def by_formula(x: np.ndarray, rate: int, to: int) -> np.ndarray:
    """The sum of the docstring, output by output."""
    h, c, beta = 64 * max(1, rate / to), 0.95 * min(1, to / rate), 0.1102 * (100 - 8.7)
    y = np.zeros(math.ceil(len(x) * to / rate))
    for n in range(len(y)):
        k = np.arange(math.floor(n * rate / to - h) - 1, math.ceil(n * rate / to + h) + 2)
        t = (n * rate - k * to) / to
        weights = c * np.sinc(c * t) * np.i0(beta * np.sqrt(np.maximum(0, 1 - (t / h) ** 2))) * (abs(t) <= h)
        inside = (k >= 0) & (k < len(x))
        y[n] = (weights[inside] * x[k[inside]]).sum() / weights.sum()
    return y


@pytest.mark.parametrize(("rate", "to"), RATES)
@pytest.mark.parametrize("size", [1, 2, 201])
def test_the_formula(rate: int, to: int, size: int) -> None:
    x = np.random.default_rng(size).standard_normal(size)
    expected = by_formula(x, rate, to)
    assert resample(x, rate, to).shape == expected.shape
    assert np.abs(resample(x, rate, to) - expected).max() < 1e-12
    rows = np.stack([x, 2 * x]).astype(np.float32).reshape(2, 1, size)
    assert np.abs(resample(rows, rate, to)[1, 0] - 2 * expected).max() < 1e-5


def gain(frequency: float, rate: int, to: int) -> tuple[float, float]:
    """Of a sine in Hz: dB of what comes out at its frequency, as it should be in phase, and dB of everything else."""
    t, u = np.arange(rate) / rate, np.arange(to) / to
    y = resample(np.sin(2 * np.pi * frequency * t), rate, to)
    inside = slice(to // 4, -to // 4)
    sine = np.stack([np.sin(2 * np.pi * frequency * u), np.cos(2 * np.pi * frequency * u)], 1)[inside]
    found = np.linalg.lstsq(sine, y[inside], rcond=None)[0]
    rest = y[inside] - sine @ found
    assert abs(found[1]) < 1e-4 * max(1, abs(found[0])), "no shift in time"
    return 20 * np.log10(abs(found[0]) + 1e-12), 20 * np.log10(math.sqrt(2 * np.mean(rest**2)) + 1e-12)


@pytest.mark.parametrize(("rate", "to"), [(16_000, 8000), (8000, 16_000), (44_100, 16_000), (16_000, 44_100)])
def test_the_passband_is_flat_and_nothing_folds(rate: int, to: int) -> None:
    lower = min(rate, to) / 2
    for share in (0.01, 0.3, 0.6, 0.85, 0.9):
        level, rest = gain(share * lower, rate, to)
        assert abs(level) < 0.001
        assert rest < -95
    for share in (1.0, 1.03, 1.5, 1.9) if to < rate else ():
        t = np.arange(rate) / rate
        y = resample(np.sin(2 * np.pi * share * lower * t), rate, to)[to // 4 : -to // 4]
        assert 20 * np.log10(math.sqrt(2 * np.mean(y**2))) < -95


def test_against_scipy() -> None:
    """Noise within the passband, where both filters are flat."""
    signal = pytest.importorskip("scipy.signal")
    x = np.random.default_rng(0).standard_normal(44_100)
    x = np.fft.irfft(np.fft.rfft(x) * (np.arange(22_051) < 6000))
    expected = signal.resample_poly(x, 160, 441, window=("kaiser", 12.0), padtype="constant")
    y = resample(x, 44_100, 16_000)
    assert y.shape == expected.shape
    wanted = signal.resample(x, 16_000)  # exact for a signal of whole periods
    assert np.abs(y - wanted)[500:-500].max() < 1e-4
    assert np.abs(y - wanted)[500:-500].max() < np.abs(expected - wanted)[500:-500].max()


@pytest.mark.parametrize(("rate", "to"), [*RATES, (8000, 8000)])
def test_streams(rate: int, to: int) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal(3000).astype(np.float32)
    stream, made, at = Resampler(rate, to), [], 0
    for _ in range(2):  # it begins again after flush
        made, at = [], 0
        while at < len(x):
            size = int(rng.choice([0, 1, 7, 160, 600]))
            made.append(stream.feed(x[at : at + size]))
            at = min(at + size, len(x))
            assert sum(map(len, made)) >= math.floor((at / rate - stream.latency) * to) - 1, "no later than it says"
        made.append(stream.flush())
        assert np.abs(np.concatenate(made) - resample(x, rate, to)).max() < 1e-6 * np.abs(x).max()
    assert stream.latency == (0 if rate == to else pytest.approx(64 / min(rate, to), abs=1 / rate))


def test_a_constant_stays_one_and_pieces_fit() -> None:
    y = resample(np.ones(200_000, np.float32), 16_000, 22_050)
    assert np.abs(y[200:-200] - 1).max() < 1e-6
    x = np.ones(5, np.float32)
    assert resample(x, 8000, 8000) is x
    assert resample(np.ones((3, 0), np.float32), 8000, 16_000).shape == (3, 0)


def test_bad_calls() -> None:
    x = np.zeros(10, np.float32)
    for given, rate, to in ((x.astype(np.int16), 8000, 16_000), (x, 0, 8000), (x, 8000, 8000.5), (x[0], 8000, 16_000),
                            (x, 1, 1025)):  # fmt: skip
        with pytest.raises(UsageError):
            resample(given, rate, to)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="in parts"):
        resample(np.zeros(400_000, np.float32), 1000, 768_000)
    with pytest.raises(UsageError):
        Resampler(8000, 16_000).feed(np.zeros(5))
