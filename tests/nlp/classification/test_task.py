"""The whole way of a classifier of texts: training, bundle, answers, report; one class and several."""

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
from pdl_nlp import BoW, TextClassification
from pdl_nlp.classification.report import highlighted, without_each
from pdl_nlp.data import TextFile, standin


def recipe(folder: Path, **changes: Any) -> dict[str, Any]:
    """A bag of words on sentences of the grammar; dotted keys change it."""
    several = changes.pop("several", None)
    for split in ("train", "val", "test"):
        settings = {
            "path": f"{split}.csv",
            **({"several": "|", "classes": ["bad", "good", "plain"]} if several else {}),
        }
        standin.write_file(folder, settings)
    more = {"several": "|"} if several else {}
    tree: dict[str, Any] = {
        "task": {"_target_": "pdl_nlp.TextClassification", "mistakes": 3},
        "model": {"_target_": "pdl_nlp.BoW", "dim": 16, "dropout": 0.0},
        "data": {
            **{split: {"_target_": "pdl_nlp.data.TextFile", "path": str(folder / f"{split}.csv"), **more}
               for split in ("train", "val", "test")},
            "batch_size": 16,
        },
        "optim": {"_target_": "pdl.optim.Adam", "lr": 0.05},
        "train": {"epochs": 3, **({"monitor": "val/f1"} if several else {})},
    }  # fmt: skip
    for key, value in changes.items():
        part, _, name = key.partition("__")
        tree[part][name] = value
    return tree


