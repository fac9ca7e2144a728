"""The whole way of a corrector: training, bundle, the corrected text and its changes, report; by a recurrent net and by
an encoder."""

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
from pdl_nlp import Correction
from pdl_nlp.correction.loader import Mistakes
from pdl_nlp.correction.report import highlighted
from pdl_nlp.data import CorrectionFile
from pdl_nlp.models import BERTCorrector, RNNCorrector
from pdl_nlp.tokenizers import Characters

KINDS = ("RNNCorrector", "BERTCorrector")


def recipe(folder: Path, kind: str = "RNNCorrector", **changes: Any) -> dict[str, Any]:
    """A small net on opinions with letters exchanged; dotted keys change it."""
    for split in ("train", "val", "test"):
        CorrectionFile.stand_in(folder, {"path": f"{split}.tsv"})
    net: dict[str, Any] = {"dim": 24, "hidden": 32, "dropout": 0.0}
    net |= {"layers": 2, "heads": 2, "max_length": 128} if kind == "BERTCorrector" else {"ngrams": 2, "buckets": 997}
    tree: dict[str, Any] = {
        "task": {"_target_": "pdl_nlp.Correction", "mistakes": 3, "max_length": 128},
        "model": {"_target_": f"pdl_nlp.{kind}", **net},
        "data": {
            **{split: {"_target_": "pdl_nlp.data.CorrectionFile", "path": str(folder / f"{split}.tsv")}
               for split in ("train", "val", "test")},
            "batch_size": 16,
        },
        "optim": {"_target_": "pdl.optim.Adam", "lr": 0.01},
        "train": {"epochs": 3},
    }  # fmt: skip
    for key, value in changes.items():
        part, _, name = key.partition("__")
        tree[part][name] = value
    return tree


@pytest.fixture(scope="module", params=KINDS)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp(request.param)
    workflow.train(from_dict(recipe(folder, request.param)), run=folder / "run")
    return folder / "run"


def test_it_learns_and_is_compared(run: Path) -> None:
    result = json.loads((run / "result.json").read_text())
    metrics, baselines = result["metrics"], result["baselines"]
    assert metrics["test/correction_f1"] > (0.8 if "RNN" in run.parent.name else 0.2)
    assert metrics["test/detection_f1"] >= metrics["test/correction_f1"]
    assert set(baselines) == {"nothing changed", "dictionary"}
    assert baselines["nothing changed"]["test/correction_recall"] == 0
    assert baselines["nothing changed"]["test/accuracy"] == pytest.approx(0.25, abs=0.06)
    assert baselines["dictionary"]["test/correction_f1"] > 0.3


def test_a_bundle_answers_raw_texts(run: Path) -> None:
    session = pdl.runtime.load(run / "model.pdl")
    text = " thi room  was dull \U0001f600e\u0301 ."
    answer = session(text)
    assert len(answer["corrected"]) == len(text)
    assert all(text[each["start"] : each["end"]] == each["from"] for each in answer["changes"])
    made = list(text)
    for each in answer["changes"]:
        made[each["start"]] = each["to"]
        assert each["score"] >= 0.5
    assert "".join(made) == answer["corrected"]
    if "RNN" in run.parent.name:
        assert " the room  was" in answer["corrected"]
    long = "the room was lovely . " * 9 + "thi end"
    assert session(long)["corrected"].endswith("thi end")  # max_length characters are read, the others stay
    with pytest.raises(DataError, match="has no tokens"):
        session("  ")


def test_the_bundle_says_what_the_run_measured(run: Path) -> None:
    before = json.loads((run / "result.json").read_text())["metrics"]
    for what in (run, run / "model.pdl"):
        found = workflow.evaluate(what, split="test")
        for name in ("test/correction_f1", "test/character_detection_f1", "test/accuracy"):
            np.testing.assert_allclose(found.metrics[name], before[name], atol=1e-6)
    data, session = CorrectionFile(run.parent / "test.tsv"), pdl.runtime.load(run / "model.pdl")
    right = [session(each["text"])["corrected"] == each["right"] for each in (data[i] for i in range(len(data)))]
    assert np.mean(right) == pytest.approx(before["test/accuracy"], abs=1e-6)


