"""Vectors of texts by contrast: loss, metric, baselines, and the whole way from pairs to a bundle that searches."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import pdl
from pdl import workflow
from pdl.cli import main
from pdl.config import from_dict, load
from pdl.errors import ConfigError, DataError
from pdl.train import Recipe
from pdl_nlp.data import TextFile, standin
from pdl_nlp.embedding.baselines import bm25
from pdl_nlp.embedding.loader import Pairs
from pdl_nlp.embedding.losses import cosent, info_nce
from pdl_nlp.embedding.metrics import Scored, Spearman
from pdl_nlp.tokenizers import BERT, Words


def test_the_loss_is_that_of_finding_the_partner() -> None:
    rng = np.random.default_rng(0)
    a, b = (each / np.linalg.norm(each, axis=1, keepdims=True) for each in rng.standard_normal((2, 5, 7)))
    scores = a @ b.T / 0.1
    own = np.diag(scores)
    expected = np.mean([*(np.log(np.exp(scores).sum(1)) - own), *(np.log(np.exp(scores).sum(0)) - own)])
    assert float(info_nce(pdl.tensor(a), pdl.tensor(b), 0.1).item()) == pytest.approx(expected)


def test_cosines_in_another_order_than_their_scores_cost() -> None:
    rng = np.random.default_rng(0)
    cosines, scores = rng.uniform(-1, 1, 7), np.array([0.0, 3, 1, 1, 5, 2, 4])
    wrong = [np.exp((cosines[j] - cosines[i]) / 0.1) for i in range(7) for j in range(7) if scores[i] > scores[j]]
    found = cosent(pdl.tensor(cosines), pdl.tensor(scores), 0.1)
    assert float(found.item()) == pytest.approx(np.log(1 + np.sum(wrong)))
    assert float(cosent(pdl.tensor(cosines), pdl.tensor(np.ones(7)), 0.1).item()) == 0.0


def test_spearman_is_that_of_scipy() -> None:
    rng = np.random.default_rng(1)
    likeness, scores = rng.standard_normal(60).round(1), rng.integers(0, 6, 60).astype(float)
    metric = Spearman()
    metric.update(likeness[:20], scores[:20])
    metric.update(likeness[20:], scores[20:])
    assert metric.compute() == pytest.approx(stats.spearmanr(likeness, scores).statistic)
    constant = Spearman()
    constant.update(np.ones(3), np.arange(3))
    assert np.isnan(constant.compute())
    assert np.isnan(Spearman().compute())


def test_bm25_by_hand() -> None:
    tokenizer = Words([BERT["pad"], BERT["unknown"], "a", "b", "c"], special={"pad": "[PAD]", "unknown": "[UNK]"})
    known = ["a b", "a c c c", "a"]
    found = bm25(tokenizer, known, ["b c c"], ["c c b"])
    mean, k1, b = 7 / 3, 1.2, 0.75
    idf = np.log(1 + (3 - 1 + 0.5) / (1 + 0.5))  # b and c are in one text each
    room = k1 * (1 - b + b * 3 / mean)
    assert found[0] == pytest.approx(idf * 1 * (k1 + 1) / (1 + room) + 2 * idf * 2 * (k1 + 1) / (2 + room))


def pairs(folder: Path, name: str) -> Path:
    """A text, another one, and how alike they are: itself without a word 5, others 0."""
    rng = np.random.default_rng(len(name))
    texts = [text for text, _ in standin.draw(name, 160)]
    lines = []
    for number, text in enumerate(texts):
        words = text.split()
        other = " ".join(words[int(rng.integers(0, 2)) :])
        same = number % 2
        lines.append(f"{text}\t{other if same else texts[number - 7]}\t{5 * same}")
    return standin.write(folder / f"{name}.tsv", lines)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pairs")
    workflow.train(from_dict(recipe(folder)), run=folder / "run")
    return folder / "run"


def recipe(folder: Path, **task: Any) -> dict[str, Any]:
    common = {"_target_": "pdl_nlp.data.TextFile", "columns": ["text", "pair", "label"], "pair": "pair"}
    return {
        "task": {"_target_": "pdl_nlp.Embedding", "max_length": 24, **task},
        "model": {"_target_": "pdl_nlp.SentenceEncoder", "dim": 24, "layers": 1, "heads": 2, "dropout": 0.0},
        "data": {
            **{split: {**common, "path": str(pairs(folder, split))} for split in ("train", "val", "test")},
            "batch_size": 16,
        },
        "optim": {"_target_": "pdl.optim.AdamW", "lr": 0.005},
        "train": {"epochs": 3},
    }


def test_it_learns_and_is_compared(run: Path) -> None:
    result = json.loads((run / "result.json").read_text())
    assert result["metrics"]["test/spearman"] > 0.6
    assert {"TF-IDF", "BM25"} == result["baselines"].keys()
    assert all(each["test/spearman"] > 0.5 for each in result["baselines"].values())


def test_a_bundle_gives_vectors_and_searches(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session = pdl.runtime.load(run / "model.pdl")
    vector = np.array(session("the room was LOVELY .")["vector"])
    assert vector.shape == (24,)
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-5)
    (tmp_path / "lines.txt").write_text("the plot was dull .\nthe room was quite lovely .\nthe book was sharp .\n")
    assert (
        main(
            [
                "predict",
                str(run / "model.pdl"),
                "the room was lovely .",
                "--search",
                str(tmp_path / "lines.txt"),
                "--json",
            ]
        )
        == 0
    )
    (answer,) = json.loads(capsys.readouterr().out)
    assert [each["place"].rpartition(":")[2] for each in answer["found"]][:1] == ["2"]


def test_onnx_gives_the_same_vectors_of_any_number_of_texts_of_any_length(run: Path, tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    workflow.export(run, tmp_path / "net.onnx", to="onnx")
    theirs = onnxruntime.InferenceSession(tmp_path / "net.onnx", providers=["CPUExecutionProvider"])
    ours = pdl.runtime.load(run / "model.pdl")
    rng = np.random.default_rng(0)
    for count, length in ((1, 1), (1, 7), (5, 3), (3, 24)):
        tokens = rng.integers(2, 30, (count, length))
        tokens[0, max(1, length // 2) :] = 0
        (expected,) = theirs.run(None, {"tokens": tokens})
        np.testing.assert_allclose(ours.run({"tokens": tokens})["vector"], expected, atol=1e-4)


def test_on_bytes_vectors_are_nearly_the_same(run: Path, tmp_path: Path) -> None:
    made = workflow.compress(run, tmp_path / "small.pdl", samples=64)
    assert made.products == (4, 4)
    (measured,) = (each for each in made.metrics if each.name == "spearman")
    assert measured.after == pytest.approx(measured.before, abs=0.02)
    for text in ("the room was lovely .", "dull"):
        a, b = (np.array(pdl.runtime.load(file)(text)["vector"]) for file in (run / "model.pdl", made.path))
        assert a @ b > 0.99


def test_the_report_shows_pairs_and_neighbours(run: Path) -> None:
    page = (run / "report.html").read_text()
    for said in (
        "Cosines and scores (test)",
        "Tokens of a pair (test)",
        "Pairs that are furthest off",
        "Nearest texts",
    ):
        assert said in page
    data = TextFile(run.parent / "test.tsv", columns=["text", "pair", "label"], pair="pair")
    neighbours = page[page.index("Nearest texts") :]
    assert data.texts[0] in neighbours
    assert sum(text in neighbours for text in set(data.pairs or ())) >= 3


def test_pairs_are_those_of_the_data(tmp_path: Path) -> None:
    data = TextFile(pairs(tmp_path, "train"), columns=["text", "pair", "label"], pair="pair")
    kept = Pairs(data, Words([*BERT.values(), "the"], special=BERT), 24, positive=5)
    assert kept.get_batch(np.array([0, 3]))["index"].tolist() == [1, 7]
    metric = Scored()
    metric.update(np.array([0.5, -0.5]), np.array([5.0, 5.0]), np.array([1, 7]))
    assert metric.compute().tolist() == [[0.5, 5, 1], [-0.5, 5, 7]]
    assert Scored().compute().shape == (0, 3)


def test_init_finds_texts_and_scores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [f"the first text {n},a second text {n % 9},{n % 11 / 2}" for n in range(60)]
    (tmp_path / "pairs.csv").write_text("sentence1,sentence2,score\n" + "\n".join(rows) + "\n")
    assert main(["init", "nlp.embedding", "--data", "pairs.csv", "--out", "mine.yaml"]) == 0
    found = Recipe(load("mine.yaml"))
    assert found.task.build().positive == 4
    opened = found.data.datasets(["train", "val", "test"])
    assert sum(map(len, opened.values())) == 60
    assert opened["train"].pairs[0].startswith("a second text")
    text = (tmp_path / "pairs.csv").read_text().replace("0.5", "high")
    (tmp_path / "pairs.csv").write_text(text)
    capsys.readouterr()
    assert main(["init", "nlp.embedding", "--data", "pairs.csv", "--out", "other.yaml"]) != 0
    assert "score 'high' is no number" in " ".join(capsys.readouterr().err.split())


def test_training_takes_the_pairs_that_mean_the_same(tmp_path: Path) -> None:
    data = TextFile(pairs(tmp_path, "train"), columns=["text", "pair", "label"], pair="pair")
    tokenizer = Words([*BERT.values(), "the"], special=BERT)
    kept = Pairs(data, tokenizer, 24, positive=5)
    assert len(kept) == len(data) // 2
    assert (kept.scores == 5).all()
    batch = kept.get_batch(np.array([0, 3]))
    assert batch["tokens"].shape == batch["pair"].shape
    assert kept.path_of(0) == data.path_of(1)
    with pytest.raises(DataError, match="no pair has a score of 6 or more"):
        Pairs(data, tokenizer, 24, positive=6)


def test_all_scores_teach_too(tmp_path: Path) -> None:
    tree = recipe(tmp_path)
    tree["task"]["loss"] = "cosent"
    workflow.train(from_dict(tree), run=tmp_path / "run")
    assert json.loads((tmp_path / "run/result.json").read_text())["metrics"]["test/spearman"] > 0.6
    tree["task"]["positive"] = 5
    with pytest.raises(ConfigError, match="loss=cosent learns from all scores"):
        workflow.train(from_dict(tree), run=tmp_path / "other")


def test_faults(tmp_path: Path) -> None:
    tree = recipe(tmp_path)
    (tmp_path / "val.tsv").write_text("a\tb\thigh\n")
    with pytest.raises(DataError, match=r"val.tsv.*score 'high' is no number"):
        workflow.train(from_dict(tree), run=tmp_path / "score")
    tree = recipe(tmp_path)
    tree["model"]["normalised"] = False
    with pytest.raises(ConfigError, match="contrast is of vectors of length 1"):
        workflow.train(from_dict(tree), run=tmp_path / "length")
    tree = recipe(tmp_path)
    for split in ("train", "val", "test"):
        tree["data"][split]["columns"] = ["text", "other", "label"]
        del tree["data"][split]["pair"]
    with pytest.raises(DataError, match="needs pairs of texts"):
        workflow.train(from_dict(tree), run=tmp_path / "single")


def test_it_answers_with_the_nearest_line(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = tmp_path / "lines.txt"
    lines.write_text("the plot was dull .\nthe room was quite lovely .\nthe book was sharp .\n")
    said = ["chat", str(run / "model.pdl"), "the room was lovely ."]
    assert main([*said, "--search", str(lines)]) == 0
    assert capsys.readouterr().out == "the room was quite lovely .\n"
    assert main(said) == 2
    assert "finds the best of other texts: --search FILE" in capsys.readouterr().err
