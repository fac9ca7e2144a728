"""The task: texts, batches, what cannot be learned, and what `pdl check`, `pdl init` and a bundle make of data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdl import workflow
from pdl.cli import main
from pdl.config.compose import load
from pdl.errors import ConfigError, DataError
from pdl.runtime import load as opened
from pdl.train import Recipe
from pdl.train.assembly import assemble
from pdl.workflow.new_recipe import init
from pdl.workflow.ngrams import learn
from pdl.workflow.prediction import open_model, predict_words
from pdl_speech.data import AN4, standin
from pdl_speech.data.recordings import rate_of
from pdl_speech.recognition import SpeechRecognition
from pdl_speech.recognition.loader import batched, texts_of


def recipe(folder: Path, *overrides: str) -> Any:
    path = standin.write_cepstra(folder)
    small = ["model.channels=8", "model.hidden=16", "model.layers=1", "data.workers=0"]
    return load("speech/an4_ctc", [*(f"data.{s}.path={path}" for s in ("train", "val", "test")), *small, *overrides])


def built(config: Any) -> tuple[Any, Any]:
    made = Recipe(config)
    return made.task.build(), made


def test_texts_are_what_is_heard() -> None:
    task = SpeechRecognition(characters=" abcdefghijklmnopqrstuvwxyz'-")
    assert task.clean("  \u201cDon\u2019t\u201d, SAID he -- well-known?\n") == "don't said he well-known"
    assert SpeechRecognition(lower=False, punctuation=True).clean("Yes, sir.") == "Yes, sir."
    assert task.clean("cafe\u0301") == "café"
    assert task.encode("ab a").tolist() == [2, 3, 1, 2]
    assert task.needed(["abba", "aaa", ""]).tolist() == [5, 5, 0]
    scores = np.eye(30)[[[0, 2, 2, 0, 2, 3, 1, 1, 4, 4]]]
    assert task.decode(scores, np.array([10])) == ["aab c"]
    assert task.decode(scores, np.array([8])) == ["aab"]
    with pytest.raises(ConfigError, match="a more than once"):
        SpeechRecognition(characters="aba")


def test_batches_are_filled_up_to_a_few_lengths(tmp_path: Path) -> None:
    parts = assemble(*built(recipe(tmp_path)))
    shapes = set()
    for batch in parts.loaders["train"]:
        rows = zip(batch["audio"], batch["samples"], strict=True)
        assert all((sound[count:] == 0).all() and (sound[:count] != 0).any() for sound, count in rows)
        assert batch["lengths"].tolist() == [len(text) for text in batch["text"]]
        shapes.add((*batch["audio"].shape[1:], batch["labels"].shape[1]))
    assert 1 < len(shapes) <= 8
    sample = {"features": np.ones((70, 2), np.float32), "text": "a", "labels": np.array([1]), "index": 0}
    assert batched([sample], [40, 64], 3)["audio"].shape == (1, 72, 2)  # what a transform made longer
    assert rate_of(parts.loaders["val"].dataset) == 100


def test_what_cannot_be_learned_is_told_before_training(tmp_path: Path) -> None:
    few = "task.characters=' efhinorstuvwx'"  # no g, no z
    with pytest.raises(DataError, match=r"with the 14 characters known: 'g' \d+ times, 'z' \d+ times; the first"):
        assemble(*built(recipe(tmp_path, few)))
    task, made = built(recipe(tmp_path, few, "task.skip=true"))
    parts = assemble(task, made)
    assert not any(set(text) & set("gz") for batch in parts.loaders["train"] for text in batch["text"])
    assert any(set(text) & set("gz") for batch in parts.loaders["test"] for text in batch["text"])
    with pytest.raises(DataError, match=r"none of \d+ texts can be learned"):
        assemble(*built(recipe(tmp_path, "task.characters=q", "task.skip=true")))
    with pytest.raises(ConfigError, match=r"data\.train: gives waveforms at 100 Hz, but model\.features takes 50 Hz"):
        assemble(*built(recipe(tmp_path, "model.features.rate=50")))
    with pytest.raises(ConfigError, match=r"features \(1, \d+, 13\) must be \[N, frames, 12\]"):
        assemble(*built(recipe(tmp_path, "model.features.channels=12")))


def test_check_finds_texts_that_do_not_fit_their_sounds(tmp_path: Path) -> None:
    path = standin.write_cepstra(tmp_path)
    with np.load(path) as arrays:
        changed = dict(arrays)
    texts = changed["train_text"].astype(object)
    texts[:4] = ["", "hello" * 40, "?!", "3 ones"]
    changed["train_text"] = texts.astype(str)
    np.savez(path, **changed)
    config = load("speech/an4_ctc", [f"data.{s}.path={path}" for s in ("train", "val", "test")])
    config["data"]["train"]["share"] = 0.001
    config["task"]["characters"] = " efghinorstuvwxzl"
    task, made = built(config)
    said = [str(fault) for fault in task.check(made)]
    for what in ("its text is empty", "nothing is said in its text '?!'", "needs", "the character '3' (digit three)",
                 "speakers are in train, too"):  # fmt: skip
        assert any(what in each for each in said), what


def test_a_recipe_is_written_learns_and_hears(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`pdl init`, train, and the bundle on a recording of a length that it has not seen."""
    table = standin.write_transcripts(tmp_path)
    config = load(
        init("speech.recognition", data=table, out=tmp_path / "recipe.yaml"),
        ["train.epochs=2", "model.hidden=24", "model.layers=1", "model.channels=4", "data.workers=0"],
    )
    workflow.train(config, run=tmp_path / "run", progress=False)
    metrics = json.loads((tmp_path / "run/result.json").read_text())
    assert "test/wer" in json.dumps(metrics)
    report = (tmp_path / "run/report.html").read_text()
    for section in ("Utterances by words", "Speakers", "Most confused words", "Worst utterances"):
        assert section in report
    session = opened(tmp_path / "run/model.pdl")
    answer = session(tmp_path / "audio/test_0.wav")
    assert set(answer) == {"text", "score", "words"}
    assert answer["text"] == " ".join(word["word"] for word in answer["words"])
    answers_with_a_grammar(tmp_path, capsys)


