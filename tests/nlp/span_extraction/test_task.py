"""The whole way of a net that reads: training, bundle, answers that are pieces of the paragraph, report; apart and
together, in one window and in several."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pdl
from pdl import workflow
from pdl.cli import main
from pdl.config import from_dict, load
from pdl.errors import ConfigError, DataError
from pdl.train import Recipe
from pdl_nlp import SpanExtraction
from pdl_nlp.data import QuestionFile
from pdl_nlp.span_extraction.baselines import sentences, shared
from pdl_nlp.span_extraction.loader import Windows
from pdl_nlp.span_extraction.report import highlighted
from pdl_nlp.steps.windows import Reading
from pdl_nlp.tokenizers import Characters

KINDS = ("bidaf", "windows", "encoder")


def recipe(folder: Path, kind: str, **changes: Any) -> dict[str, Any]:
    """A small net on questions about opinions; dotted keys change it."""
    for split in ("train", "val", "test"):
        made = Path(QuestionFile.stand_in(folder, {"path": f"{split}.json"}).settings["path"])
        if kind == "encoder":  # which learns where to look sooner than what is alike
            made.write_text(json.dumps(second(json.loads(made.read_text()))))
    net: dict[str, Any] = {"_target_": "pdl_nlp.BiDAF", "dim": 16, "hidden": 16, "matches": 2, "dropout": 0.0}
    if kind == "encoder":
        net = {"_target_": "pdl_nlp.BERTReader", "dim": 32, "layers": 2, "heads": 2, "dropout": 0.0, "max_length": 64}
    sizes = {"max_length": 13, "overlap": 6} if kind == "windows" else {"max_length": 64, "overlap": 16}
    tree: dict[str, Any] = {
        "task": {"_target_": "pdl_nlp.SpanExtraction", "mistakes": 3, **sizes},
        "model": net,
        "data": {
            **{split: {"_target_": "pdl_nlp.data.QuestionFile", "path": str(folder / f"{split}.json")}
               for split in ("train", "val", "test")},
            "batch_size": 16,
        },
        "optim": {"_target_": "pdl.optim.Adam", "lr": 0.01 if kind != "encoder" else 0.003},
        "train": {"epochs": {"bidaf": 2, "windows": 2, "encoder": 6}[kind]},
    }  # fmt: skip
    for key, value in changes.items():
        part, _, name = key.partition("__")
        tree[part][name] = value
    return tree


def second(tree: dict[str, Any]) -> dict[str, Any]:
    """All questions are about the second opinion of a paragraph."""
    for paragraph in tree["data"][0]["paragraphs"]:
        words = paragraph["context"].split()
        start = len(" ".join(words[:8])) + 1
        paragraph["qas"] = [
            {"question": f"how was the {words[6]} ?", "answers": [{"text": words[8], "answer_start": start}]}
        ]
    return tree


@pytest.fixture(scope="module", params=KINDS)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp(request.param)
    workflow.train(from_dict(recipe(folder, request.param)), run=folder / "run")
    return folder / "run"


def test_it_learns_and_is_compared(run: Path) -> None:
    result = json.loads((run / "result.json").read_text())
    assert result["metrics"]["test/exact_match"] > 0.8
    assert result["metrics"]["test/f1"] >= result["metrics"]["test/exact_match"]
    baselines = result["baselines"]
    assert set(baselines) == {"sentence by BM25", "beside what is shared"}
    # "how was the room" and "the room was lovely": the sentence is sure, of 3 words that count one answers
    assert baselines["sentence by BM25"]["test/f1"] == pytest.approx(0.5, abs=0.1)


def test_a_bundle_answers_raw_texts(run: Path) -> None:
    session = pdl.runtime.load(run / "model.pdl")
    text = "the screen was\tdull .  the hotel was LOVELY . the book was slow ."
    answer = session(["how was the hotel ?", text])
    assert answer["answer"] == text[answer["start"] : answer["end"]] == "LOVELY"
    assert 0 < answer["score"] <= 1
    many = session(["how was the hotel ?", "the plot was slow . " * 9 + text])
    assert many["answer"] in text or many["answer"] in "the plot was slow ."
    with pytest.raises(DataError, match="is one text; the model reads two"):
        session("how was the hotel ?")


def test_the_bundle_says_what_the_run_measured(run: Path) -> None:
    before = json.loads((run / "result.json").read_text())["metrics"]
    for what in (run, run / "model.pdl"):
        found = workflow.evaluate(what, split="test")
        for name in ("test/f1", "test/exact_match"):
            np.testing.assert_allclose(found.metrics[name], before[name], atol=1e-6)
    data = QuestionFile(run.parent / "test.json")
    session = pdl.runtime.load(run / "model.pdl")
    right = [
        session([s["question"], s["paragraph"]])["answer"] in s["answers"] for s in (data[i] for i in range(len(data)))
    ]
    assert np.mean(right) == pytest.approx(before["test/exact_match"], abs=1e-6)


def test_files_of_questions_and_of_answers(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["predict", str(run), str(run / "questions.csv"), "--out", "out.csv"]) == 0
    with Path("out.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    with (run / "questions.csv").open(newline="") as file:
        given = list(csv.DictReader(file))
    assert [row["pair"] for row in rows] == ["2", "3", "4"]
    assert all(asked["paragraph"][int(row["start"]) : int(row["end"])] == row["answer"]
               for row, asked in zip(rows, given, strict=True))  # fmt: skip
    capsys.readouterr()
    assert main(["predict", str(run), "how was the room ?\tthe room was dull .", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["answer"] in "the room was dull ."


def test_answers_out_of_documents_with_their_evidence(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts/one.txt").write_text("the room was dull .\n\nthe plot was slow .\n")
    (tmp_path / "texts/two.txt").write_text("the screen was dull . the hotel was lovely . the book was slow .\n")
    asked = ["predict", str(run / "model.pdl"), "how was the hotel ?", "--search"]
    assert main([*asked, "texts", "--json"]) == 0
    (answer,) = json.loads(capsys.readouterr().out)
    best = answer["found"][0]
    assert best["place"] == "two.txt:1"
    assert best["answer"] in best["text"]
    assert [each["score"] for each in answer["found"]] == sorted((e["score"] for e in answer["found"]), reverse=True)
    assert main([*asked, "texts/two.txt", "--topk", "1"]) == 0
    assert "texts/two.txt:1" in capsys.readouterr().out
    assert main([*asked[:-1], "--retriever", "nlp/minilm"]) == 2
    assert "--search FILE or FOLDER" in capsys.readouterr().err
    assert main([*asked, "texts", "--retriever", str(run / "model.pdl")]) == 2
    assert "has no vector of a text" in capsys.readouterr().err


def test_the_report_has_lengths_and_mistakes(run: Path) -> None:
    page = (run / "report.html").read_text()
    assert "Answers by their length (test)" in page
    shown = highlighted("a <b> cd", [(2, 5)], [(4, 8)])
    assert shown.count("rgba") == 3
    assert "&lt;b" in shown
    assert shown.endswith("> cd</span>")


def test_windows_of_the_loader_have_the_answer_or_none(tmp_path: Path) -> None:
    tokenizer = Characters(["[PAD]", "[UNK]", *"abcdefgh"], special={"pad": "[PAD]", "unknown": "[UNK]"})
    asked = {"question": "ab", "answers": [{"text": "de f", "answer_start": 4}]}
    tree = {"data": [{"paragraphs": [{"context": "abc def gh", "qas": [{"id": "0", **asked}]}]}]}
    (tmp_path / "a.json").write_text(json.dumps(tree).replace("de f", "def "))
    data = QuestionFile(tmp_path / "a.json")
    windows = Windows(data, tokenizer, Reading(6, 2, 8, together=False), training=False)
    assert windows.spans.tolist() == [[0, 0], [1, 3]]  # abcde has d and e alone; defgh all three
    batch = windows.get_batch(np.array([0, 1]))
    assert batch["offsets"][1, 1].tolist() == [4, 5]
    assert batch["row"].tolist() == [0, 0]
    assert batch["question"].tolist() == [[2, 3, *[0] * 30]] * 2
    assert set(Windows(data, tokenizer, Reading(6, 2, 8, together=True), training=True)[0]) == {
        "tokens", "segments", "begin", "end"
    }  # fmt: skip


def test_special_tokens_and_scoring_are_those_of_net_and_language(tmp_path: Path) -> None:
    tree = {"data": [{"paragraphs": [{"context": "北京很大。", "qas": [{"question": "大", "answers": []}]}]}]}
    (tmp_path / "a.json").write_text(json.dumps(tree))
    data = QuestionFile(tmp_path / "a.json")
    for name, first in (("bidaf", "[UNK]"), ("encoder", "[CLS]")):
        task = SpanExtraction()
        tree = recipe(tmp_path, name)
        task.prepare(Recipe(from_dict(tree)), {"train": data})
        assert (task.kind, task.scoring, task.unanswerable) == ("characters", "cmrc", True)
        windows = Windows(data, task.tokenizer, task.reading(together=task.together), training=True)
        assert task.tokenizer.tokens[windows.ids[0]] == first


def test_questions_without_an_answer(tmp_path: Path) -> None:
    tree = recipe(tmp_path, "bidaf", train__epochs=2)
    for split in ("train", "val", "test"):
        path = tmp_path / f"{split}.json"
        found = json.loads(path.read_text())
        for number, paragraph in enumerate(found["data"][0]["paragraphs"]):
            if number % 2:
                paragraph["qas"] = [{"answers": [], "question": "how was the weather ?"}] * 3
        path.write_text(json.dumps(found))
    workflow.train(from_dict(tree), run=tmp_path / "run")
    metrics = json.loads((tmp_path / "run/result.json").read_text())["metrics"]
    assert metrics["test/no_answer_f1"] > 0.9
    assert metrics["test/f1"] == pytest.approx((metrics["test/no_answer_f1"] + metrics["test/has_answer_f1"]) / 2)
    session = pdl.runtime.load(tmp_path / "run/model.pdl")
    answer = session(["how was the weather ?", "the room was dull ."])
    assert (answer["answer"], answer["end"]) == ("", 0)


def test_check_finds_faults(tmp_path: Path) -> None:
    tree = recipe(tmp_path, "bidaf")
    train = json.loads((tmp_path / "train.json").read_text())
    twin = json.loads(json.dumps(train["data"][0]["paragraphs"][0]))
    twin["qas"][0]["answers"][0]["answer_start"] += 1
    moved = {"context": "the \u00e9 \u4e2d " * 40, "qas": [{"id": "7", "question": " ", "answers": []}]}
    (tmp_path / "test.json").write_text(json.dumps({"data": [{"paragraphs": [twin, moved]}]}))
    faults = SpanExtraction(max_answer=1, unanswerable=True).check(Recipe(from_dict(tree)))
    said = "\n".join(f"{each.split}: {each.what}" for each in faults)
    assert "test: answer" in said
    assert "not at answer_start=" in said
    assert "test: an empty question" in said
    assert "test: 3 of 4 questions are about paragraphs that train has, too" in said
    assert "of the tokens are unknown" in said
    assert not [each for each in faults if each.split in ("train", "val")]


@pytest.mark.parametrize("folder", [True, False])
def test_init_writes_a_recipe_that_is_accepted(folder: bool, tmp_path: Path) -> None:
    data = tmp_path / "data"
    for split in ("train", "dev"):
        QuestionFile.stand_in(data, {"path": f"{split}.json"})
    data = data if folder else data / "train.json"
    assert main(["init", "nlp.span_extraction", "--data", str(data), "--out", str(tmp_path / "made.yaml")]) == 0
    found = Recipe(load(tmp_path / "made.yaml"))
    assert set(found.data.splits) == ({"train", "val"} if folder else {"train", "val", "test"})
    assert found.config["task"]["tokenizer"] == "words"


def test_baselines_by_hand() -> None:
    assert sentences("A 3.5 b. C? 中。\nd") == ["A 3.5 b.", "C?", "中。", "d"]
    tokenizer = Characters(["[PAD]", "[UNK]", *"abcdefgh"], special={"pad": "[PAD]", "unknown": "[UNK]"})
    place = shared(tokenizer, {"question": "hcd", "paragraph": "ab cdef"})
    assert (place.begin, place.end) == (2, 4)
    assert [place.beside(*choice) for choice in ((1, 1), (1, 9), (0, 1), (0, 9))] == ["e", "ef", "b", "ab"]


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"task\.overlap=9 must be less than task\.max_length=9"):
        SpanExtraction(overlap=9, max_length=9)
    tree = recipe(tmp_path, "bidaf")
    tree["model"] = {"_target_": "pdl_nlp.TextCNN", "num_classes": 2}
    with pytest.raises(ConfigError, match=r"TextCNN is no pdl_nlp\.ReadingModel"):
        workflow.train(from_dict(tree), run=tmp_path / "run")
    tree = recipe(tmp_path, "bidaf")
    (tmp_path / "train.tsv").write_text("text\tlabel\na\tb\n")
    tree["data"]["train"] = {"_target_": "pdl_nlp.data.TextFile", "path": str(tmp_path / "train.tsv")}
    with pytest.raises(DataError, match="TextFile has no questions"):
        workflow.train(from_dict(tree), run=tmp_path / "run")