@pytest.fixture(scope="module", params=[False, True], ids=["one class", "several"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("several" if request.param else "one")
    workflow.train(from_dict(recipe(folder, several=request.param)), run=folder / "run")
    return folder / "run"


def several(run: Path) -> bool:
    return run.parent.name.startswith("several")


def test_it_learns_and_beats_the_majority(run: Path) -> None:
    result = json.loads((run / "result.json").read_text())
    name = "test/f1" if several(run) else "test/accuracy"
    assert result["metrics"][name] > 0.9
    majority, regression = (result["baselines"][key] for key in ("majority", "logistic regression on TF-IDF"))
    assert regression[name] > 0.9 > majority[name]


def test_a_bundle_answers_raw_texts(run: Path) -> None:
    session = pdl.runtime.load(run / "model.pdl")
    good, bad = session("the room was really lovely ."), session("THE room was really dreadful .")
    if several(run):
        said = [{each["label"] for each in answer["labels"]} for answer in (good, bad)]
        assert [each & {"good", "bad"} for each in said] == [{"good"}, {"bad"}]
    else:
        assert (good["label"], bad["label"]) == ("positive", "negative")
        assert good["score"] > 0.9
    with pytest.raises(DataError, match="has no tokens"):
        session("  ")
    assert (run / "vocabularies/tokens.txt").read_text().splitlines()[:2] == ["[PAD]", "[UNK]"]


def test_files_of_texts_and_of_answers(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "in.csv").write_text('id,text\n1,"lovely, ""superb"" room"\n2,dull\n')
    (tmp_path / "in.tsv").write_text('text\tid\nlovely "superb" room\t1\n')
    monkeypatch.chdir(tmp_path)
    assert main(["predict", str(run), "in.csv", "--out", "out.csv"]) == 0
    with Path("out.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["rank"] == "1"]
    assert [row["label"] for row in rows] == (["good", "bad"] if several(run) else ["positive", "negative"])
    assert main(["predict", str(run / "model.pdl"), "in.tsv", "--json"]) == 0


def test_the_report_colours_tokens(run: Path) -> None:
    page = (run / "report.html").read_text()
    assert "Tokens of a text (test)" in page
    assert "<script>" not in page.partition("Tokens of a text")[2].partition("</section>")[0]
    result = json.loads((run / "result.json").read_text())
    wrong = result["metrics"]["test/exact" if several(run) else "test/accuracy"] < 1
    assert ("Worst mistakes" in page) == wrong
    assert ("rgba(" in page) >= wrong


def test_what_mattered_is_the_change_without_a_token() -> None:
    pdl.seed(0)
    model = BoW(9, 2, dim=4, dropout=0.0)
    model.head.bias.data[:] = 0
    model.embed.weight.data[1:] = 0
    model.embed.weight.data[5] = model.head.weight.data[:, 1] - model.head.weight.data[:, 0]
    logits, changes = without_each(model, np.array([3, 5, 3]), unknown=1)
    assert logits[1] > logits[0]
    np.testing.assert_allclose(changes[[0, 2]], 0, atol=1e-6)
    odds = logits[1] - logits[0]
    np.testing.assert_allclose(changes[1], [-odds, odds], rtol=1e-4)
    assert without_each(model, np.array([], np.int64), unknown=1)[1].shape == (0, 2)
    shown = highlighted("a <b> c", np.array([[0, 1], [2, 5]]), np.array([-1.0, 0.5]))
    red, green = (f'<span style="background:rgba({each})">' for each in ("200,30,30,0.6", "0,140,60,0.3"))
    assert shown == f"{red}a</span> {green}&lt;b&gt;</span> c"


def test_a_run_is_evaluated_without_its_training_data(run: Path, tmp_path: Path) -> None:
    before = json.loads((run / "result.json").read_text())["metrics"]
    (run.parent / "train.csv").rename(run.parent / "gone.csv")
    try:
        found = workflow.evaluate(run, split="test")
    finally:
        (run.parent / "gone.csv").rename(run.parent / "train.csv")
    name = "test/f1" if several(run) else "test/accuracy"
    np.testing.assert_allclose(found.metrics[name], before[name], atol=1e-6)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"model__num_classes": 3}, ConfigError, "model.num_classes=3, but the data has 2"),
        ({"model__vocab_size": 7}, ConfigError, "model.vocab_size=7, but the data has "),
        ({"task__several": True}, ConfigError, r"data\.train: texts have one of the classes, not any number"),
        ({"task__classes": ["negative"]}, DataError, r"the data has 1 classes \(negative\)"),
        ({"several": True, "task__class_weights": "balanced"}, ConfigError, "class_weights, focal_gamma and"),
        ({"data__balanced": True}, ConfigError, r"data\.balanced: texts are batched by length"),
    ],
    ids=str,
)
def test_settings_that_do_not_fit(changes: dict[str, Any], error: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(error, match=message):
        workflow.train(from_dict(recipe(tmp_path, **changes)), run=tmp_path / "run")


# -- check -------------------------------------------------------------------------------------------------------------
def test_check_finds_what_is_wrong(tmp_path: Path) -> None:
    tree = recipe(tmp_path, task__min_count=2, task__max_length=4)
    with (tmp_path / "train.csv").open("a") as file:
        file.write("negative,\nnegative,twice here\npositive,twice here\n")
    with (tmp_path / "test.csv").open("a") as file:
        file.write(
            "neutral,another\nnegative,twice here\n" + "".join(f"negative,zz{i} qq{i} xx{i}\n" for i in range(60))
        )
    found = [str(fault) for fault in TextClassification(min_count=2, max_length=4).check(Recipe(load_of(tree)))]
    for part in (
        "train.csv:242 (index 240): an empty text; take it out",
        "the same text is there 2 times, with the classes negative, positive; decide for one",
        "[test]: classes that training does not have: neutral",
        "texts are in train, too; the first is that of ",
        "of the tokens are unknown (a vocabulary of ",
        "of the texts have more than 4 tokens, the rest of them is cut (50%: ",
    ):
        assert any(part in each for each in found), (part, found)


def test_check_says_what_cannot_be_read(tmp_path: Path) -> None:
    tree = recipe(tmp_path)
    (tmp_path / "val.csv").write_bytes("label,text\nnegative,酒店\n".encode("gb18030"))
    found = [str(fault) for fault in TextClassification().check(Recipe(load_of(tree)))]
    assert any("val.csv:2: not UTF-8 text" in each for each in found)


def load_of(tree: dict[str, Any]) -> Any:
    from pdl.train.recipe import check

    return check(tree)


# -- init --------------------------------------------------------------------------------------------------------------
GIVEN: dict[str, Any] = {
    "a table": {"path": "data.csv", "text": "Review", "label": "stars"},
    "unusual names": {"path": "data.tsv", "text": "what", "label": "how"},
    "JSON": {"path": "data.jsonl", "text": "sentence"},
    "no header": {"path": "data.txt", "columns": ["label", "text"]},
    "text first": {"path": "data.tsv", "columns": ["text", "label"]},
    "packed": {"path": "data.csv.gz"},
    "a column of splits": {"path": "data.csv", "split_column": "split"},
}


@pytest.mark.parametrize("name", GIVEN)
def test_init_understands_a_file(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = standin.write_file(tmp_path, GIVEN[name])
    assert understood(path, tmp_path, monkeypatch) == 240


def test_init_understands_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for split in ("train", "test"):
        standin.write_folders(tmp_path / "classes", {"split": split})
    standin.write_folders(tmp_path / "whole", {})
    for split in ("train", "dev", "test"):
        standin.write_file(tmp_path / "files", {"path": f"{split}.tsv"})
    assert understood(tmp_path / "classes", tmp_path, monkeypatch) == 480
    assert understood(tmp_path / "whole", tmp_path, monkeypatch) == 240
    assert understood(tmp_path / "files", tmp_path, monkeypatch) == 720


def understood(data: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many texts the recipe has that `pdl init` writes for this data; each split must hold good and bad ones."""
    monkeypatch.chdir(folder)
    Path("mine.yaml").unlink(missing_ok=True)
    assert main(["init", "nlp.classification", "--data", str(data), "--out", "mine.yaml"]) == 0
    assert len(Path("mine.yaml").read_text().splitlines()) < 40
    opened = Recipe(load("mine.yaml")).data.datasets(["train", "val", "test"])
    for data_set in opened.values():
        assert isinstance(data_set, TextFile) or type(data_set).__name__ == "TextFolder"
        assert data_set.classes == ["negative", "positive"]
        assert all(" was " in text for text in data_set.texts)
    return sum(map(len, opened.values()))


def test_init_reads_chinese_by_character(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"{'好' if i % 2 else '坏'}\t这家酒店的房间{'很好' if i % 2 else '太吵'}。第{i}次来\n" for i in range(60)]
    (tmp_path / "a.txt").write_text("".join(lines), encoding="utf-16")
    monkeypatch.chdir(tmp_path)
    assert main(["init", "nlp.classification", "--data", "a.txt", "--out", "mine.yaml"]) == 0
    assert "tokenizer: characters" in Path("mine.yaml").read_text()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("label,text\n" + "a,x\n" * 5, "texts for training; at least 20 are needed"),
        ("text,other\n" + "".join(f"a{i},b{i}\n" for i in range(50)), "no column of classes beside"),
        ("alone\n" * 30, "its lines have no columns"),
        ("label,text\n", "has no rows"),
    ],
)
def test_init_says_what_is_missing(
    text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.csv").write_text(text)
    monkeypatch.chdir(tmp_path)
    assert main(["init", "nlp.classification", "--data", "a.csv", "--out", "mine.yaml"]) != 0
    assert message in " ".join(capsys.readouterr().err.split())
