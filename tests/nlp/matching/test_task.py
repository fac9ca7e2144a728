"""The whole way of pairs of texts: training, bundle, answers, report; classes and rankings, siamese, cross and joint
nets."""

from __future__ import annotations

import csv
import json
import shlex
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
from pdl.train.recipe import check
from pdl_nlp import Matching
from pdl_nlp.data import TextFile, standin
from pdl_nlp.matching.loader import Pairs, QueryBatchSampler
from pdl_nlp.tokenizers import BERT, Words
from tests.nlp.classification.test_encoders import checkpoint  # noqa: F401  # a fixture

SPLITS = ("train", "val", "test")
NETS: dict[str, dict[str, Any]] = {
    "siamese": {"_target_": "pdl_nlp.SimNet", "dim": 16, "hidden": 16, "dropout": 0.0},
    "cross": {"_target_": "pdl_nlp.ESIM", "dim": 12, "hidden": 12, "dropout": 0.0},
    "joint": {"_target_": "pdl_nlp.BERTClassifier", "dim": 16, "layers": 1, "heads": 2, "dropout": 0.0},
}


def write_pairs(folder: Path, name: str, *, ranked: bool, second: bool = False) -> Path:
    """Opinions, and whether another one judges as they do (with `second`, whether that one is good); or 5 candidates of
    each, those that do relevant."""
    drawn, count = list(standin.draw(name, 240)), 600 if name == "train" else 100
    rows = ["query,candidate,said"]
    for number in range(count // (5 if ranked else 1)):
        text, label = drawn[number % len(drawn)]
        for step in range(1, 6 if ranked else 2):
            other, theirs = drawn[(number * 7 + step * 31 + number // len(drawn)) % len(drawn)]
            same = theirs == 1 if second else label == theirs
            rows.append(f'"{text}","{other}",{int(same) if ranked else "same" if same else "other"}')
    return standin.write(folder / f"{name}.csv", rows)


def recipe(folder: Path, net: str, loss: str = "classes", **task: Any) -> dict[str, Any]:
    data = {"_target_": "pdl_nlp.data.TextFile", "text": "query", "pair": "candidate", "label": "said"}
    made = {"ranked": loss != "classes", "second": net != "siamese"}
    paths = {split: str(write_pairs(folder, split, **made)) for split in SPLITS}
    return {
        "task": {"_target_": "pdl_nlp.Matching", "loss": loss, "mistakes": 3, "max_length": 48, **task},
        "model": NETS[net],
        "data": {**{split: {**data, "path": paths[split]} for split in SPLITS}, "batch_size": 20},
        "optim": {"_target_": "pdl.optim.Adam", "lr": 0.01},
        "train": {"epochs": 8, "monitor": "val/mrr" if loss != "classes" else "val/accuracy"},
    }


@pytest.fixture(scope="module", params=["siamese classes", "cross softmax", "joint classes"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp(request.param.replace(" ", "_"))
    workflow.train(from_dict(recipe(folder, *request.param.split())), run=folder / "run")
    return folder / "run"


def ranked(run: Path) -> bool:
    return "softmax" in run.parent.name


def test_it_learns_and_is_compared(run: Path) -> None:
    result = json.loads((run / "result.json").read_text())
    if ranked(run):
        assert {"TF-IDF", "BM25"} == result["baselines"].keys()
        assert result["metrics"]["test/mrr"] > 0.9 > result["baselines"]["BM25"]["test/mrr"]
        assert {"test/map", "test/ndcg@3", "test/ndcg@10", "test/p@1"} <= result["metrics"].keys()
    else:
        assert {"majority", "logistic regression on shared words"} == result["baselines"].keys()
        assert result["metrics"]["test/accuracy"] > 0.8 > result["baselines"]["majority"]["test/accuracy"]


PAIRS = [["the room was lovely .", "the film was superb ."], ["the room was lovely .", "the film was quite dull ."]]


def test_a_bundle_answers_two_texts(run: Path) -> None:
    session = pdl.runtime.load(run / "model.pdl")
    same, other = (session(pair) for pair in PAIRS)
    if ranked(run):
        assert same["score"] > other["score"]
    else:
        assert (same["label"], other["label"]) == ("same", "other")
    row = {"query": PAIRS[0][0], "candidate": PAIRS[0][1]}
    for item in ("\t".join(PAIRS[0]), row, json.dumps(row)):
        assert session(item) == same
    with pytest.raises(DataError, match="is one text; the model reads two, with a tab between them"):
        session("the room was lovely .")
    if "joint" not in run.parent.name:
        with pytest.raises(DataError, match="has no tokens"):
            session(["the room", " "])


def test_a_bundle_gives_what_the_model_gives(run: Path) -> None:
    """In batches with longer texts, and alone."""
    trained = workflow.Run.open(run)
    session = pdl.runtime.load(run / "model.pdl")
    found = workflow.evaluate(trained.path, split="test")
    bundled = workflow.evaluate(run / "model.pdl", split="test")
    name = "test/mrr" if ranked(run) else "test/accuracy"
    assert bundled.metrics[name] == pytest.approx(found.metrics[name], abs=1e-6)
    together = [session(pair) for pair in [*PAIRS, ["a", " ".join(["the film was quite dull"] * 5)]]]
    for pair, answer in zip(PAIRS, together, strict=False):
        for key, value in session(pair).items():
            assert value == (pytest.approx(answer[key], abs=1e-5) if isinstance(value, float) else answer[key])


def test_files_of_pairs(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [",".join(f'"{text}"' for text in pair) for pair in PAIRS]
    (tmp_path / "in.csv").write_text("\n".join(["query,candidate", *lines]) + "\n")
    monkeypatch.chdir(tmp_path)
    assert main(["predict", str(run), "in.csv", "--out", "out.csv"]) == 0
    with Path("out.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    if ranked(run):
        assert float(rows[0]["score"]) > float(rows[1]["score"])
    else:
        assert [row["label"] for row in rows if row["rank"] == "1"] == ["same", "other"]
    next_one = json.loads((run / "result.json").read_text())["next"]
    assert main(["predict", str(run), shlex.split(next_one)[-1]]) == 0


def test_candidates_are_searched(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if not ranked(run):
        assert main(["predict", str(run / "model.pdl"), "a text", "--search", "x.txt"]) != 0
        assert "--search" in capsys.readouterr().err
        return
    (tmp_path / "lines.txt").write_text("the film was dull .\n\nthe film was superb .\n \nthe plot was rude .\n")
    for query in ("the room was lovely .", "the room was lovely .\tthe plot was dull ."):
        words = [
            "predict",
            str(run / "model.pdl"),
            query,
            "--search",
            str(tmp_path / "lines.txt"),
            "--topk",
            "2",
            "--json",
        ]
        assert main(words) == 0
        (answer,) = json.loads(capsys.readouterr().out)
        first, second = answer["found"]
        assert (first["place"].rpartition(":")[2], first["text"]) == ("3", "the film was superb .")
        score = pdl.runtime.load(run / "model.pdl")(["the room was lovely .", second["text"]])["score"]
        assert second["score"] == pytest.approx(score, abs=1e-5)
        assert first["score"] > second["score"]


def test_the_report_shows_both_texts(run: Path) -> None:
    page = (run / "report.html").read_text()
    assert "Tokens of a pair (test)" in page
    result = json.loads((run / "result.json").read_text())["metrics"]
    wrong = result["test/p@1" if ranked(run) else "test/accuracy"] < 1
    assert ("Worst mistakes" in page) == wrong


def test_vectors_of_words_are_where_training_begins(tmp_path: Path) -> None:
    (tmp_path / "words.vec").write_text("lovely 1 2 3\nunseen 4 5 6\n")
    tree = recipe(tmp_path, "cross", vectors=str(tmp_path / "words.vec"))
    tree["model"]["dim"] = 3
    given = Recipe(check(tree))
    task: Any = given.task.build()
    task.prepare(given, given.data.datasets(["train"]))
    model: Any = task.model(given)
    rows = [task.tokenizer.number(word) for word in ("lovely", "unseen")]
    found = model.embed.weight.data[rows]
    np.testing.assert_allclose(found / found[0, 0], [[1, 2, 3], [4, 5, 6]], rtol=1e-5)  # all by one factor


def test_a_run_without_test_data_is_exported(tmp_path: Path) -> None:
    tree = recipe(tmp_path, "siamese")
    del tree["data"]["test"]
    tree["train"] = {"epochs": 1}
    workflow.train(from_dict(tree), run=tmp_path / "run")
    assert main(["export", str(tmp_path / "run"), "--out", str(tmp_path / "made.pdl")]) == 0
    assert pdl.runtime.load(tmp_path / "made.pdl")(PAIRS[0])["label"] in ("same", "other")


def test_a_checkpoint_reads_both_texts(checkpoint: Path, tmp_path: Path) -> None:  # noqa: F811
    """Its tokenizer, its sizes, segments of the two texts; the bundle gives what the model gives."""
    tree = recipe(tmp_path, "joint")
    tree["model"] = {"_target_": "pdl_nlp.BERTClassifier", "pretrained": str(checkpoint)}
    tree["train"]["epochs"] = 1
    workflow.train(from_dict(tree), run=tmp_path / "run")
    trained = workflow.Run.open(tmp_path / "run").opened()
    task: Any = trained.task
    (encoding, segments), (text, pair) = task.tokenizer.encode(*PAIRS[0], max_length=48), PAIRS[0]
    assert [task.tokenizer.tokens[number] for number in encoding.ids] == [
        "[CLS]", *text.split(), "[SEP]", *pair.split(), "[SEP]"
    ]  # fmt: skip
    batch = [pdl.as_tensor(each[None].astype(np.int64)) for each in (encoding.ids, segments)]
    with pdl.no_grad():
        logits = trained.model.eval()(*batch).numpy()[0]
        other = trained.model(batch[0], batch[1] * 0).numpy()[0]
    assert np.abs(logits - other).max() > 1e-6
    answer = pdl.runtime.load(tmp_path / "run/model.pdl")(PAIRS[0])
    p = np.exp(logits) / np.exp(logits).sum()
    assert answer["score"] == pytest.approx(p[answer["class"]], abs=1e-5)


# -- batches -----------------------------------------------------------------------------------------------------------
def test_batches_hold_whole_queries(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    queries = np.repeat(np.arange(9), [3, 1, 4, 2, 12, 5, 1, 2, 3])
    lengths = rng.integers(1, 9, len(queries))
    order = rng.permutation(len(queries))
    sampler = QueryBatchSampler(queries[order], lengths[order], 6, np.array([4, 8]), shuffle=True, seed=1)
    for epoch in (0, 1):
        batches = sampler.batches(epoch)
        assert len(batches) == len(sampler)
        assert all(len(batch) % 6 == 0 for batch in batches)
        seen = [set(batch.tolist()) for batch in batches]
        assert sorted(row for each in seen for row in each) == list(range(len(queries)))
        for each in seen:
            held = queries[order][sorted(each)]
            assert all((queries == query).sum() == (held == query).sum() for query in held)
    assert [batch.tolist() for batch in sampler.batches(0)] != [batch.tolist() for batch in sampler.batches(1)]


def test_rows_that_fill_a_batch_have_no_query(tmp_path: Path) -> None:
    data = TextFile(write_pairs(tmp_path, "train", ranked=True), text="query", pair="candidate", label="said")
    pairs = Pairs(data, Words([*BERT.values(), "the"], special=BERT), 24, ranked=True)
    batch = pairs.get_batch(np.array([3, 7, 7, 7]))
    assert batch["query"].tolist() == [0, 1, -1, -1]
    assert batch["tokens"].shape == batch["pair"].shape
    assert (batch["relevance"] == [float(data.names[row]) for row in (3, 7, 7, 7)]).all()


@pytest.mark.parametrize("loss", ["binary", "hinge", "listnet"])
def test_rankings_are_learned_by_every_loss(loss: str, tmp_path: Path) -> None:
    tree = recipe(tmp_path, "siamese", loss)
    workflow.train(from_dict(tree), run=tmp_path / "run")
    assert json.loads((tmp_path / "run/result.json").read_text())["metrics"]["test/mrr"] > 0.9


# -- what is wrong -----------------------------------------------------------------------------------------------------
def test_settings_that_do_not_fit(tmp_path: Path) -> None:
    tree = recipe(tmp_path, "siamese")
    tree["model"] = {"_target_": "pdl_nlp.BoW", "dim": 4}
    with pytest.raises(ConfigError, match=r"BoW is neither a pdl_nlp\.MatchingModel nor a pdl_nlp\.BERTClassifier"):
        workflow.train(from_dict(tree), run=tmp_path / "net")
    tree = recipe(tmp_path, "siamese")
    for split in SPLITS:
        del tree["data"][split]["pair"]
    with pytest.raises(DataError, match="needs pairs of texts: name the column of the second ones"):
        workflow.train(from_dict(tree), run=tmp_path / "pair")
    with pytest.raises(ConfigError, match="classes, label_smoothing and class_weights are for loss=classes, not hinge"):
        Matching(loss="hinge", label_smoothing=0.1)
    tree = recipe(tmp_path, "siamese")
    tree["data"]["val"]["several"] = "|"
    with pytest.raises(ConfigError, match=r"data.val: pairs have any number of classes; one is needed"):
        workflow.train(from_dict(tree), run=tmp_path / "several")
    tree = recipe(tmp_path, "siamese", "hinge")
    (tmp_path / "train.csv").write_text("query,candidate,said\n" + "".join(f"a{i},b{i},{i % 2}\n" for i in range(30)))
    with pytest.raises(DataError, match="no query has candidates of different relevance"):
        workflow.train(from_dict(tree), run=tmp_path / "alone")
    tree = recipe(tmp_path, "siamese", "softmax")
    (tmp_path / "val.csv").write_text("query,candidate,said\na,b,high\n")
    with pytest.raises(DataError, match=r"val.csv.*score 'high' is no number"):
        workflow.train(from_dict(tree), run=tmp_path / "score")


def test_check_finds_what_is_wrong(tmp_path: Path) -> None:
    tree = recipe(tmp_path, "siamese", max_length=8)
    with (tmp_path / "train.csv").open("a") as file:
        file.write("lovely, ,same\ntwice,here,same\ntwice,here,other\n")
    with (tmp_path / "test.csv").open("a") as file:
        file.write("twice,here,same\na,b,unheard of\n" + "".join(f"zz{i} yy{i},xx{i} vv{i},same\n" for i in range(200)))
    found = [str(fault) for fault in Matching(max_length=8).check(Recipe(check(tree)))]
    for said in (
        "train.csv:602 (index 600): an empty text",
        "the same text is there 2 times, with the classes other, same",
        "classes that training does not have: unheard of",
        "1 of 302 texts are in train, too",
        "of the tokens are unknown",
        "of the texts have more than 8 tokens",
    ):
        assert any(said in each for each in found), (said, found)
    lists = recipe(tmp_path, "siamese", "hinge")
    (tmp_path / "val.csv").write_text("query,candidate,said\na,b,0\nc,d,1\n")
    found = [str(fault) for fault in Matching(loss="hinge").check(Recipe(check(lists)))]
    assert any("1 of 2 queries have no relevant candidate" in each for each in found)


# -- init --------------------------------------------------------------------------------------------------------------
def test_init_understands_pairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_pairs(tmp_path, "named", ranked=False)
    opened = understood("named.csv")
    assert opened.data.datasets(["train"])["train"].classes == ["other", "same"]
    rows = [line.split(",") for line in Path("named.csv").read_text().replace('" , ', '" ').splitlines()[1:]]
    Path("plain.txt").write_text(
        "".join(f"same\tthe {i} first text\tthe second\nother\tits {i}\tall\n" for i in range(40))
    )
    train = understood("plain.txt").data.datasets(["train"])["train"]
    assert train.texts[0].endswith("first text")
    assert set(train.pairs) == {"the second", "all"}
    assert len(rows) == 100
    write_pairs(tmp_path, "lists", ranked=True)
    assert understood("lists.csv").config["task"]["loss"] == "softmax"
    (tmp_path / "folder").mkdir()
    for split in ("train", "dev", "test"):
        write_pairs(tmp_path / "folder", split, ranked=False)
    assert [len(data) for data in understood("folder").data.datasets(SPLITS).values()] == [600, 100, 100]


def understood(data: str) -> Recipe:
    Path("mine.yaml").unlink(missing_ok=True)
    assert main(["init", "nlp.matching", "--data", data, "--out", "mine.yaml"]) == 0
    return Recipe(load("mine.yaml"))


def test_init_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("two.csv").write_text("text,label\n" + "".join(f"t{i},{i % 2}\n" for i in range(40)))
    assert main(["init", "nlp.matching", "--data", "two.csv", "--out", "mine.yaml"]) != 0
    assert "a pair needs two columns of texts and one of labels" in " ".join(capsys.readouterr().err.split())
