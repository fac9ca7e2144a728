"""Recognisers that are streamed: the same words in any pieces, from files and pipes, and subtitles."""

from __future__ import annotations

import io
import json
import sys
from copy import copy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import pdl
from pdl import workflow
from pdl.cli import main
from pdl.config.compose import load as compose
from pdl.dims import Dim
from pdl.errors import DataError, UsageError
from pdl.export.bundle import write
from pdl.export.deployment import Deployment
from pdl.ops.base import Spec
from pdl.runtime import load
from pdl.runtime.cutting import Cutter
from pdl.runtime.streams import run_whole
from pdl_speech.audio import wav
from pdl_speech.audio.resample import resample
from pdl_speech.data import standin
from pdl_speech.features import CMVN, PCEN, Fbank, GlobalCMVN, LogMel
from pdl_speech.models import Conformer, DeepSpeech2
from pdl_speech.models.speech_net import Chunks
from pdl_speech.recognition.deploy import Alone

RATE = 8000
SMALL: dict[str, Any] = {"rate": RATE, "n_mels": 12}
CENTRED = {**SMALL, "n_fft": 256, "hop_length": 80, "pad_mode": "constant"}
CONFORMER: dict[str, Any] = {"dim": 16, "heads": 2, "layers": 2, "kernel": 5}
NETS = {
    "conformer": lambda: Conformer(features=LogMel(**CENTRED), chunk=4, left=2, num_classes=7, **CONFORMER),
    "alone": lambda: Conformer(
        features=Fbank(**SMALL, then=[GlobalCMVN(12, std=3.0)]), chunk=3, left=0, num_classes=7, **CONFORMER
    ),
    "gru": lambda: DeepSpeech2(
        features=LogMel(**{**CENTRED, "center": False}), num_classes=7, channels=4, hidden=12, direction="forward"
    ),
    "lstm": lambda: DeepSpeech2(
        features=Fbank(**SMALL), conv="1d", stride=4, cell="lstm", num_classes=7, channels=4, hidden=12,
        direction="forward",
    ),
}  # fmt: skip