def answers_with_a_grammar(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One file with a grammar in it, of a run or of its bundle, hears what `pdl predict --lm` does; and is measured."""
    words, out, sound = folder / "words.txt", folder / "digits.pdl", folder / "audio/test_0.wav"
    words.write_text("one two three")
    learn([], folder / "words.arpa", words=words)
    values = {"--lm": [str(folder / "words.arpa")], "--alpha": ["0.3"], "--beta": ["9"]}
    (wanted,) = predict_words(open_model(folder / "run"), [str(sound)], values)
    given = [f"{name}={value}" for name, (value,) in values.items()]
    for source in ("run", "run/model.pdl"):
        assert main(["export", str(folder / source), *given, "-o", str(out)]) == 0
        said = opened(out)(sound)["text"]
        assert said == wanted.answer.value["text"]
        assert said
        assert set(said.split()) <= {"one", "two", "three"}
    about = opened(out).bundle.meta
    assert (about["metrics"], about["about"]["language model"]) == ({}, "1-grams of 3 words, and no others")
    measured = [workflow.evaluate(each).metrics["test/wer"] for each in (out, folder / "run/model.pdl")]
    assert measured[0] > measured[1] == 1, "of what each of them says: much, and nothing"
    for options, message in ((["--lm"], "--lm needs a value"), (["--vad=x"], "--vad: no option that a bundle keeps")):
        assert main(["export", str(folder / "run"), *options]) == 2
        assert message in capsys.readouterr().err


def test_the_nearest_sound_is_a_baseline(tmp_path: Path) -> None:
    task, made = built(recipe(tmp_path))
    parts = assemble(task, made)
    data = {split: loader.dataset.dataset for split, loader in parts.loaders.items()}
    found = task.baselines(made, {**data, "val": data["train"]}, "val")
    assert found["nearest sound"]["wer"] == 0  # itself
    assert 0 < task.baselines(made, data, "test")["nearest sound"]["wer"] <= 2
    assert len(texts_of(data["train"])) == len(AN4(made.data.splits["train"].get("path"), split="train"))
