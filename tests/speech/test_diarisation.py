"""Who speaks when: tones in the place of voices, told apart by their spectra; options, files, a bundle."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import pdl
from pdl import hub
from pdl.cli import main
from pdl.dims import Dim
from pdl.errors import DataError, UsageError
from pdl.export.bundle import write
from pdl.export.deployment import Deployment
from pdl.export.systems import write_system
from pdl.hub.systems import system
from pdl.ops.base import Spec
from pdl.runtime import load
from pdl.runtime.pipeline import Answer, Pipeline
from pdl.runtime.predict import Configured, Prediction
from pdl.runtime.steps import Resources
from pdl.runtime.steps.gallery import Gallery
from pdl.runtime.steps.labels import Top
from pdl.runtime.steps.outputs import PostStep
from pdl_speech import Diariser
from pdl_speech.audio import wav
from pdl_speech.features import LogMel
from pdl_speech.models import DVector, SileroVAD
from pdl_speech.steps.segments import SpeechSegments
from pdl_speech.steps.waveform import Waveform
from pdl_speech.turns import Turn, diarisation_error, read_rttm

RATE, HOP = 8000, 80
TONES = {"anna": 300.0, "bob": 900.0, "eve": 2500.0}
TURNS = [Turn(0.5, 3.0, "anna"), Turn(3.5, 6.0, "bob"), Turn(6.75, 7.25, "bob"), Turn(8.0, 12.0, "anna"),
         Turn(12.5, 14.5, "eve"), Turn(14.5, 16.0, "bob")]  # fmt: skip


def said(turns: list[Turn]) -> np.ndarray:
    """A waveform in which each speaker is a tone with a little noise."""
    rng, t = np.random.default_rng(0), np.arange(int(RATE * (max(turn.end for turn in turns) + 0.5))) / RATE
    wave = np.zeros(len(t))
    for turn in turns:
        inside = (t >= turn.start) & (t < turn.end)
        wave += inside * (np.sin(2 * np.pi * TONES[turn.speaker] * t) + 0.3 * rng.standard_normal(len(t)))
    return (0.1 * wave).astype(np.float32)


class Words(PostStep):
    """The number of the tone that is heard, as a word as long as its sound."""

    name = "words"
    in_time = True

    def __call__(self, value: Any, sample: Any) -> Any:
        words = [{"word": f"tone{int(value[0])}", "start": 0.0, "end": float(value[1]), "score": 1.0}]
        return {"text": words[0]["word"], "words": words}


def loud(inputs: Mapping[str, Any]) -> Any:
    frames = inputs["audio"][:, : inputs["audio"].shape[1] // HOP * HOP].reshape(len(inputs["audio"]), -1, HOP)
    return {"p": (np.square(frames).mean(axis=2) > 1e-4).astype(np.float32)}


def spectrum(inputs: Mapping[str, Any]) -> Any:
    power = np.abs(np.fft.rfft(inputs["audio"], 4096, axis=1))[:, :2048] ** 2
    return {"embedding": power.reshape(len(power), 32, 64).sum(axis=2)}


def heard(inputs: Mapping[str, Any]) -> Any:
    wave = inputs["audio"]
    return {"words": np.stack([[spectrum({"audio": x[None]})["embedding"].argmax(), len(x) / RATE] for x in wave])}


def part(run: Any, name: str, step: PostStep) -> Any:
    return SimpleNamespace(pipeline=Pipeline({"audio": [Waveform(RATE)]}, {name: [step]}), run=run)


VAD = part(loud, "p", SpeechSegments(RATE, HOP, pad=0.0))
VOICE = part(spectrum, "embedding", Gallery(threshold=0.8))
WORDS = part(heard, "words", Words())


def turns_of(answer: Any) -> list[Turn]:
    return [Turn(each["start"], each["end"], each["speaker"]) for each in answer["segments"]]


def test_turns_are_found() -> None:
    made = Diariser(VAD, VOICE, window=0.5, hop=0.1, pause=0.3)
    answer = made(said(TURNS))
    assert answer["speakers"] == ["speaker 1", "speaker 2", "speaker 3"]
    assert diarisation_error(TURNS, turns_of(answer)).rate < 0.01
    assert [turn.speaker[-1] for turn in turns_of(answer)] == list("122132")
    joined = Diariser(VAD, VOICE, window=0.5, hop=0.1, pause=0.8)(said(TURNS))
    assert [turn.speaker[-1] for turn in turns_of(joined)] == list("12132")  # bob's pause of 0.75 s is in his turn
    assert made(np.zeros(RATE, np.float32)) == {"segments": [], "speakers": []}
    assert made(said([Turn(0.2, 0.6, "eve")]))["speakers"] == ["speaker 1"]


def test_options(tmp_path: Path) -> None:
    made, wave = Diariser(VAD, VOICE, window=0.5, hop=0.1), said(TURNS)

    def asked(**values: Any) -> Any:
        given = {f"--{name}": [str(value)] for name, value in values.items()}
        return Configured.of(made, given).pipeline.answers([wave], made.run)[0].value

    assert len(asked(speakers=2)["speakers"]) == 2
    assert asked(speakers=1)["speakers"] == ["speaker 1"]
    for name in ("anna", "bob"):
        wav.write(tmp_path / f"{name}.wav", said([Turn(0, 1, name)]), RATE)
    named = asked(enrolled=tmp_path, keep=tmp_path / "known.npz")
    assert named["speakers"] == ["anna", "bob", "speaker 1"]
    truth = [Turn(t.start, t.end, {"eve": "speaker 1"}.get(t.speaker, t.speaker)) for t in TURNS]
    found = turns_of(named)
    assert sum(t.end - t.start for t in found if t.speaker == "anna") == pytest.approx(6.5, abs=0.2)
    assert diarisation_error(truth, found).rate < 0.01
    (tmp_path / "anna.wav").unlink()
    assert asked(enrolled=tmp_path / "known.npz") == named
    for wrong in ("0", "two", "2000"):
        with pytest.raises(UsageError, match=r"--speakers .*: expected how many speak, from 1"):
            asked(speakers=wrong)
    with pytest.raises(DataError, match="no such file or folder"):
        asked(enrolled=tmp_path / "nowhere")


def test_files_have_the_speakers(tmp_path: Path) -> None:
    made = Diariser(VAD, VOICE, WORDS, window=0.5, hop=0.1)
    answer = made(said(TURNS[:2]))
    assert [(each["speaker"], each["text"]) for each in answer["segments"]] == [
        ("speaker 1", "tone2"),
        ("speaker 2", "tone7"),
    ]
    (step,) = made.pipeline.post["segments"]
    assert [row["speaker"] for row in step.rows(answer)] == ["speaker 1", "speaker 2"]
    assert step.caption(answer) == "2 speakers, 2 turns"
    texts = {}
    for form in step.forms:
        with (tmp_path / f"a{form.suffix}").open("wb") as file:
            pages = form.begin(file, "my talk.wav")
            pages.add(Prediction("my talk.wav", None, Answer(answer), made.pipeline))
            pages.close()
        texts[form.name] = (tmp_path / f"a{form.suffix}").read_text("utf-8")
    assert read_rttm(tmp_path / "a.rttm")["my_talk"] == [Turn(0.5, 3.0, "speaker_1"), Turn(3.5, 6.0, "speaker_2")]
    assert texts["srt"].startswith("1\n00:00:00,500 --> 00:00:03,000\nspeaker 1: tone2\n\n2\n00:00:03,500")
    assert texts["vtt"].startswith("WEBVTT\n\n00:00:00.500 --> 00:00:03.000\n<v speaker 1>tone2\n\n")
    silent = Diariser(VAD, VOICE, window=0.5)(said(TURNS[:2]))
    pages = step.forms[1].begin(io.BytesIO(), "b")
    with pytest.raises(UsageError, match="say who writes them"):
        pages.add(Prediction("b", None, Answer(silent), made.pipeline))


def test_parts_that_do_not_fit_are_named() -> None:
    other = part(spectrum, "embedding", Top())
    for parts, why in (
        ((other, VOICE), "vad does not answer as it should"),
        ((VAD, other), "voice does not answer as it should"),
        ((VAD, VOICE, other), "does not write what is said"),
        ((VAD, part(spectrum, "embedding", Gallery())), "give low and high"),
    ):
        with pytest.raises(UsageError, match=why):
            Diariser(*parts)


def test_a_bundle_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of small nets with random weights: what it says is noise, and the same by the bundle and on the command line."""
    pdl.seed(0)
    vad = SileroVAD()
    voice = DVector(features=LogMel(n_mels=16, pad_mode="constant"), hidden=8, layers=1, embedding_size=8)
    vad.classifier.bias.data[...] = 2.0
    inputs = {"audio": Spec((Dim.symbol("n", 2), Dim.symbol("t", 16000)), pdl.float32)}
    pre: Any = {"audio": [{"step": "waveform", "rate": 16000}]}
    noise = [0.1 * np.random.default_rng(i).standard_normal(16000, np.float32) for i in range(2)]
    steps: dict[str, tuple[Any, str, list[dict[str, Any]]]] = {
        "vad": (vad, "logits", [{"step": "sigmoid"}, {"step": "speech_segments", "rate": 16000, "hop": 512}]),
        "voice": (voice, "embedding", [{"step": "gallery", "threshold": 0.5}]),
    }
    files = {}
    for name, (net, output, post) in steps.items():
        files[name] = tmp_path / f"{name}.pdl"
        write(files[name], Deployment(net.eval(), inputs, (output,), pre, {output: post}, noise, tolerance=1e-3))
    whole = tmp_path / "meeting.pdl"
    write_system(whole, {"_target_": "pdl_speech.Diariser", "hop": 0.8}, files, where="here")
    wav.write(tmp_path / "a.wav", np.concatenate(noise), 16000)
    answer = load(whole)(tmp_path / "a.wav")
    assert answer["segments"]
    assert main(["predict", str(whole), str(tmp_path / "a.wav"), "--json"]) == 0
    (printed,) = json.loads(capsys.readouterr().out)
    assert printed["segments"] == answer["segments"]
    assert (
        main(["predict", str(whole), str(tmp_path / "a.wav"), "--speakers", "1", "--save", str(tmp_path / "a.rttm")])
        == 0
    )
    assert {turn.speaker for turn in read_rttm(tmp_path / "a.rttm")["a"]} == {"speaker_1"}


def test_the_system_of_the_index_is_whole() -> None:
    found = system("speech/diarisation")
    assert found is not None
    assert found.parts == {"vad": "speech/silero_vad", "voice": "speech/resemblyzer"}
    parts = {}
    for name, entry in found.parts.items():
        build = hub.entry(entry).build
        assert build is not None
        parts[name] = SimpleNamespace(pipeline=Pipeline.read(build.pipeline, Resources(), "hub.yaml"))
    arguments = {name: value for name, value in found.predictor.items() if name != "_target_"}
    (step,) = Diariser(**parts, **arguments).pipeline.post["segments"]
    assert step.between == (0.55, 0.8)
    with pytest.raises(UsageError, match=r"low=0.9 must be below high=0.786"):
        Diariser(**parts, low=0.9)
