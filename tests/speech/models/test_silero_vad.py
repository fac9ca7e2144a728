"""Silero VAD: the published net step by step in NumPy, streams, and segments of speech."""

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
from pdl.ops.base import Spec
from pdl.runtime import load
from pdl.runtime.cutting import Cutter, Spans
from pdl.runtime.sample import Sample
from pdl.runtime.streams import run_whole
from pdl.runtime.weights import to_bytes
from pdl_speech.models import SileroVAD
from pdl_speech.steps.segments import SpeechSegments

RATE = 16000


def published() -> dict[str, np.ndarray]:
    """Random arrays under the names and in the layouts of the published safetensors."""
    rng = np.random.default_rng(0)
    shapes = {"stft_conv.weight": (258, 1, 256), "lstm_cell.weight_ih": (512, 128), "lstm_cell.weight_hh": (512, 128),
              "lstm_cell.bias_ih": (512,), "lstm_cell.bias_hh": (512,), "final_conv.weight": (1, 128, 1),
              "final_conv.bias": (1,)}  # fmt: skip
    for i, (ins, outs) in enumerate(((129, 128), (128, 64), (64, 64), (64, 128)), 1):
        shapes |= {f"conv{i}.weight": (outs, ins, 3), f"conv{i}.bias": (outs,)}
    return {
        name: (rng.standard_normal(shape) / np.sqrt(max(1, np.prod(shape[1:])))).astype(np.float32)
        for name, shape in shapes.items()
    }


def convolved(x: Any, w: Any, b: Any, stride: int, padding: int) -> Any:
    x = np.pad(x, ((0, 0), (padding, padding)))
    starts = range(0, x.shape[1] - w.shape[2] + 1, stride)
    return np.stack([np.tensordot(w, x[:, i : i + w.shape[2]], ([1, 2], [0, 1])) + b for i in starts], axis=1)


def by_hand(w: dict[str, np.ndarray], x: np.ndarray) -> np.ndarray:
    """Logits, a step after the other."""
    h = c = np.zeros(128)
    found = []
    x = np.pad(x, (64, -len(x) % 512))
    for at in range(0, len(x) - 64, 512):
        y = np.pad(x[at : at + 576], (0, 64), mode="reflect")[None]
        y = convolved(y, w["stft_conv.weight"], 0.0, 128, 0)
        y = np.sqrt(y[:129] ** 2 + y[129:] ** 2)
        for i, stride in ((1, 1), (2, 2), (3, 2), (4, 1)):
            y = np.maximum(convolved(y, w[f"conv{i}.weight"], w[f"conv{i}.bias"], stride, 1), 0)
        gates = w["lstm_cell.weight_ih"] @ y[:, 0] + w["lstm_cell.bias_ih"]
        gates = gates + w["lstm_cell.weight_hh"] @ h + w["lstm_cell.bias_hh"]
        i, f, g, o = np.split(gates, 4)
        c = c / (1 + np.exp(-f)) + np.tanh(g) / (1 + np.exp(-i))
        h = np.tanh(c) / (1 + np.exp(-o))
        found.append(w["final_conv.weight"][0, :, 0] @ np.maximum(h, 0) + w["final_conv.bias"][0])
    return np.array(found)


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> SileroVAD:
    file = tmp_path_factory.mktemp("vad") / "silero.safetensors"
    file.write_bytes(to_bytes(published()))
    made = SileroVAD()
    assert not load_pretrained(made, file).fresh
    return made.eval()


def test_it_is_the_published_net(net: SileroVAD) -> None:
    x = np.random.default_rng(1).standard_normal((2, 5000)).astype(np.float32)
    with pdl.no_grad():
        got = net(pdl.as_tensor(x)).numpy()
    expected = np.stack([by_hand(published(), row) for row in x])
    assert got.shape == (2, 10)
    assert np.abs(got - expected).max() < 1e-5
    assert got.std() > 1e-3
    with pytest.raises(ShapeError, match=r"waveforms \(5000,\) must be \[N, T\]"):
        net(pdl.as_tensor(x[0]))


