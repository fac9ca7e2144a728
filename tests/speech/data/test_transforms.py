"""Distortions of sound."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdl.data import ArrayDataset, Compose, DataLoader
from pdl.data.randomness import SampleRandom
from pdl.errors import ConfigError, DataError, UsageError
from pdl_speech.audio import resample, wav
from pdl_speech.data import rooms
from pdl_speech.data import transforms as T

KEEP = [T.Gain(), T.TimeShift(), T.Noise(p=1.0), T.Reverb(p=1.0, rooms=3, t60=(0.1, 0.2)), T.Clip(p=1.0),
        T.BandLimit(p=1.0), T.MuLaw(p=1.0)]  # fmt: skip
CHANGE = [T.Speed(factors=(0.9, 1.1)), T.PadOrCrop(samples=900, random=True)]
NAMES = [type(each).__name__ for each in [*KEEP, *CHANGE]]


def sound(size: int = 1000, level: float = 0.3, seed: int = 0) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal(size) * level).astype(np.float32).clip(-1, 1)


def run(transform: Any, x: np.ndarray, index: int = 0) -> np.ndarray:
    made: np.ndarray = transform({"audio": x, "label": 3}, SampleRandom(0, 0, index))["audio"]
    return made


@pytest.mark.parametrize("transform", [*KEEP, *CHANGE], ids=NAMES)
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_what_holds_for_all(transform: Any, size: int) -> None:
    x = sound(size)
    before = x.copy()
    made = [run(transform, x, i) for i in range(6)]
    assert np.array_equal(x, before)
    assert np.array_equal(made[4], run(transform, x, 4)), "a function of seed, epoch and index"
    for each in made:
        assert each.dtype == np.float32
        assert np.isfinite(each).all()
        assert np.abs(each).max() <= 1 + 1e-6
        assert len(each) == size or transform in CHANGE
    if size == 1000:
        assert any(each.shape != x.shape or not np.array_equal(each, x) for each in made)
        assert transform({"audio": x, "label": 3}, SampleRandom(0, 0, 0))["label"] == 3
    silence = run(transform, np.zeros(size, np.float32))
    assert not silence.any()


@pytest.mark.parametrize("kind", [type(each) for each in KEEP])
def test_never(kind: type[T._Distortion]) -> None:
    x = sound()
    assert run(kind(p=0.0), x) is x


# -- levels ------------------------------------------------------------------------------------------------------------
@given(st.floats(-60, 60), st.sampled_from(["white", "pink", "brown"]), st.floats(1e-4, 0.9), st.integers(2, 3000))
def test_the_ratio_is_exact(snr: float, colour: Any, level: float, size: int) -> None:
    x = sound(size, level)
    x[0] = level
    made = run(T.Noise(snr=snr, colour=colour, p=1.0), x).astype(np.float64)
    twin = rooms.noise(size, colour, 16_000, _after(snr)).astype(np.float64)
    both = np.linalg.lstsq(np.stack([x.astype(np.float64), twin], 1), made, rcond=None)[0]
    expected = np.sqrt(np.mean(x.astype(np.float64) ** 2) / np.mean(twin**2)) * 10 ** (-snr / 20)
    assert both[1] / both[0] == pytest.approx(expected, rel=1e-3)
    assert np.abs(made).max() <= 1 + 1e-6


def _after(snr: float) -> SampleRandom:
    """The generator as `Noise` has it when it draws its noise."""
    rng = SampleRandom(0, 0, 0)
    rng.chance(1.0)
    rng.uniform(snr, snr)
    return rng


@pytest.mark.parametrize(("colour", "falls"), [("white", 0.0), ("pink", 3.01), ("brown", 6.02)])
def test_colours_fall_by_octaves(colour: str, falls: float) -> None:
    x = rooms.noise(1 << 18, colour, 16_000, SampleRandom(0, 0, 0))
    spectrum = np.abs(np.fft.rfft(x)) ** 2
    hz = np.fft.rfftfreq(len(x), 1 / 16_000)
    octaves = [10 * np.log10(spectrum[(hz >= low) & (hz < 2 * low)].mean()) for low in (100, 200, 400, 800, 1600, 3200)]
    assert np.diff(octaves).tolist() == pytest.approx([-falls] * 5, abs=0.3)


def test_gain_is_in_db_and_ends_at_full_scale() -> None:
    x = sound(level=0.05)
    assert np.allclose(run(T.Gain(db=6.0), x), x * 10 ** (6 / 20), rtol=1e-6)
    loud = run(T.Gain(db=60), x)
    assert np.abs(loud).max() == pytest.approx(1)
    assert np.allclose(loud / loud.max(), x / x.max(), atol=1e-6)


def test_clipping_and_mulaw() -> None:
    x = sound()
    peak = np.abs(x).max()
    assert np.allclose(run(T.Clip(share=0.5, p=1.0), x), np.clip(x, -peak / 2, peak / 2))
    levels = wav.mulaw_levels()
    made = run(T.MuLaw(p=1.0), x)
    nearest = levels[np.abs(x[:, None] - levels).argmin(axis=1)]
    assert len(levels) == 255
    assert np.array_equal(np.abs(made - x), np.abs(nearest - x))


# -- time and frequency ------------------------------------------------------------------------------------------------
def test_pad_or_crop() -> None:
    x = np.arange(1, 11, dtype=np.float32)
    assert run(T.PadOrCrop(samples=4), x).tolist() == [4, 5, 6, 7]
    assert run(T.PadOrCrop(seconds=0.75, rate=1000, samples=None), x[:5])[372:378].tolist() == [0, 1, 2, 3, 4, 5]
    assert not run(T.PadOrCrop(samples=4), x[:0]).any()
    cuts = {tuple(run(T.PadOrCrop(samples=8, random=True), x, i)) for i in range(60)}
    assert cuts == {tuple(range(k, k + 8)) for k in (1, 2, 3)}
    pads = {tuple(run(T.PadOrCrop(samples=4, random=True), x[:2], i)) for i in range(60)}
    assert pads == {(1, 2, 0, 0), (0, 1, 2, 0), (0, 0, 1, 2)}
    assert T.PadOrCrop(seconds=0.5).deployed() == [{"step": "pad_or_crop", "samples": 8000}]
    with pytest.raises(UsageError, match="for training"):
        T.PadOrCrop(samples=4, random=True).deployed()


def test_time_shift() -> None:
    x = np.arange(1, 11, dtype=np.float32) / 10
    made = {tuple(run(T.TimeShift(seconds=0.002, rate=1000), x, i)) for i in range(100)}
    shifted = {tuple(np.pad(x, (2, 2))[2 + k : 12 + k]) for k in range(-2, 3)}
    assert made == shifted


def test_speed_changes_length_and_pitch() -> None:
    t = np.arange(16_000) / 16_000
    x = np.sin(2 * np.pi * 1000 * t).astype(np.float32)
    made = run(T.Speed(factors=(1.25,)), x)
    assert len(made) == 12_800
    assert np.argmax(np.abs(np.fft.rfft(made))) == pytest.approx(1250 * 12_800 / 16_000, abs=1)
    assert run(T.Speed(factors=(1.0,)), x) is not None
    assert {len(run(T.Speed(), x, i)) for i in range(30)} == {math.ceil(16_000 / f) for f in (0.9, 1.0, 1.1)}


def test_band_limit() -> None:
    x = sound(16_000)
    power = np.abs(np.fft.rfft(run(T.BandLimit(rates=(4000,), p=1.0), x))) ** 2
    had = np.abs(np.fft.rfft(x)) ** 2
    assert power[2100:].sum() < 1e-5 * had[2100:].sum(), "but for the ends"
    assert power[:1800].sum() == pytest.approx(had[:1800].sum(), rel=0.01)


# -- rooms -------------------------------------------------------------------------------------------------------------
ROOM, SOURCE, MICROPHONE = (5.0, 4.0, 3.0), (1.1, 1.3, 1.6), (3.7, 2.2, 1.2)


def test_the_images_one_by_one() -> None:
    """The spectrum of the response is the sum over images of their echoes, as the paper's equation (10) has them."""
    rate, beta = 16_000, 0.4
    h = rooms.response(ROOM, SOURCE, MICROPHONE, beta, 0.12, rate)
    f = np.arange(100, 6000, 250.0)
    expected = np.zeros(len(f), complex)
    direct = math.dist(SOURCE, MICROPHONE)
    some = range(-4, 5)
    for n in ((a, b, c) for a in some for b in some for c in some):
        for p in np.ndindex(2, 2, 2):
            at = [(1 - 2 * p[i]) * SOURCE[i] + 2 * n[i] * ROOM[i] for i in range(3)]
            times = sum(abs(n[i] - p[i]) + abs(n[i]) for i in range(3))
            away = math.dist(at, MICROPHONE)
            expected += beta**times / (4 * math.pi * away) * np.exp(-2j * np.pi * f * (away - direct) / 343)
    made = np.exp(-2j * np.pi * np.outer(f, np.arange(len(h))) / rate) @ h
    error = np.abs(made - expected).mean() / np.abs(expected).mean()
    assert error < 0.05


