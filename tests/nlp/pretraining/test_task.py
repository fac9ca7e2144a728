"""The whole way of pretraining: loss, training, resuming, bundle, answers; what fine-tuning takes of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file
from scipy.special import erf, log_softmax

import pdl
from pdl import workflow
from pdl.cli import main
from pdl.config import from_dict, load
from pdl.errors import ConfigError, DataError, UsageError
from pdl.train import Recipe
from pdl_nlp import MaskedLanguageModel, checkpoints
from pdl_nlp.data import standin
from pdl_nlp.models import BERTForPretraining, BERTTagger
from pdl_nlp.pretraining.init import write_recipe
from pdl_nlp.pretraining.losses import divergence
from pdl_nlp.pretraining.units import Tagger

SMALL = {"dim": 16, "layers": 1, "heads": 2, "hidden": 32, "dropout": 0.0}


def recipe(folder: Path, *, stream: bool = True, **changes: Any) -> dict[str, Any]:
    """A small net on sentences of the grammar; dotted keys change it."""
    for split in ("train", "val"):
        standin.write(
            folder / f"{split}.txt", [text for text, _ in standin.draw(split, 300 if split == "train" else 60)]
        )
    kind = {"_target_": "pdl_nlp.data.PlainText", **({"buffer": 8} if stream else {})}
    tree: dict[str, Any] = {
        "task": {"_target_": "pdl_nlp.MaskedLanguageModel", "tokenizer": "words", "max_length": 24, "masking": "word"},
        "model": {"_target_": "pdl_nlp.BERTForPretraining", **SMALL, "max_length": 32},
        "data": {
            **{split: {**kind, "path": str(folder / f"{split}.txt")} for split in ("train", "val")},
            "batch_size": 16,
        },
        "optim": {"_target_": "pdl.optim.AdamW", "lr": 0.01},
        "train": {"epochs": 20, "max_steps": 120},
    }  # fmt: skip
    for key, value in changes.items():
        part, _, name = key.partition("__")
        tree[part][name] = value
    return tree


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pretraining")
    tree = recipe(folder, model__dim=32, model__hidden=64, data__batch_size=32)
    tree["optim"]["lr"], tree["train"] = 0.005, {"epochs": 100, "max_steps": 800, "eval_every": 100}
    workflow.train(from_dict(tree), run=folder / "run")
    return folder / "run"


def test_init_writes_a_recipe_that_trains(tmp_path: Path) -> None:
    file = tmp_path / "corpus.txt"
    file.write_text("the room was lovely .\nthe plot was dull .\n" * 300)
    (tmp_path / "mine.yaml").write_text(write_recipe(file))
    small = ["model.dim=32", "model.layers=1", "model.heads=2", "model.hidden=64", "train.max_steps=5"]
    workflow.train(load(tmp_path / "mine.yaml", small), run=tmp_path / "run")
    session = pdl.runtime.load(tmp_path / "run/model.pdl")
    assert session("the [MASK] was lovely .")
    file.write_text("too few\n")
    with pytest.raises(DataError, match="2 words; at least 2,000 are needed"):
        write_recipe(file)


def test_the_loss_is_bert_s() -> None:
    """The head written down again in NumPy, on the states of the encoder."""
    pdl.seed(0)
    net = BERTForPretraining(30, **SMALL, max_length=12).eval()
    rng = np.random.default_rng(0)
    for p in net.masked.parameters():
        p.data[...] = rng.standard_normal(p.shape)
    tokens, positions = rng.integers(1, 30, (3, 10)), rng.integers(0, 10, (3, 4))
    targets = rng.integers(0, 30, (3, 4))
    targets[0, 2:] = targets[2] = -1
    states = net.states(pdl.tensor(tokens))[0].detach().numpy().astype(np.float64)
    w = {name: value.astype(np.float64) for name, value in net.state_dict().items()}
    x = (
        np.take_along_axis(states, positions[..., None], axis=1) @ w["masked.transform.weight"]
        + w["masked.transform.bias"]
    )
    h = x * 0.5 * (1 + erf(x / np.sqrt(2)))
    h = (h - h.mean(-1, keepdims=True)) / np.sqrt(h.var(-1, keepdims=True) + 1e-12)
    h = h * w["masked.norm.weight"] + w["masked.norm.bias"]
    scores = h @ w["embeddings.words.weight"].T + w["masked.bias"]
    given = [pdl.tensor(each) for each in (tokens, positions, targets)]
    np.testing.assert_allclose(net(*given[:2]).detach().numpy(), scores, atol=2e-5)
    real = targets >= 0
    expected = -np.take_along_axis(log_softmax(scores, axis=-1), np.maximum(targets, 0)[..., None], axis=-1)[..., 0]
    assert float(net.loss(*given).item()) == pytest.approx(expected[real].mean(), rel=1e-5)
    net.loss(*given).backward()
    step, table = 1e-2, net.embeddings.words.weight
    slope = table.grad.numpy()
    row = int(targets[0, 0])
    before = table.data[row, 3]
    found = []
    for change in (step, -step):
        table.data[row, 3] = before + change
        found.append(float(net.loss(*given).item()))
    assert slope[row, 3] == pytest.approx((found[0] - found[1]) / (2 * step), abs=2e-3), "of the table, which is tied"


def test_it_learns_and_is_compared(run: Path) -> None:
    result = json.loads((run / "result.json").read_text())
    frequent = result["baselines"]["most frequent token"]
    assert result["metrics"]["val/accuracy"] > frequent["val/accuracy"] + 0.1
    assert result["metrics"]["val/perplexity"] < frequent["val/perplexity"] / 2
    assert result["metrics"]["val/perplexity"] == pytest.approx(np.exp(result["metrics"]["val/loss"]), rel=1e-4)


def test_a_bundle_finds_masked_tokens(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session = pdl.runtime.load(run / "model.pdl")
    text = "the [MASK] was really dull [MASK]"
    answer = session(text)["masks"]
    assert [(text[each["start"] : each["end"]], len(each["found"])) for each in answer] == [("[MASK]", 5)] * 2
    assert answer[0]["found"][0]["token"] in standin.THINGS
    assert answer[1]["found"][0]["token"] == "."
    assert 0 < answer[0]["found"][0]["score"] <= 1
    assert main(["predict", str(run), "the [MASK] was dull .", "--topk", "3", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert [each["token"] for each in found["masks"][0]["found"]] == [
        each["token"] for each in session("the [MASK] was dull .")["masks"][0]["found"][:3]
    ]
    with pytest.raises(DataError, match=r"has no \[MASK\]; write \[MASK\]"):
        session("the room was dull .")


@pytest.mark.parametrize("stream", [True, False])
def test_resumed_in_the_middle_it_is_the_same(stream: bool, tmp_path: Path) -> None:
    settings = {"train__max_steps": 30, "train__export": False, "train__compile": False, "train__checkpoint_every": 13}
    tree = recipe(tmp_path, stream=stream, **settings)
    workflow.train(from_dict(tree), run=tmp_path / "whole")

    class Stop(Exception):
        pass

    steps = iter(range(100))
    step = MaskedLanguageModel.step

    def stopping(self: MaskedLanguageModel, model: Any, batch: Any) -> Any:
        if next(steps) == 17:
            raise Stop
        return step(self, model, batch)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MaskedLanguageModel, "step", stopping)
        with pytest.raises(Stop):
            workflow.train(from_dict(tree), run=tmp_path / "cut")
    workflow.train(from_dict(tree), run=tmp_path / "cut", resume=True)
    a, b = (load_file(tmp_path / name / "checkpoints" / "last.safetensors") for name in ("whole", "cut"))
    weights = [name for name in a if name.startswith("model")]
    assert weights
    assert all(np.array_equal(a[name], b[name]) for name in weights)


def test_other_tasks_begin_with_it(run: Path, tmp_path: Path) -> None:
    assert checkpoints.tokenizer(run).special["mask"] == "[MASK]"
    sizes = checkpoints.sizes(run)
    assert (sizes["dim"], sizes["max_length"]) == (32, 32)
    from pdl.hub.pretrained import collected

    given = {**SMALL, "dim": 32, "hidden": 64, "max_length": 50}
    for source in (run, run / "model.pdl"):  # the program of the bundle is a function around the net
        with collected() as reports:
            net = BERTTagger(sizes["vocab_size"], 3, 0, **given, pretrained=str(source))
        assert reports[0].adapted.keys() == {"embeddings.positions"}
        rows = net.embeddings.positions.detach().numpy()
        assert np.array_equal(rows[32:50], rows[:18])
        assert {name.partition(".")[0] for name in reports[0].unused} == {"masked"}
    lines = [f"{letter} {'B-X' if letter in 'aeiou' else 'O'}" for letter in "roomplotbook"]
    path = standin.write(tmp_path / "tags.txt", [*lines, ""] * 8)
    tree = {
        "task": {"_target_": "pdl_nlp.Tagging", "tokenizer": "characters", "max_length": 16},
        "model": {"_target_": "pdl_nlp.BERTTagger", "pretrained": str(run)},
        "data": {split: {"_target_": "pdl_nlp.data.TaggedFile", "path": str(path)} for split in ("train", "val")},
        "optim": {"_target_": "pdl.optim.AdamW", "lr": 0.01},
        "train": {"epochs": 1},
    }
    with pytest.raises(ConfigError, match=r"encoders are taken that read characters.*this one: words"):
        workflow.train(from_dict(tree), run=tmp_path / "words")


def test_a_tagger_begins_with_characters(tmp_path: Path) -> None:
    tree = recipe(tmp_path, task__tokenizer="characters", task__masking="token", train__max_steps=3)
    workflow.train(from_dict(tree), run=tmp_path / "characters")
    lines = [f"{letter} {'B-X' if letter in 'aeiou' else 'O'}" for letter in "roomplotbook"]
    path = standin.write(tmp_path / "tags.txt", [*lines, ""] * 8)
    given = {"_target_": "pdl_nlp.data.TaggedFile", "path": str(path)}
    tree = {
        "task": {"_target_": "pdl_nlp.Tagging", "tokenizer": "characters", "max_length": 16},
        "model": {"_target_": "pdl_nlp.BERTTagger", "pretrained": str(tmp_path / "characters"), "dropout": 0.0},
        "data": {"train": given, "val": given, "batch_size": 4},
        "optim": {"_target_": "pdl.optim.AdamW", "lr": 0.02},
        "train": {"epochs": 6},
    }
    workflow.train(from_dict(tree), run=tmp_path / "tagger")
    assert json.loads((tmp_path / "tagger" / "result.json").read_text())["metrics"]["val/f1"] > 0.9
    found = pdl.runtime.load(tmp_path / "tagger" / "model.pdl")("plot")["spans"]
    assert [(each["text"], each["start"]) for each in found] == [("o", 2)]


def test_a_tagger_s_words_are_units_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PDL_CACHE", str(tmp_path / "cache"))
    lines = ["thebook/n was/v dull/a", "aroom/n is/v nice/a"] * 20
    given = {
        "_target_": "pdl_nlp.data.TaggedFile",
        "path": str(standin.write(tmp_path / "t.txt", lines)),
        "form": "words",
    }
    tree = {
        "task": {"_target_": "pdl_nlp.Tagging", "segment": True, "tokenizer": "characters"},
        "model": {"_target_": "pdl_nlp.RNNTagger", "dim": 16, "hidden": 16, "dropout": 0.0},
        "data": {"train": given, "val": given, "batch_size": 4},
        "optim": {"_target_": "pdl.optim.AdamW", "lr": 0.02},
        "train": {"epochs": 5},
    }
    workflow.train(from_dict(tree), run=tmp_path / "tagger")
    tagger = Tagger(tmp_path / "tagger")
    texts = ["thebookwasdull\naroomisnice", "aroomisnice", ""]
    words = tagger(texts)
    assert [[texts[0][b:e] for b, e in words[0].spans.tolist()], list(words[0].tags)] == [
        ["thebook", "was", "dull", "aroom", "is", "nice"],
        ["n", "v", "a"] * 2,
    ]
    assert len(words[2].tags) == 0
    again = Tagger(tmp_path / "tagger")
    monkeypatch.setattr(again, "_tagged", None)  # nothing is tagged again
    assert again(texts)[1].spans.tolist() == words[1].spans.tolist()
    text = recipe(tmp_path, task__tokenizer="characters", task__masking="ernie", task__tagger=str(tmp_path / "tagger"),
                  train__max_steps=2)  # fmt: skip
    workflow.train(from_dict(text), run=tmp_path / "ernie")
    assert (tmp_path / "ernie" / "model.pdl").is_file()


def test_divergence_by_hand() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 2, 3, 7))
    targets = np.array([[1, 2, -1], [4, -1, -1]])
    p, q = (log_softmax(each / 3, axis=-1) for each in (a, b))
    expected = 9 * (np.exp(p) * (p - q)).sum(-1)[targets >= 0].mean()
    first, second, real = (pdl.tensor(each) for each in (a, b, targets))
    assert float(divergence(first, second, real, 3.0).item()) == pytest.approx(expected)
    assert float(divergence(first, first, real, 3.0).item()) == pytest.approx(0, abs=1e-9)


def test_a_student_answers_like_its_teacher(run: Path, tmp_path: Path) -> None:
    found = {}
    for weight in (0.0, 1.0):
        tree = recipe(tmp_path, model__dim=24, data__batch_size=32, task__teacher=str(run), task__distilled=weight)
        tree["optim"]["lr"], tree["train"] = 0.005, {"epochs": 100, "max_steps": 250, "eval_every": 100}
        workflow.train(from_dict(tree), run=tmp_path / str(weight))
        lines = [json.loads(line) for line in (tmp_path / str(weight) / "metrics.jsonl").read_text().splitlines()]
        found[weight] = [line["divergence"] for line in lines if line["kind"] == "step"]
    assert found[1.0][-1] < found[1.0][0] * 0.7
    assert found[1.0][-1] < found[0.0][-1]
    other = recipe(tmp_path, task__teacher=str(run), task__vocabulary_size=30)
    with pytest.raises(ConfigError, match="it has other tokens"):
        workflow.train(from_dict(other), run=tmp_path / "other")


def test_faults(run: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="weights of basic, phrase, entity"):
        MaskedLanguageModel(levels={"basic": 0})
    tree = recipe(tmp_path)
    tree["model"] = {"_target_": "pdl_nlp.BERT", **SMALL, "max_length": 32}
    with pytest.raises(ConfigError, match=r"BERT is no pdl_nlp.BERTForPretraining"):
        workflow.train(from_dict(tree), run=tmp_path / "model")
    with pytest.raises(UsageError, match="its answers are no words with tags"):
        Tagger(run)
    tree = recipe(tmp_path)
    tree["data"]["val"]["path"] = tree["data"]["train"]["path"]
    faults = MaskedLanguageModel(tokenizer="words").check(Recipe(from_dict(tree)))
    assert [each.what for each in faults] == ["300 of 300 texts are in the training data, too"]