def noise(samples: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    loud = np.repeat(rng.uniform(0, 0.3, samples // 800 + 1), 800)[:samples]
    return (loud * rng.standard_normal(samples)).astype(np.float32)


def deployed(name: str) -> Deployment:
    pdl.random.seed(1)
    net = NETS[name]().eval()
    net.classifier.weight.data[...] *= 40
    with pdl.no_grad():  # all classes have their turn
        logits = net(pdl.as_tensor(noise(3 * RATE)[None]))[0].numpy()[0]
    net.classifier.bias.data[...] -= logits.mean(axis=0)
    scale = 5 / logits.std(axis=0)
    net.classifier.weight.data[...] *= scale
    net.classifier.bias.data[...] *= scale
    return Deployment(
        module=Alone(net),
        inputs={"audio": Spec((Dim.symbol("n", 3), Dim.symbol("t", RATE)), pdl.float32)},
        outputs=("logits",),
        pre={"audio": [{"step": "waveform", "rate": RATE}]},
        post={"logits": [{"step": "softmax"}, {"step": "ctc", "seconds": net.seconds}]},
        samples=[noise(n) for n in (RATE, 5555)],
        labels=list(" abcde"),
        tolerance=1e-4,
        stream=Chunks(net),
    )


@pytest.fixture(scope="module", params=NETS)
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bundle") / "model.pdl"
    assert not write(path, deployed(request.param)).notes
    return path


def test_any_pieces_say_what_the_whole_says(written: Path) -> None:
    session = load(written)
    for seed, samples in enumerate((3 * RATE + 77, RATE // 2, 300)):
        sound = noise(samples, seed)
        whole = session.run({"audio": sound[None]})["logits"][0] if samples > 300 else None
        said = session(sound) if samples > 300 else None
        answers = []
        for pieces in ((samples,), (80,), (1, 977, 13)):
            steps = run_whole(session.begin_stream(None), sound, pieces)
            if whole is not None:
                assert np.abs(np.concatenate(steps) - whole).max() < 1e-4 * max(1.0, np.abs(whole).max())
            answers.append([event for event in run_whole(session.stream(), sound, pieces) if event["final"]])
        assert answers[0] == answers[1] == answers[2]
        if said is not None:
            assert " ".join(event["text"] for event in answers[0]) == said["text"]
            assert [w["start"] for event in answers[0] for w in event["words"]] == [w["start"] for w in said["words"]]
    assert len(session(noise(3 * RATE))["text"]) > 5


@pytest.fixture(scope="module")
def conformer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("conformer") / "model.pdl"
    write(path, deployed("conformer"))
    return path


def test_pieces_are_resampled(conformer: Path) -> None:
    session, sound = load(conformer), noise(30_000)
    whole = session(resample(sound, 11_025, RATE))["text"]
    events = run_whole(session.stream(rate=11_025), sound, (1000, 3))
    assert " ".join(event["text"] for event in events if event["final"]) == whole
    pcm = np.round(sound * 32768).astype(np.int16)
    again = run_whole(session.stream(rate=11_025), pcm, (4096,))
    assert len(again) > 2
    with pytest.raises(UsageError, match="rate=12: expected"):
        session.stream(rate=12)
    with pytest.raises(DataError, match="expected floats or int16"):
        session.stream().push(np.zeros(3, np.int32))
    with pytest.raises(DataError, match="must be finite"):
        session.stream().push(np.array([np.nan], np.float32))


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    main(["predict", *words])
    return capsys.readouterr().out


def test_the_command_line(
    conformer: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pcm = np.round(noise(3 * RATE) * 32768).astype("<i2")
    file = tmp_path / "a.wav"
    wav.write(file, pcm.astype(np.float32) / 32768, RATE)
    (whole,) = json.loads(said(capsys, str(conformer), str(file), "--json"))
    events = [json.loads(line) for line in said(capsys, str(conformer), str(file), "--stream", "--json").splitlines()]
    assert {"text", "start", "end", "words", "final", "score"} == events[0].keys()
    assert " ".join(event["text"] for event in events if event["final"]) == whole["text"]
    assert not events[0]["final"]
    data = io.BytesIO(pcm.tobytes())
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BufferedReader(data), isatty=lambda: False))
    assert said(capsys, str(conformer), "--stream", "--rate", str(RATE)).split() == whole["text"].split()
    out = tmp_path / "out.srt"
    said(capsys, str(conformer), str(file), "--save", str(out))
    assert out.read_text().startswith("1\n00:00:0")
    said(capsys, str(conformer), str(file), "--save", str(tmp_path / "subtitles"), "--format", "vtt")
    assert (tmp_path / "subtitles" / "a.vtt").read_text().startswith("WEBVTT\n\n00:")
    for words, why in (
        (["--rate", "8000", str(file)], "--rate is of streams: add --stream"),
        (["--stream", str(file), "--rate", "8000"], "has a rate of its own"),
        (["--stream", str(file), str(file)], "reads one recording"),
        ([str(file), str(file), "--save", str(tmp_path / "b.srt")], "a file holds one input"),
    ):
        assert main(["predict", str(conformer), *words])
        assert why in capsys.readouterr().err


@pytest.mark.parametrize("written", ["conformer", "lstm"], indirect=True)
def test_the_step_is_exported_as_onnx(written: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    assert main(["export", str(written), "--to", "onnx", "-o", str(tmp_path / "net.onnx"), "--json"]) == 0
    assert "net_step.onnx" in capsys.readouterr().out
    peer = runtime.InferenceSession(str(tmp_path / "net_step.onnx"), providers=["CPUExecutionProvider"])
    told = json.loads(peer.get_modelmeta().custom_metadata_map["stream"])
    framing, sound = told["framing"], noise(3 * RATE + 77, 5)
    assert [each.name for each in peer.get_inputs()] == ["audio", "counts", *(each["name"] for each in told["state"])]
    assert [each.name for each in peer.get_outputs()] == ["logits", *(each["next"] for each in told["state"])]
    states = {each["name"]: np.full(each["shape"], each["first"], each["dtype"]) for each in told["state"]}
    chunk, shift, window = framing["chunk"], framing["shift"], framing["window"]
    frames = (len(sound) + framing["before"] + framing["after"] - framing["size"]) // shift + 1
    there = np.concatenate([np.zeros(framing["before"]), sound, np.zeros(window)]).astype(np.float32)
    found = []
    for begin in range(0, frames, chunk):
        real = min(chunk, frames - begin)
        piece = there[None, begin * shift :][:, :window]
        logits, *new = peer.run(None, {"audio": piece, "counts": np.array([real]), **states})
        states = dict(zip(states, new, strict=True))
        found.append(logits[0, : -(-real // framing["stride"])])
    whole = load(written).run({"audio": sound[None]})["logits"][0]
    assert np.abs(np.concatenate(found) - whole).max() < 1e-4 * np.abs(whole).max()


def test_a_run_that_streams_is_compressed_with_its_stream(tmp_path: Path) -> None:
    data = standin.write_cepstra(tmp_path)
    small = ["model.channels=16", "model.hidden=64", "model.layers=1", "model.direction=forward", "data.workers=0"]
    splits = [f"data.{split}.path={data}" for split in ("train", "val", "test")]
    config = compose("speech/an4_ctc", [*splits, *small, "model.features.then=[]", "train.epochs=1", "train.ema=null"])
    workflow.train(config, run=tmp_path / "run", progress=False)
    sound = np.random.default_rng(0).standard_normal((150, 13)).astype(np.float32)
    floats = load(tmp_path / "run/model.pdl").run({"features": sound[None]})["logits"][0]
    for to in ("int8", "w8"):
        made = workflow.compress(tmp_path / "run", to=to, samples=8)
        session = load(made.path)
        streamed = np.concatenate(run_whole(session.begin_stream(None), sound, (7, 30)))
        assert np.abs(streamed - floats).max() < 0.1 * np.abs(floats).max()
        assert (streamed != floats).any()
        assert made.size.after < made.size.before
        assert to == "w8" or "a stream differs" in made.notes[-1]


class Halves:
    """A voice activity model that hears speech in the first and in the last quarter."""

    pipeline = SimpleNamespace(streams=True)

    def stream(self, *, rate: int) -> Any:
        events = [[{"start": 0.0, "end": 0.5, "final": True}], [{"start": 1.5, "end": 2.0, "final": True}]]
        return SimpleNamespace(push=lambda piece: events.pop(0), finish=list)


def test_parts_of_a_recording_are_answered_as_one(conformer: Path) -> None:
    session, sound = load(conformer), noise(2 * RATE)
    first, last = (session(sound[a : a + RATE // 2]) for a in (0, 3 * RATE // 2))
    pipeline = copy(session.pipeline)
    assert pipeline is not None
    pipeline.cutter = Cutter(Halves(), 1.0)
    (answer,) = pipeline.answers([sound], session.run)
    assert answer.value["text"] == f"{first['text']} {last['text']}".strip()
    assert len(first["words"])
    assert len(last["words"])
    starts = [word["start"] for word in first["words"]] + [round(word["start"] + 1.5, 3) for word in last["words"]]
    assert [word["start"] for word in answer.value["words"]] == starts
    with pytest.raises(UsageError, match="finds no pauses"):
        Cutter(SimpleNamespace(pipeline=None))


def test_what_cannot_be_streamed_says_why() -> None:
    for features, why in (
        (LogMel(**SMALL), "pad_mode reflect mirrors"),
        (LogMel(**CENTRED, top_db=80.0), "top_db"),
        (LogMel(**CENTRED, then=[CMVN()]), "CMVN looks at a whole recording"),
        (PCEN(**CENTRED), "PCEN smooths"),
        (Fbank(**SMALL, snip_edges=False), "without snip_edges"),
    ):
        with pytest.raises(UsageError, match=why):
            Conformer(features=features, chunk=4, **CONFORMER)
    with pytest.raises(UsageError, match="reads whole sounds and has no chunks"):
        Chunks(Conformer(features=LogMel(**CENTRED), **CONFORMER))