def test_reverberation_lasts_as_long_as_it_says() -> None:
    for number in range(6):
        wanted = 0.2 + 0.08 * number
        h = rooms.drawn(number, (wanted, wanted), 8000, 1)
        assert rooms.measured_t60(h, 8000) == pytest.approx(wanted, rel=0.15)
        assert len(h) == round(wanted * 8000)
        assert h[0] > 0.2 * np.abs(h).max(), "the direct sound comes first"
        assert abs(h.sum()) < 0.01 * np.abs(h).sum(), "no pressure that stays"
    decay = np.exp(-np.arange(8000) / 8000 * 3 * math.log(10) / 0.5)  # 60 dB in 0.5 s
    assert rooms.measured_t60(decay, 8000) == pytest.approx(0.5, rel=0.01)


def test_reverb_keeps_power_and_place() -> None:
    x = np.zeros(4000, np.float32)
    x[1000:1100] = sound(100)
    made = run(T.Reverb(p=1.0, rooms=2, rate=8000, t60=0.2), x)
    assert T.power(made) == pytest.approx(T.power(x), rel=1e-3)
    assert np.abs(made[:1000]).max() < 1e-5
    assert np.abs(made[1300:2000]).max() > 1e-3


# -- other recordings --------------------------------------------------------------------------------------------------
def test_noise_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    long, short = sound(12_000, seed=1), sound(300, seed=2)
    wav.write(tmp_path / "deep" / "a.wav", long, 16_000, "float32")
    x = sound(2000, 0.1)
    made = run(T.Noise(snr=10, path=str(tmp_path), p=1.0), x) - x
    assert np.mean(x**2) / np.mean(made**2) == pytest.approx(10, rel=0.01)
    fits = np.correlate(long, made, "valid") / np.linalg.norm(made)
    norms = np.sqrt(np.convolve(long**2, np.ones(2000), "valid"))
    assert (fits / norms).max() > 0.99, "a piece of it"
    other = tmp_path / "short"
    other.mkdir()
    wav.write(other / "b.wav", short, 8000, "float32")
    made = run(T.Noise(snr=10, path=str(other), p=1.0), x) - x
    again = np.resize(resample(short, 8000, 16_000), 2000)
    assert np.corrcoef(made, again)[0, 1] > 0.99
    with pytest.raises(DataError, match="no recordings"):
        run(T.Noise(path=str(tmp_path / "none"), p=1.0), x)


