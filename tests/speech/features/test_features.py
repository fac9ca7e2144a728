"""Front ends: formulas in float64, sizes of any recording, ONNX, training."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pdl
from pdl.dims import Dim
from pdl.dtype import float32
from pdl.errors import ShapeError, UsageError
from pdl.export.symbolic import trace_symbolic
from pdl.ops.base import Spec
from pdl.program import Executable, specialise
from pdl_speech.features import (
    CMVN,
    MFCC,
    PCEN,
    VTLP,
    Deltas,
    Fbank,
    Features,
    GlobalCMVN,
    KaldiMFCC,
    LogMel,
    Samples,
    SpecAugment,
    Spectrogram,
)
from pdl_speech.features.filters import dct_matrix, hz_to_mel, mel_filters, mel_to_hz
from pdl_speech.features.windows import window_of

RATE = 16000
TIME = np.arange(12_000) / RATE
#: a sweep from 300 to 900 Hz in noise, and noise
WAVES = np.stack([0.3 * np.sin(2 * np.pi * (300 + 400 * TIME) * TIME), np.zeros_like(TIME)]).astype(np.float32)
WAVES += 0.05 * np.random.default_rng(0).standard_normal(WAVES.shape).astype(np.float32)

ALL: dict[str, Features] = {
    "spectrogram": Spectrogram(power=1, pad_mode="edge"),
    "log-mel": LogMel(),
    "log-mel 512": LogMel(n_fft=512, win_length=400, hop_length=128, center=False),
    "mfcc": MFCC(n_mfcc=13, n_mels=40),
    "fbank": Fbank(),
    "fbank mirrored": Fbank(snip_edges=False),
    "kaldi mfcc": KaldiMFCC(),
    "samples": Samples(then=[CMVN()]),
    "kaldi mfcc mirrored": KaldiMFCC(n_mfcc=20, n_mels=40, energy="windowed", snip_edges=False, lifter=0),
    "pcen": PCEN(trainable=True),
    "spoken frames": LogMel(n_mels=40, then=[CMVN(within=5.0)]),
    "all layers": LogMel(n_mels=40, then=[VTLP(), Deltas(), CMVN(), SpecAugment(), GlobalCMVN(120, mean=0.5, std=2.0)]),
}


def found(features: Features, waves: Any = WAVES) -> Any:
    return features.eval()(pdl.Tensor(waves)).detach().numpy()


def powers(size: int, hop: int, n: int, window: Any, waves: Any) -> Any:
    """Of frames within the waveforms, float64."""
    frames = np.lib.stride_tricks.sliding_window_view(waves.astype(np.float64), size, axis=1)[:, ::hop]
    return np.abs(np.fft.rfft(frames * window, n)) ** 2


def test_log_mel_by_its_formula() -> None:
    padded = np.pad(WAVES, ((0, 0), (200, 200)), "reflect")
    filters = mel_filters(80, 400, RATE, f_min=0, f_max=8000)
    expected = np.log(np.maximum(powers(400, 160, 400, np.hanning(401)[:-1], padded) @ filters, 1e-10))
    np.testing.assert_allclose(found(LogMel()), expected, atol=1e-4)
    decibels = 10 * np.log10(np.maximum(np.exp(expected), 1e-10))
    made = found(MFCC(n_mfcc=20, n_mels=80, top_db=None, lifter=22))
    lifted = decibels @ dct_matrix(80, 20) * (1 + 11 * np.sin(np.pi * np.arange(1, 21) / 22))
    np.testing.assert_allclose(made, lifted, atol=2e-3)


def test_fbank_by_its_formula() -> None:
    frames = np.lib.stride_tricks.sliding_window_view(WAVES.astype(np.float64) * 32768, 400, axis=1)[:, ::160]
    frames = frames - frames.mean(-1, keepdims=True)
    frames = frames - 0.97 * np.concatenate([frames[..., :1], frames[..., :-1]], -1)
    power = np.abs(np.fft.rfft(frames * window_of("povey", 400, periodic=False), 512)) ** 2
    low, high = 1127 * np.log(1 + np.array([20, 8000]) / 700)
    mel, step = 1127 * np.log(1 + np.arange(257) * RATE / 512 / 700), (high - low) / 81
    filters = np.maximum(0, 1 - np.abs(mel[:, None] - low - step * np.arange(1, 81)) / step)
    np.testing.assert_allclose(found(Fbank()), np.log(power[..., :256] @ filters[:256]), atol=2e-4)


def test_pcen_by_its_formula() -> None:
    energy = found(LogMel(n_mels=40, log="none", power=1)).astype(np.float64) * 2.0**31
    s, mean, expected = PCEN().smoothing, energy[:, 0], []
    for e in energy.transpose(1, 0, 2):
        mean = (1 - s) * mean + s * e
        expected.append((e / (1e-6 + mean) ** 0.98 + 2) ** 0.5 - 2**0.5)
    np.testing.assert_allclose(found(PCEN(n_mels=40)), np.stack(expected, 1), rtol=2e-4)


def test_filters() -> None:
    assert hz_to_mel(np.array(1000.0)) == pytest.approx(999.9855)
    assert hz_to_mel(np.array([500.0, 1000.0, 6400.0]), "slaney") == pytest.approx([7.5, 15.0, 42.0])
    for scale in ("htk", "slaney"):
        hertz = np.array([0.0, 440.0, 1000.0, 7000.0])
        np.testing.assert_allclose(mel_to_hz(hz_to_mel(hertz, scale), scale), hertz, atol=1e-9)
    made = mel_filters(20, 2048, RATE, f_min=200, f_max=7000, mel_scale="slaney", norm="slaney")
    np.testing.assert_allclose(made.sum(axis=0) * RATE / 2048, 1, rtol=2e-2)
    matrix = dct_matrix(40, 40)
    np.testing.assert_allclose(matrix.T @ matrix, np.eye(40), atol=1e-12)


@pytest.mark.parametrize("name", ALL)
def test_any_number_of_recordings_and_samples(name: str, tmp_path: Path) -> None:
    features = ALL[name]
    audio = Spec((Dim.symbol("n", 3), Dim.symbol("t", 4321)), float32)
    program, notes = trace_symbolic(features, {"audio": audio})
    assert notes == []
    (made,) = Executable(specialise(program, {"n": 2, "t": WAVES.shape[1]}))(WAVES)
    np.testing.assert_array_equal(made, found(features))
    assert made.shape == (2, features.frames(WAVES.shape[1]), features.channels)
    pytest.importorskip("onnxruntime")
    from pdl.export.onnx import to_onnx

    written = to_onnx(program, tmp_path / "features.onnx", samples=[[WAVES], [WAVES[:1, :3000]]])
    assert written.difference is not None
    assert written.difference < 5e-5


def test_padding_changes_no_normalised_frame() -> None:
    features = LogMel(n_mels=40, center=False, then=[CMVN()]).eval()
    alone = found(features, WAVES[:1, :8000])
    padded = WAVES.copy()
    padded[0, 8000:] = 0
    both = features(pdl.Tensor(padded), pdl.Tensor(np.array([8000, 12_000]))).numpy()
    frames = features.frames(8000)
    np.testing.assert_allclose(both[0, :frames], alone[0], atol=1e-5)
    assert not both[0, frames:].any()
    np.testing.assert_allclose(both[1], found(features)[1], atol=1e-5)


@pytest.mark.parametrize("variance", [True, False])
def test_spoken_frames_alone_are_counted(variance: bool) -> None:
    """By a masked array, and whatever silence is around a recording."""
    layer = CMVN(variance=variance, within=3.0)
    quiet = np.random.default_rng(1).normal(-9, 1, (2, 60, 8)).astype(np.float32)
    quiet[:, 20:45] += 10
    quiet[1, 30:] = 50  # padding
    frames = np.array([60, 30])
    made = layer(pdl.Tensor(quiet), pdl.Tensor(frames)).numpy()
    for row, count in enumerate(frames):
        x = quiet[row, :count].astype(np.float64)
        level = x.mean(axis=1)
        spoken = x[level >= level.max() - 3]
        assert 5 < len(spoken) < 26
        expected = (x - spoken.mean(axis=0)) / (np.sqrt(spoken.var(axis=0) + 1e-5) if variance else 1)
        np.testing.assert_allclose(made[row, :count], expected, atol=1e-4)
        assert not made[row, count:].any()
    longer = np.concatenate([np.full((1, 40, 8), -9, np.float32), quiet[:1]], axis=1)
    np.testing.assert_allclose(layer(pdl.Tensor(longer)).numpy()[:, 40:], made[:1], atol=1e-5)


def test_global_statistics_are_measured() -> None:
    plain = LogMel(n_mels=40)
    layer = GlobalCMVN(40)
    layer.fit([plain(pdl.Tensor(WAVES)), plain(pdl.Tensor(WAVES[:, :4000]))])
    made = found(LogMel(n_mels=40, then=[layer]), np.concatenate([WAVES, WAVES], axis=0))
    assert abs(made.mean()) < 0.1
    assert {"then.0.mean", "then.0.std"} <= LogMel(n_mels=40, then=[layer]).state_dict().keys()
    with pytest.raises(UsageError, match="no frames"):
        layer.fit([])


def test_spec_augment_masks_in_training_alone() -> None:
    x = pdl.Tensor(np.ones((64, 100, 40), np.float32))
    layer = SpecAugment(time_width=30, channel_width=10, time_ratio=0.2)
    pdl.seed(3)
    a = layer(x).numpy()
    pdl.seed(3)
    np.testing.assert_array_equal(a, layer(x).numpy())
    frames, channels = (a == 0).all(axis=2).sum(axis=1), (a == 0).all(axis=1).sum(axis=1)
    assert len({*frames.tolist()}) > 10
    assert frames.max() <= 40  # two masks of at most 20 of 100 frames
    assert 20 < frames.mean() + 2 < 24
    assert channels.max() <= 20
    assert 8 < channels.mean() + 1 < 12
    some = layer(x, pdl.Tensor(np.full(64, 50))).numpy()
    assert ((some == 0).all(axis=2)[:, 50:]).sum() == 0
    assert (layer.eval()(x).numpy() == 1).all()
    program = pdl.jit.compile(layer.train())
    assert not np.array_equal(program(x).numpy(), program(x).numpy())


@given(st.floats(-0.5, 0.5), st.integers(2, 80))
def test_a_longer_vocal_tract_by_its_formula(a: float, channels: int) -> None:
    """The all-pass warping is the phase of (z - a) / (1 - a z), z = exp(-iw): against NumPy's interpolation."""
    x = np.random.default_rng(channels).standard_normal((2, 3, channels)).astype(np.float32)
    made = VTLP(warp=(a, a))(pdl.Tensor(x)).numpy()
    w = np.pi * (np.arange(channels) + 0.5) / channels
    z = np.exp(1j * w)
    at = np.unwrap(np.angle((z - a) / (1 - a * z))) / np.pi * channels - 0.5
    expected = [[np.interp(at, np.arange(channels), frame) for frame in each] for each in x]
    np.testing.assert_allclose(made, expected, atol=2e-4)


