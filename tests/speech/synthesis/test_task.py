"""The task: texts, batches, what cannot be learned, and that a net learns, speaks, and is what its bundle is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdl import workflow
from pdl.config.compose import load
from pdl.errors import ConfigError, DataError
from pdl.runtime import load as opened
from pdl.train import Recipe
from pdl.train.assembly import assemble
from pdl.workflow.new_recipe import init
from pdl.workflow.prediction import open_model
from pdl_speech.data import standin
from pdl_speech.synthesis import SpeechSynthesis

SMALL = (
    "model.dim=24", "model.hidden=32", "model.encoder=1", "model.decoder=1", "model.features.n_mels=32",
    "model.features.n_fft=256", "model.features.win_length=256", "data.workers=0",
)  # fmt: skip


def recipe(folder: Path, *overrides: str) -> Any:
    path = standin.write_transcripts(folder)
    places = [f"data.{split}.path={path}" for split in ("train", "val", "test")]
    return load("speech/asterisk_fastspeech", [*places, *SMALL, *overrides])


def built(config: Any) -> tuple[Any, Any]:
    made = Recipe(config)
    return made.task.build(), made


def test_texts_are_numbers_from_one_on() -> None:
    task = SpeechSynthesis(characters=" abc")
    assert task.encode("Cab, a").tolist() == [1, 4, 2, 3, 1, 2, 1]
    with pytest.raises(ConfigError, match="a more than once"):
        SpeechSynthesis(characters="aba")


def test_batches_have_pitch_and_prior_of_their_frames(tmp_path: Path) -> None:
    task, made = built(recipe(tmp_path))
    parts = assemble(task, made)
    front = parts.model.features
    voiced = []
    for batch in parts.loaders["train"]:
        frames = front.frames(batch["samples"])
        assert batch["prior"].shape == (len(frames), front.frames(batch["audio"].shape[1]), batch["texts"].shape[1])
        assert batch["pitch"].shape == batch["prior"].shape[:2]
        assert (batch["texts"] > 0).sum(axis=1).tolist() == [len(task.encode(text)) for text in batch["text"]]
        for pitch, count in zip(batch["pitch"], frames, strict=True):
            inside = (pitch[:count] > 5.9) & (pitch[:count] < 9.0)  # 60 to 500 Hz
            assert inside.all() or not pitch.any()
            assert not pitch[count:].any()
            voiced.append(inside.all())
    assert np.mean(voiced) > 0.9
    assert 5.5 < float(parts.model.voice.numpy()[0]) < 8.5
    assert np.abs(parts.model.mean.numpy()).min() > 0.1  # it is fitted


def test_what_cannot_be_learned_is_told_before_training(tmp_path: Path) -> None:
    few = "task.characters=' efhinorstuvwx'"  # no g, no z
    with pytest.raises(DataError, match=r"has characters that are not known, g"):
        assemble(*built(recipe(tmp_path, few)))
    task, made = built(recipe(tmp_path, few, "task.skip=true"))
    parts = assemble(task, made)
    assert not any(set(text) & set("gz") for batch in parts.loaders["train"] for text in batch["text"])
    with pytest.raises(DataError, match="have more characters than their recordings have frames"):
        assemble(*built(recipe(tmp_path, "model.features.hop_length=1024", "model.features.n_fft=2048")))
    task, made = built(recipe(tmp_path, few))
    said = [str(fault) for fault in task.check(made)]
    for what in ("characters that are not known: ", "speakers: ", "a net has one voice"):
        assert any(what in each for each in said), what


def test_a_recipe_is_written_learns_and_speaks(tmp_path: Path) -> None:
    """`pdl init`, train, and the bundle, which says what the net does."""
    table = standin.write_transcripts(tmp_path)
    written = load(init("speech.synthesis", data=table, out=tmp_path / "recipe.yaml"), [*SMALL, "train.epochs=3"])
    workflow.train(written, run=tmp_path / "run", progress=False)
    lines = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    losses = [line["train/loss"] for line in lines if "train/loss" in line]
    assert losses[-1] < 0.85 * losses[0]
    found = json.loads((tmp_path / "run/result.json").read_text())
    assert found["metrics"]["test/copy_mcd"] < found["metrics"]["test/mcd"]
    assert "mean characters" in json.dumps(found)
    again = workflow.evaluate(tmp_path / "run/model.pdl").metrics
    for name in ("mcd", "mel_l1", "copy_mcd", "duration"):
        assert again[f"test/{name}"] == pytest.approx(found["metrics"][f"test/{name}"], abs=1e-3)
    report = (tmp_path / "run/report.html").read_text()
    for section in ("Texts by characters", "Examples", "Sounds", "data:audio/wav;base64,"):
        assert section in report
    session, run = opened(tmp_path / "run/model.pdl"), open_model(tmp_path / "run")
    answer = session("one two")
    assert answer["audio"].dtype == np.float32
    assert answer["seconds"] == round(len(answer["audio"]) / answer["rate"], 3) > 0.1
    given = session.pipeline.collate([session.pipeline.prepare(text) for text in ("one two", "nine eight seven")])
    ours, theirs = session.run(given), run.run(given)
    np.testing.assert_array_equal(ours["frames"], theirs["frames"])
    np.testing.assert_allclose(ours["mel"], theirs["mel"], atol=1e-4)
    (saved,) = workflow.predict(session, ["one two"], save=tmp_path, form="wav")
    assert Path(saved["saved"]).stat().st_size == 44 + 2 * len(answer["audio"])
