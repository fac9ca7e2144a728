"""The whole way of a net that writes: training, what it writes, bundle, report; by a Transformer, an LSTM, one
that copies, and ERNIE-GEN."""

from __future__ import annotations

import csv
import json
import math
from copy import copy
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
from pdl.train.assembly import Parts, assemble
from pdl.workflow.exporting import bundle_to_onnx
from pdl_nlp import Seq2Seq
from pdl_nlp.data import ParallelText
from pdl_nlp.seq2seq.loader import Translations
from pdl_nlp.seq2seq.metrics import Perplexity
from pdl_nlp.seq2seq.report import picture
from pdl_nlp.tokenizers.training import train as train_tokenizer
from pdl_nlp.written import bleu

NETS: dict[str, dict[str, Any]] = {
    "Transformer": {"_target_": "pdl_nlp.Transformer", "layers": 1, "heads": 2},
    "RNNSeq2Seq": {"_target_": "pdl_nlp.RNNSeq2Seq", "scoring": "dot"},
    "copies": {"_target_": "pdl_nlp.RNNSeq2Seq", "scoring": "dot", "copies": True},
    "ERNIEGen": {"_target_": "pdl_nlp.ERNIEGen", "layers": 2, "heads": 4},
}


def recipe(folder: Path, kind: str = "Transformer", **changes: Any) -> dict[str, Any]:
    """A small net on opinions in a language made up; dotted keys change it."""
    files = {
        split: ParallelText.stand_in(folder, {"path": f"{split}.en", "target": f"{split}.de"}).settings
        for split in ("train", "val", "test")
    }
    tree: dict[str, Any] = {
        "task": {"_target_": "pdl_nlp.Seq2Seq", "tokenizer": "words", "max_length": 48, "beams": 3, "min_count": 1},
        "model": {"dim": 32, "hidden": 64, "dropout": 0.0, **NETS[kind]},
        "data": {
            **{split: {"_target_": "pdl_nlp.data.ParallelText", **files[split]} for split in files},
            "batch_size": 16,
        },
        "optim": {"_target_": "pdl.optim.Adam", "lr": 0.01},
        "train": {"epochs": 14, "monitor": "val/loss", "monitor_mode": "min"},
    }
    for key, value in changes.items():
        part, _, name = key.partition("__")
        tree[part][name] = value
    return tree


def built(tree: dict[str, Any]) -> tuple[Seq2Seq, Parts]:
    """Task and parts of a recipe."""
    made = Recipe(from_dict(tree))
    task = made.task.build()
    return task, assemble(task, made)