def test_vocal_tracts_are_drawn_in_training_alone() -> None:
    bands = np.zeros((200, 1, 40), np.float32)
    bands[:, :, 20] = 1  # a formant
    layer, x = VTLP(warp=(-0.1, 0.1)), pdl.Tensor(bands)
    pdl.seed(3)
    made = layer(x).numpy()
    pdl.seed(3)
    np.testing.assert_array_equal(made, layer(x).numpy())
    places = (made[:, 0] @ np.arange(40)) / made[:, 0].sum(axis=1)
    moved = 2 * math.atan(0.1) / math.pi * 40  # of the middle, to either side
    assert places.min() == pytest.approx(20 - moved, abs=0.6)
    assert places.max() == pytest.approx(20 + moved, abs=0.6)
    assert abs(places.mean() - 20) < 0.3
    assert layer.eval()(x) is x
    program = pdl.jit.compile(layer.train())
    assert not np.array_equal(program(x).numpy(), program(x).numpy())
    for warp in ((0.1, -0.1), (0.0, 0.9), (0.1,)):
        with pytest.raises(UsageError, match="VTLP: warp="):
            VTLP(warp=warp)


def test_front_ends_learn() -> None:
    features = PCEN(n_mels=20, trainable=True)
    waves = pdl.Tensor(WAVES[:, :2000], requires_grad=True)
    features(waves).sum().backward()
    for learned in (waves, *features.parameters()):
        assert learned.grad is not None
        assert np.abs(learned.grad.numpy()).max() > 0


def test_faults_say_what_to_do() -> None:
    with pytest.raises(ShapeError, match=r"100 samples, padded by .*, are less than a frame of 400"):
        found(Fbank(), WAVES[:, :100])
    with pytest.raises(UsageError, match="f_max <= 8000"):
        LogMel(f_max=9000)
    with pytest.raises(UsageError, match="no more than bands"):
        MFCC(n_mfcc=50, n_mels=40)
    with pytest.raises(UsageError, match="win_length 500 is more than n_fft 400"):
        LogMel(win_length=500)
    with pytest.raises(ShapeError, match=r"must be \[N, T\]"):
        LogMel()(pdl.Tensor(WAVES[0]))