def test_another_sample_beneath() -> None:
    x = np.stack([sound(500, 0.1, seed) for seed in range(4)])
    labels = np.arange(4)
    loader = DataLoader(
        ArrayDataset(audio=x, label=labels), batch_size=4, transforms=[T.Mix(snr=6, p=1.0)], shuffle=False
    )
    batch = next(iter(loader))
    assert batch["label"].tolist() == [0, 1, 2, 3]
    for i in range(4):
        rest = batch["audio"][i] - x[i]
        assert np.mean(rest**2) / np.mean(x[i] ** 2) == pytest.approx(10**-0.6, rel=0.01)
        assert max(np.corrcoef(rest, each)[0, 1] for each in x) > 0.99
    with pytest.raises(UsageError, match="Mix joins"):
        T.Mix(p=1.0)({"audio": x[0]}, SampleRandom(0, 0, 0))


# -- features ----------------------------------------------------------------------------------------------------------
def of_features(transform: Any, x: np.ndarray, index: int = 0) -> np.ndarray:
    made: np.ndarray = transform({"features": x, "text": "a"}, SampleRandom(0, 0, index))["features"]
    assert made.dtype == np.float32
    return made


def test_tempo_keeps_lines_and_their_ends() -> None:
    x = np.linspace(0, 1, 100, dtype=np.float32)[:, None] * np.array([1, -2], np.float32)
    lengths = set()
    for index in range(8):
        made = of_features(T.Tempo(factor=(0.8, 1.25)), x, index)
        lengths.add(len(made))
        assert 80 <= len(made) <= 125
        assert np.diff(made[2:-2, 0]) == pytest.approx(100 / len(made) / 99, rel=1e-3)
        assert made[[0, -1], 0] == pytest.approx([0, 1], abs=2e-2)
    assert len(lengths) > 4
    assert np.array_equal(of_features(T.Tempo(factor=(1, 1)), x), x)
    assert of_features(T.Tempo(factor=(2, 2)), x[:1]).shape == (1, 2)