@pytest.fixture(scope="module")
def bundle(net: SileroVAD, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("vad") / "vad.pdl"
    segments = {"step": "speech_segments", "rate": RATE, "hop": 512, "onset": 0.5, "offset": 0.5, "speech": 0.0}
    rng = np.random.default_rng(0)
    samples = [rng.standard_normal(n).astype(np.float32) for n in (RATE, 3000)]
    with pdl.no_grad():  # half of the steps are speech
        bias = float(np.median(net(pdl.as_tensor(samples[0][None])).numpy()))
    net.classifier.bias.data[...] -= bias
    inputs = {"audio": Spec((Dim.symbol("n", 3), Dim.symbol("t", RATE)), pdl.float32)}
    pre = {"audio": [{"step": "waveform", "rate": RATE}]}
    post = {"logits": [{"step": "sigmoid"}, segments]}
    assert not write(path, Deployment(net, inputs, ("logits",), pre, post, samples, stream=net)).notes
    return path


def test_streams_find_what_files_do(bundle: Path) -> None:
    session = load(bundle)
    sound = np.random.default_rng(3).standard_normal(5 * RATE + 100).astype(np.float32)
    sound[RATE : 3 * RATE] = 0
    whole = session(sound)["speech"]
    assert whole
    for pieces in ((100,), (len(sound),), (700, 1)):
        events = run_whole(session.stream(), sound, pieces)
        final = [{k: event[k] for k in ("start", "end", "score")} for event in events if event["final"]]
        assert [(a["start"], a["end"]) for a in final] == [(a["start"], a["end"]) for a in whole]
        assert sum("start" in event for event in events) == len(events) - sum(
            event == {"final": False} for event in events
        )


def segments(path: str, length: int | None = None, **options: Any) -> list[tuple[float, float]]:
    """Of probabilities in tenths, a step of 0.1 s each."""
    step, sample = SpeechSegments(1000, 100, **{"speech": 0.0, "silence": 0.3, "pad": 0.05, **options}), Sample()
    sample.inputs["audio"] = np.zeros(len(path) * 100 if length is None else length, np.float32)
    found = step(np.array([int(digit) / 10 for digit in path]), sample)["speech"]
    return [(each["start"], each["end"]) for each in found]


def test_segments_have_two_thresholds_and_outlast_short_silences() -> None:
    assert segments("0090000") == [(0.15, 0.35)]
    assert segments("004904440000") == [(0.25, 0.45)]  # 0.4 is no beginning, and no end of a silence
    assert segments("90099000900009") == [(0.0, 0.95), (1.25, 1.4)]
    assert segments("90009", 470) == [(0.0, 0.47)]
    assert segments("9000090000", speech=0.2) == []
    assert segments("9990000900000", speech=0.2) == [(0.0, 0.35)]
    assert segments("000") == segments("") == []
    with pytest.raises(UsageError, match="must be at least twice pad"):
        SpeechSegments(16000, 512, silence=0.03)
    with pytest.raises(UsageError, match="must not be above onset"):
        SpeechSegments(16000, 512, offset=0.6)


def test_long_recordings_are_cut_where_nobody_speaks(bundle: Path) -> None:
    spans = Spans(10.0)
    heard = [{"start": 1.0, "end": 4.0, "final": True}, {"start": 5.0, "end": 10.5, "final": True}]
    assert spans.feed(heard, 11.0) == []
    assert spans.needed(11.0) == 1.0
    assert spans.feed([{"start": 11.0, "end": 12.0, "final": True}, {"start": 13.0, "final": False}], 13.5) == [
        (1.0, 10.5)
    ]
    assert spans.feed([], 24.0) == [(11.0, 12.0), (13.0, 24.0)]  # nobody pauses
    assert spans.feed([{"start": 13.0, "end": 25.0, "final": True}, {"start": 26.0, "final": False}], 26.0) == []
    assert spans.feed([{"final": False}], 60.0) == []
    assert spans.finish() == [(24.0, 25.0)]
    session = load(bundle)
    sound = np.random.default_rng(3).standard_normal(8 * RATE).astype(np.float32)
    sound[3 * RATE : 5 * RATE] = 0
    parts = list(Cutter(session, 2.0).parts(session.pipeline, sound))  # type: ignore[arg-type]
    assert len(parts) > 2
    for start, (wave, rate) in parts:
        first = round(start * rate)
        assert rate == RATE
        assert (wave == sound[first : first + len(wave)]).all()
        assert len(wave) <= 3.1 * rate