@pytest.fixture(scope="module", params=NETS)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp(request.param)
    longer = {"copies": 24, "ERNIEGen": 36}  # copies come first; the other one is made for pretrained weights
    changes = {"optim__lr": 0.003, "data__batch_size": 8} if request.param == "ERNIEGen" else {}
    epochs = longer.get(request.param, 14)
    tree = recipe(folder, request.param, train__epochs=epochs, train__eval_every=epochs // 2, **changes)
    workflow.train(from_dict(tree), run=folder / "run")
    return folder / "run"


def test_it_learns_and_is_compared(run: Path) -> None:
    result = json.loads((run / "result.json").read_text())
    metrics, baselines = result["metrics"], result["baselines"]
    assert set(baselines) == {"the text itself", "nearest text of training"}
    learned = 50 if run.parent.name.startswith("ERNIEGen") else 80
    assert metrics["test/bleu"] > learned > baselines["the text itself"]["test/bleu"]
    assert metrics["test/perplexity"] == pytest.approx(math.exp(metrics["test/loss"]), rel=1e-5)
    assert metrics["test/rougeL"] > 0.8


def test_the_report_shows_samples_and_attention(run: Path) -> None:
    page = (run / "report.html").read_text()
    for title in ("Scores by length (test)", "Samples (test)", "Samples as training went", "Attention (test)"):
        assert title in page
    assert "evaluation 2" in page
    shown = picture(["<a", "end"], ["b"], np.array([[0.75, 0.0]]))
    assert "&lt;a" in shown
    assert shown.count("<rect") == 1


def test_what_the_net_is_shown(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("text\ttarget\na b\tc\na\tb c d e\n")
    data = ParallelText(tmp_path / "a.tsv")
    tokenizer = train_tokenizer("words", ["a b c d"], least=1)
    a, b, c, d = (tokenizer.number(token) for token in "abcd")
    assert (tokenizer.pad, tokenizer.unknown, tokenizer.cls, tokenizer.sep) == (0, 1, 2, 3)
    batch = Translations(data, tokenizer, 4, beams=2).get_batch(np.array([0, 1]))
    assert batch["tokens"].tolist() == [[a, b, 3, 0], [a, 3, 0, 0]]
    assert batch["given"].tolist() == [[2, c, 0, 0], [2, b, c, d]]  # e is the fourth, for whose end there is no room
    assert batch["labels"].tolist() == [[c, 3, -1, -1], [b, c, d, 3]]
    assert (batch["target"].tolist(), batch["beams"].tolist()) == (["c", "b c d e"], [2, 2])
    assert "text" not in Translations(data, tokenizer, 4).get_batch(np.array([0]))


def test_merges_are_left_out_in_training_alone_and_anew_each_epoch(tmp_path: Path) -> None:
    """Half of the merges left out: the same texts in more tokens, others in each epoch; a seed gives them again."""
    common: dict[str, Any] = {"task__tokenizer": "bpe", "task__max_length": 200, "train__seed": 3}
    task, parts = built(recipe(tmp_path, task__bpe_dropout=0.5, **common))
    plain = built(recipe(tmp_path, **common))[1].loaders["train"]
    said, made, counts = [], [], []
    for loader in (plain, parts.loaders["train"], parts.loaders["train"]):
        texts, tokens = {}, {}
        for batch in loader:
            for row, index in enumerate(batch["index"].tolist()):
                sides = [batch[name][row] for name in ("tokens", "given", "labels")]
                texts[index] = [task.text(side[side >= 0]) for side in sides]
                tokens[index] = sides[-1][sides[-1] >= 0].tolist()
        said.append(texts)
        made.append(tokens)
        counts.append(np.array([len(tokens[index]) for index in sorted(tokens)]))
    assert said[0] == said[1] == said[2]
    clean, first, second = counts
    assert (first >= clean).all()
    assert 1.2 < first.sum() / clean.sum() < 4
    assert (first != second).mean() > 0.5
    anew: Any = parts.loaders["train"]
    anew.set_epoch(0)
    for batch in anew:
        for index, row in zip(batch["index"].tolist(), batch["labels"], strict=True):
            assert row[row >= 0].tolist() == made[1][index]
    with pytest.raises(ConfigError, match=r"task\.bpe_dropout=0\.5 needs task\.tokenizer=bpe.*this one is words"):
        built(recipe(tmp_path, task__bpe_dropout=0.5, task__tokenizer="words"))


def test_noise_is_in_what_is_given_alone_and_drawn_anew_each_epoch(tmp_path: Path) -> None:
    """Of the 10 words that can be drawn some are drawn by themselves: 0.5 of the tokens are drawn, fewer differ."""
    noisy = recipe(tmp_path, task__noise=0.5, train__seed=3)
    plain = built(recipe(tmp_path, train__seed=3))[1].loaders["train"]
    (task, parts), epochs, share = built(noisy), list[np.ndarray](), list[float]()
    special = {*task.tokenizer.silent()}
    for _ in range(2):
        rows = []
        for batch, clean in zip(parts.loaders["train"], plain, strict=True):
            assert all((batch[name] == clean[name]).all() for name in ("tokens", "labels"))
            ordinary = ~np.isin(clean["given"], list(special))
            changed = batch["given"] != clean["given"]
            assert not changed[~ordinary].any()
            assert not special & set(batch["given"][ordinary].tolist())
            share.append(changed[ordinary].mean())
            rows.append(changed.ravel())
        epochs.append(np.concatenate(rows))
    assert 0.35 < np.mean(share) < 0.5
    assert len(epochs[0]) != len(epochs[1]) or (epochs[0] != epochs[1]).any()
    assert (built(noisy)[1].loaders["val"].dataset[0]["given"] == parts.loaders["val"].dataset[0]["given"]).all()


def test_the_loss_of_training_is_smoothed_and_that_of_evaluations_is_not(tmp_path: Path) -> None:
    task, parts = built(recipe(tmp_path))
    model = parts.model
    batch = next(iter(parts.loaders["val"]))
    model.eval()
    given = [pdl.as_tensor(batch[name]) for name in ("tokens", "given", "labels")]
    smooth = task.step(model, batch)
    plain = task.evaluate(model, batch)
    real = batch["labels"] >= 0
    logits = model(*given[:2]).detach().numpy()[real].astype(np.float64)
    log_p = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    right = -log_p[np.arange(real.sum()), batch["labels"][real]].mean()
    assert float(plain.value.item()) == pytest.approx(right, rel=1e-4)
    assert float(smooth.value.item()) == pytest.approx(0.9 * right - 0.1 * log_p.mean(), rel=1e-4)
    assert float(smooth.weight.item()) == plain.weight == real.sum()


def test_perplexity_is_over_tokens() -> None:
    metric = Perplexity()
    metric.update(1.0, 3)
    metric.update(3.0, 1)
    assert metric.compute() == pytest.approx(math.exp(1.5))


def test_check_finds_faults(tmp_path: Path) -> None:
    tree = recipe(tmp_path)
    lines = [(tmp_path / f"{name}").read_text().splitlines() for name in ("train.en", "target_train.de")]
    long = "the room was dull . " * 5
    pairs = [(lines[0][0], lines[1][0]), ("", "b"), (long, "x"), ("same .", "same .")]
    for path, side in (("test.en", 0), ("target_test.de", 1)):
        (tmp_path / path).write_text("".join(f"{pair[side]}\n" for pair in pairs))
    faults = Seq2Seq(tokenizer="words", max_length=12).check(Recipe(from_dict(tree)))
    said = "\n".join(f"{each.split}: {each.what} {each.line}" for each in faults)
    assert "test: an empty text 2" in said
    assert "test: 25 tokens, but 1 of the target" in said
    assert "test: 1 of 4 texts are their own targets; this is the first 4" in said
    assert "test: 1 of 4 texts are in train, too" in said
    assert "texts have more than 12 tokens" in said


def test_tokenizers_and_scoring(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("text\ttarget\n" + "hello there\t你好你好\n" * 30)
    data: dict[str, Any] = {"_target_": "pdl_nlp.data.ParallelText", "path": str(tmp_path / "a.tsv")}
    tree = recipe(tmp_path, task__tokenizer="bpe", task__vocabulary_size=300)
    tree["data"] = {"train": data, "val": data}
    task, _ = built(tree)
    assert task.scoring == "zh"
    ids = task.tokenizer.encode_many(["你好"]).ids
    assert task.tokenizer.decode(ids) == "你好"
    tree["task"]["tokenizer"] = task.learned_config()["tokenizer"]  # as the config of a run has it
    again, _ = built(tree)
    assert again.options(1).banned == (0, 1, 2, 4)  # [PAD], [UNK], [CLS] and [MASK] are never written, [SEP] ends
    assert again.tokenizer.tokens == task.tokenizer.tokens
    tree["task"]["tokenizer"] |= {"kind": "sentencepiece"}
    with pytest.raises(ConfigError, match="without its tokens"):
        built(tree)
    assert bleu(["你好"], ["你好"], tokens="char").precisions[:2] == (100, 100)


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    tree = recipe(tmp_path)
    tree["model"] = {"_target_": "pdl_nlp.BoW", "num_classes": 2}
    with pytest.raises(ConfigError, match="writes no text"):
        built(tree)
    tree, path = recipe(tmp_path), tmp_path / "c.tsv"
    path.write_text("text\tlabel\na\tb\n")
    tree["data"] = {"train": {"_target_": "pdl_nlp.data.TextFile", "path": str(path)}}
    with pytest.raises(DataError, match=r"take pdl_nlp\.data\.ParallelText"):
        built(tree)


@pytest.mark.parametrize("kind", ["table", "lines", "folder"])
def test_init_writes_a_recipe(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    if kind == "table":
        data = ParallelText.stand_in(tmp_path, {"path": "a.csv", "text": "source"}).settings["path"]
    elif kind == "lines":
        data = ParallelText.stand_in(tmp_path, {"path": "a.txt", "columns": ["text", "target", "x"]}).settings["path"]
    else:
        data = str(tmp_path / "pairs")
        for split in ("train", "test"):
            for side, name in (("en", "text"), ("zh", "target")):
                (tmp_path / "pairs").mkdir(exist_ok=True)
                lines = [f"{name} {number}\n" for number in range(40)]
                (tmp_path / f"pairs/{split}.{side}").write_text("".join(lines))
    assert main(["init", "nlp.seq2seq", "--data", data, "--out", "mine.yaml"]) == 0
    assert ("It reads train.en and writes train.zh" in capsys.readouterr().out) == (kind == "folder")
    tree = load("mine.yaml")
    assert tree["task"]["_target_"] == "pdl_nlp.Seq2Seq"
    assert [name for name in ("train", "val", "test") if name in tree["data"]] == ["train", "val", "test"]
    first = Recipe(tree).data.splits["train"].build()[0]
    assert set(first) == {"text", "target"}
    (tmp_path / "b.csv").write_text("one,two,three\n1,2,3\n")
    assert main(["init", "nlp.seq2seq", "--data", "b.csv", "--out", "other.yaml"]) != 0


def test_a_bundle_answers_raw_texts(run: Path) -> None:
    session = pdl.runtime.load(run / "model.pdl")
    data = ParallelText(run.parent / "test.en", target=run.parent / "target_test.de")
    answer = session(data[0]["text"])
    assert answer["text"]
    assert answer["score"] < 0
    assert answer["ended"] == "end"
    with pytest.raises(DataError, match="has no tokens"):
        session("  ")
    before = json.loads((run / "result.json").read_text())["metrics"]
    found = {what: workflow.evaluate(run / what, split="test").metrics for what in ("", "model.pdl")}
    for name in ("test/bleu", "test/chrf", "test/rougeL"):
        assert [each[name] for each in found.values()] == pytest.approx([before[name]] * 2, abs=1e-3)
    assert found[""]["test/perplexity"] == pytest.approx(before["test/perplexity"], rel=1e-5)
    assert "test/perplexity" not in found["model.pdl"]


class Onnx:
    """A `Decoding` by the two ONNX files of a net."""

    def __init__(self, folder: Path, kinds: Any) -> None:
        runtime = pytest.importorskip("onnxruntime")
        self.kinds = kinds
        self.parts = [runtime.InferenceSession(str(folder / f"net_{name}.onnx")) for name in ("encode", "step")]

    def encode(self, inputs: Any) -> tuple[Any, ...]:
        return tuple(self.parts[0].run(None, {"tokens": inputs[0]}))

    def step(self, run: Any, tokens: Any, counts: Any) -> Any:
        feed = {"tokens": tokens, "counts": counts, "lengths": run.lengths}
        feed |= {f"state.{i}": each for i, each in enumerate(run.state)}
        feed |= {f"memory.{i}": each for i, each in enumerate(run.memory)}
        taken = {each.name for each in self.parts[1].get_inputs()}
        scores, *run.state = self.parts[1].run(None, {name: x for name, x in feed.items() if name in taken})
        return scores


def test_onnx_writes_the_same_texts(run: Path, tmp_path: Path) -> None:
    bundle_to_onnx(run / "model.pdl", tmp_path / "net.onnx")
    session = pdl.runtime.load(run / "model.pdl")
    prepared = [session.pipeline.prepare(text) for text in ("the room was dull .", "the plot")]
    arrays = [session.pipeline.collate(prepared)["tokens"]]
    other = copy(session.engine)
    other.decoding = Onnx(tmp_path, session.engine.decoding.kinds)
    for ours, theirs in zip(session.engine(arrays), other(arrays), strict=True):
        np.testing.assert_allclose(theirs, ours, atol=1e-3)


def test_files_of_texts(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "in.txt").write_text("the room was dull .\nthe plot was lovely .\n")
    monkeypatch.chdir(tmp_path)
    assert main(["predict", str(run / "model.pdl"), "in.txt", "--out", "out.csv"]) == 0
    with Path("out.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2
    assert rows[0]["text"] != rows[1]["text"]