def test_another_vocal_tract_moves_formants() -> None:
    """A log spectrum is read where the all-pass maps its frequencies to; what is turned back is as before."""
    k, w = np.arange(30), np.linspace(0.05, 3.1, 50)
    cepstra = (0.7**k * np.cos(1.2 * k)).astype(np.float32)  # a peak near 1.2
    scale = np.where(k, 1.0, 0.5**0.5)

    def spectrum(c: np.ndarray, at: np.ndarray) -> np.ndarray:
        made: np.ndarray = np.cos(np.outer(at, k)) @ (c * scale)
        return made

    for a in (-0.1, 0.06):
        warped = of_features(T.VocalTract(warp=(a, a)), cepstra[None])[0]
        z = np.exp(1j * w)
        read = np.angle((z - a) / (1 - a * z))  # the phase of a first-order all-pass, w + 2 atan(...)
        assert spectrum(warped, w) == pytest.approx(spectrum(cepstra, read), abs=2e-3)
        assert of_features(T.VocalTract(warp=(-a, -a)), warped[None])[0, :20] == pytest.approx(cepstra[:20], abs=1e-3)
    with pytest.raises(UsageError, match=r'"features" float32 \[frames, channels\]'):
        T.VocalTract()({"audio": sound()}, SampleRandom(0, 0, 0))


# -- arguments ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        (T.PadOrCrop, {}), (T.PadOrCrop, {"samples": 5, "seconds": 1.0}), (T.PadOrCrop, {"samples": 0}),
        (T.PadOrCrop, {"samples": 5, "p": 0.5}), (T.PadOrCrop, {"seconds": 1.0, "rate": 0}), (T.Gain, {"db": (3, 1)}),
        (T.Gain, {"p": 1.5}), (T.Gain, {"db": (float("nan"), 1)}), (T.Speed, {"factors": ()}),
        (T.Speed, {"factors": (0.123,)}), (T.Speed, {"factors": (3.0,)}), (T.TimeShift, {"seconds": 0.0}),
        (T.Noise, {"colour": "red"}), (T.Noise, {"snr": (1, 2, 3)}), (T.Reverb, {"t60": (0.1, 9.0)}),
        (T.Tempo, {"factor": (0.1, 1)}), (T.VocalTract, {"warp": (0, 0.9)}),
        (T.Reverb, {"rooms": 0}), (T.Clip, {"share": 0.0}), (T.BandLimit, {"rates": (16_000,)}), (T.Mix, {"snr": "a"}),
    ],
)  # fmt: skip
def test_arguments_are_checked(kind: type[T._Distortion], arguments: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=kind.__name__):
        kind(**arguments)


def test_other_samples_are_refused_and_chains_run() -> None:
    for sample in ({"image": sound()}, {"audio": sound().astype(np.float64)}, {"audio": sound().reshape(10, 100)}):
        with pytest.raises(UsageError, match='"audio" float32'):
            T.Gain()(sample, SampleRandom(0, 0, 0))
    chain = Compose([*KEEP, *CHANGE])
    assert run(chain, sound()).shape == (900,)
    assert T.Noise(snr=(1, 2)).config() == {
        "_target_": "pdl_speech.data.transforms.Noise", "p": 0.5, "snr": [1.0, 2.0], "colour": "any", "path": None,
        "rate": 16_000,
    }  # fmt: skip