def test_files_of_texts_and_of_answers(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "in.txt").write_text("thi room was dull .\nthe plot was dull .\n")
    monkeypatch.chdir(tmp_path)
    assert main(["predict", str(run), "in.txt", "--out", "out.csv"]) == 0
    with Path("out.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [len(row["corrected"]) for row in rows] == [19, 19]
    assert all((row["changes"] != "") == (row["corrected"] != row["text"]) for row in rows)


def test_the_report_has_counts_and_mistakes(run: Path) -> None:
    page = (run / "report.html").read_text()
    assert "Corrections (test)" in page
    assert "false alarms" in page
    shown = highlighted(list("<abc"), list("<abd"), list("<xbd"))
    assert shown.startswith("&lt;<span")
    assert shown.count("rgba") == 2
    assert "rgba(150,110,0,0.4)" in shown
    assert "rgba(0,140,60,0.3)" in shown


@pytest.mark.parametrize("kind", KINDS)
def test_padding_changes_nothing_and_every_weight_learns(kind: str) -> None:
    pdl.seed(0)
    small: dict[str, Any] = {"dim": 8, "hidden": 6, "dropout": 0.0}
    model = (
        RNNCorrector(30, **small, ngrams=3, buckets=97)
        if kind == "RNNCorrector"
        else BERTCorrector(30, layers=1, heads=2, **small)
    )
    tokens = np.array([[3, 4, 5, 6, 7], [8, 9, 0, 0, 0]])
    whole = [each.detach().numpy() for each in model.eval()(pdl.as_tensor(tokens))]
    wider = [each.detach().numpy() for each in model(pdl.as_tensor(np.pad(tokens, ((0, 0), (0, 4)))))]
    for a, b in zip(whole, wider, strict=True):
        np.testing.assert_allclose(a[0], b[0, :5], atol=1e-5)
        np.testing.assert_allclose(a[1, :2], b[1, :2], atol=1e-5)
    right = np.where(tokens > 0, np.where(tokens % 2 == 0, tokens, 11), -1)
    Correction().step(model.train(), {"tokens": tokens, "right": right}).value.backward()
    assert [name for name, p in model.named_parameters() if p.grad is None] == []


def test_the_loss_by_hand() -> None:
    scores, detect = np.random.default_rng(0).standard_normal((1, 3, 5)), np.array([[0.3, -1.0, 2.0]])
    tokens, right = np.array([[2, 3, 0]]), np.array([[2, 4, -1]])
    given = (pdl.tensor(scores.astype(np.float32)), pdl.tensor(detect.astype(np.float32)))
    losses, real = Correction()._losses(given[0], given[1], pdl.as_tensor(tokens), pdl.as_tensor(right))
    g = 1 / (1 + np.exp(-detect[0]))
    p = np.exp(scores[0, 1]) / np.exp(scores[0, 1]).sum()
    np.testing.assert_allclose(losses.numpy()[0], [-np.log(1 - g[0]), -np.log(g[1] * p[4]), 0], atol=1e-5)
    assert real.numpy().tolist() == [[1, 1, 0]]


def test_numbers_of_wrong_and_right(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("a x\ta y\nzb\tab\n")
    tokenizer = Characters(["[PAD]", "[UNK]", *"abxy"], special={"pad": "[PAD]", "unknown": "[UNK]"})
    batch = Mistakes(CorrectionFile(tmp_path / "a.tsv"), tokenizer, 9).get_batch(np.array([0, 1]))
    assert batch["tokens"].tolist() == [[2, 4], [1, 3]]
    assert batch["right"].tolist() == [[2, 5], [2, 3]]


def test_check_finds_faults(tmp_path: Path) -> None:
    tree = recipe(tmp_path)
    first = (tmp_path / "train.tsv").read_text().splitlines()[0]
    right = first.partition("\t")[2]
    (tmp_path / "test.tsv").write_text(f"{right}\t{right}\n \t \n{'é' * 90}\t{'é' * 90}\n")
    faults = Correction(max_length=80).check(Recipe(from_dict(tree)))
    said = "\n".join(f"{each.split}: {each.what} {each.line}" for each in faults)
    assert "test: an empty text 2" in said
    assert "test: no text has a mistake" in said
    assert "test: 1 of 3 right texts are in train, too" in said
    assert "of the tokens are unknown" in said
    assert "have more than 80 tokens" in said
    assert not [each for each in faults if each.split == "train"]


@pytest.mark.parametrize("folder", [True, False])
def test_init_writes_a_recipe_that_is_accepted(folder: bool, tmp_path: Path) -> None:
    data = tmp_path / "data"
    for split in ("train", "dev"):
        CorrectionFile.stand_in(data, {"path": f"{split}.tsv"})
    data = data if folder else data / "train.tsv"
    assert main(["init", "nlp.correction", "--data", str(data), "--out", str(tmp_path / "made.yaml")]) == 0
    found = Recipe(load(tmp_path / "made.yaml"))
    assert set(found.data.splits) == ({"train", "val"} if folder else {"train", "val", "test"})


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    tree = recipe(tmp_path)
    tree["model"] = {"_target_": "pdl_nlp.TextCNN", "num_classes": 2}
    with pytest.raises(ConfigError, match=r"TextCNN is no pdl_nlp\.CorrectionModel"):
        workflow.train(from_dict(tree), run=tmp_path / "run")
    tree = recipe(tmp_path)
    (tmp_path / "train.csv").write_text("text,label\na,b\n")
    tree["data"]["train"] = {"_target_": "pdl_nlp.data.TextFile", "path": str(tmp_path / "train.csv")}
    with pytest.raises(DataError, match="TextFile has no right texts"):
        workflow.train(from_dict(tree), run=tmp_path / "run")
