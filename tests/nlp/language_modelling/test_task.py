"""The whole way of a language model: training, resuming, bundle, what it writes; tokenizers, checkpoints, recipes."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

import pdl
from pdl import workflow
from pdl.config import from_dict, load
from pdl.errors import ConfigError, DataError, UsageError
from pdl.train import Recipe
from pdl_nlp import GPT, LanguageModel
from pdl_nlp.data import standin
from pdl_nlp.language_modelling.init import write_recipe
from pdl_nlp.tokenizers import read
from pdl_nlp.tokenizers.training import train as train_tokenizer
from pdl_nlp.tokenizers.writing import write

SMALL = {
    "dim": 32,
    "layers": 2,
    "heads": 2,
    "positions": "rotary",
    "norm": "rms",
    "activation": "swiglu",
    "bias": False,
}
RATIOS = {"train": 0.9, "val": 0.1}


def text_of(folder: Path, sentences: int = 400) -> Path:
    """A file of sentences of the grammar, a line each."""
    return standin.write(folder / "text.txt", [text for text, _ in standin.draw("text", sentences)])


def recipe(path: Path, **changes: Any) -> dict[str, Any]:
    """A small net on a file; dotted keys change it."""
    tree: dict[str, Any] = {
        "task": {"_target_": "pdl_nlp.LanguageModel", "max_length": 32},
        "model": {"_target_": "pdl_nlp.GPT", **SMALL},
        "data": {
            **{s: {"_target_": "pdl_nlp.data.Corpus", "path": str(path), "split": s, "ratios": RATIOS} for s in RATIOS},
            "batch_size": 8,
        },
        "optim": {"_target_": "pdl.optim.Muon", "lr": 0.01},
        "train": {"epochs": 40, "max_steps": 400, "eval_every": 4},
    }
    for key, value in changes.items():
        part, _, name = key.partition("__")
        tree[part][name] = value
    return tree


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("language")
    workflow.train(from_dict(recipe(text_of(folder))), run=folder / "run")
    return folder / "run"


def test_it_learns_more_than_how_often_letters_occur(run: Path) -> None:
    found = json.loads((run / "result.json").read_text())
    loss = found["metrics"]["val/loss"]
    assert loss < 1.0 < found["baselines"]["unigram"]["val/loss"]
    assert found["metrics"]["val/perplexity"] == pytest.approx(math.exp(loss))
    assert found["metrics"]["val/bits_per_character"] == pytest.approx(loss / math.log(2), rel=1e-5)
    page = (run / "report.html").read_text()
    assert "What it wrote as training went" in page
    assert "Samples (val)" in page


def test_its_bundle_writes_words_of_the_text(run: Path) -> None:
    session = pdl.runtime.load(run / "model.pdl")
    answer = session("the room was ")
    words = set(" ".join(text for text, _ in standin.draw("text", 400)).split())
    found = answer["text"].split()
    assert len(answer["text"]) == 16  # half of the window, in characters
    assert sum(word in words for word in found[:-1]) >= len(found) / 2
    assert answer == session("the room was ")
    assert workflow.predict(run, ["the room was "])[0]["text"] == answer["text"]
    long = "the room was lovely . " * 10
    assert session(long)["text"] == session(long[-16:])["text"]
    with pytest.raises(DataError, match="empty prompt"):
        session("")


def test_one_can_talk_with_it(run: Path) -> None:
    step = pdl.runtime.load(run / "model.pdl").pipeline.input
    assert step.conversation(["a b", "c\nd"]) == ("a b\nc d\n", ("\n",))
    assert step.conversation(["the room was lovely", "it was"])[0] == "it was\n"  # 16 characters are read
    chat = workflow.Chat(run, {"--max-length": ["8"]})
    found = chat.answer("the room was")["text"]
    session = pdl.runtime.load(run / "model.pdl").with_options(max_length=8, stop=["\n"])
    assert found == session("the room was\n")["text"]
    assert "\n" not in found
    assert chat.turns == ["the room was", found.strip()]


def test_evaluation_is_that_of_all_tokens_at_once(run: Path) -> None:
    again = workflow.evaluate(run, split="val")
    found = json.loads((run / "result.json").read_text())["metrics"]["val/loss"]
    assert again.metrics["val/loss"] == pytest.approx(found, rel=1e-5)
    other = workflow.evaluate(run, split="val", overrides=["task.stride=8"])
    assert other.metrics["val/loss"] < found  # more stands before each token


@pytest.mark.parametrize(("to", "loss", "size"), [("w8", 0.003, 0.6), ("w4", 0.1, 0.5)])
def test_weights_of_few_bits(run: Path, tmp_path: Path, to: str, loss: float, size: float) -> None:
    made = workflow.compress(run, tmp_path / "small.pdl", to=to, split="val", group=32)
    of = {pair.name: pair for pair in made.metrics}["loss"]
    assert of.after == pytest.approx(of.before, abs=loss)
    assert of.after != of.before
    assert made.products == (8, 9)  # four of each layer; the table has too few letters
    assert made.size.after < size * made.size.before
    small = pdl.runtime.load(made.path)
    assert len(small("the room was ")["text"]) == 16
    assert workflow.compress(run, tmp_path / "b.pdl", to=to, split="val", keep="both").products == (6, 9)
    with pytest.raises(UsageError, match="expected int8, w8 or w4"):
        workflow.compress(run, to="w3")
    with pytest.raises(UsageError, match=f"--to {to}: needs no --images"):
        workflow.compress(run, to=to, onnx=tmp_path / "a.onnx")


def prepared(path: Path, **task: Any) -> LanguageModel:
    made = Recipe(from_dict(recipe(path, **{f"task__{name}": value for name, value in task.items()})))
    task_ = made.task.build()
    task_.prepare(made, {"train": made.data.splits["train"].build()})
    return task_  # type: ignore[no-any-return]


def test_characters_keep_white_space_and_case(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("One\n\ttwo  Two, all\n" * 40)
    task = prepared(path)
    assert task.tokenizer.tokens[3:] == sorted(set("One\n\ttwo  Two, all\n"))
    ids = task.tokenizer.encode_many(["two\nOne?"]).ids
    assert task.tokenizer.decode(ids) == "two\nOne[UNK]"
    assert "O" not in prepared(path, lower=True).tokenizer.tokens
    assert len(prepared(path, vocabulary_size=8).tokenizer.tokens) == 3 + 8


def test_pieces_of_words_are_learned_of_the_text(tmp_path: Path) -> None:
    task = prepared(text_of(tmp_path), tokenizer="bpe", vocabulary_size=320)
    text = "the hotel was lovely .\nnaïve 我"
    ids = task.tokenizer.encode_many([text]).ids
    assert task.tokenizer.decode(ids) == text
    assert 280 < len(task.tokenizer.tokens) <= 320
    assert task.end == task.tokenizer.sep
    assert prepared(text_of(tmp_path), tokenizer="bpe", end="[MASK]").end == task.tokenizer.mask


def test_tokenizers_that_lose_white_space_are_refused(tmp_path: Path) -> None:
    made = train_tokenizer("wordpiece", ["the room was lovely"] * 9, size=60, least=1, lower=True)
    write(made, tmp_path / "pieces")
    with pytest.raises(ConfigError, match="wordpiece loses white space"):
        prepared(text_of(tmp_path), tokenizer=str(tmp_path / "pieces"))
    with pytest.raises(ConfigError, match=r"task.stride=33 leaves tokens out of windows of max_length=32"):
        LanguageModel(stride=33, max_length=32)


def test_it_begins_with_a_folder_of_others(tmp_path: Path) -> None:
    """A GPT-2 with its tokenizer: sizes, tokens and weights are taken over."""
    text, folder = text_of(tmp_path), tmp_path / "gpt2"
    made = train_tokenizer("bpe", text.read_text().split("\n"), size=300, least=2, lower=False)
    write(made, folder)
    size = len(read(folder).tokens)
    config = {"model_type": "gpt2", "vocab_size": size, "n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 64}
    (folder / "config.json").write_text(json.dumps(config))
    pdl.seed(5)
    net = GPT(size, dim=16, layers=1, heads=2, max_length=64)
    names = {
        "words.weight": "wte.weight", "positions": "wpe.weight", "norm": "ln_f", "norm1": "ln_1", "norm2": "ln_2",
        "attention.in_proj": "attn.c_attn", "attention.out_proj": "attn.c_proj", "feed.up": "mlp.c_fc",
        "feed.down": "mlp.c_proj", "layers": "h",
    }  # fmt: skip
    state = {}
    for name, value in net.state_dict().items():
        for own, theirs in names.items():
            name = name.replace(f"{own}.", f"{theirs}.") if own != name else theirs
        state[name] = np.ascontiguousarray(value.data)
    save_file(state, folder / "model.safetensors", {"format": "pt"})
    tree = recipe(text, model__pretrained=str(folder), train__max_steps=1, optim__lr=0.0)
    tree["model"] = {"_target_": "pdl_nlp.GPT", "pretrained": str(folder)}
    workflow.train(from_dict(tree), run=tmp_path / "run")
    done: Any = workflow.Run.open(tmp_path / "run").opened()
    for name, value in net.state_dict().items():
        np.testing.assert_array_equal(done.model.state_dict()[name].data, value.data, err_msg=name)


def test_models_that_do_not_fit(tmp_path: Path) -> None:
    text = text_of(tmp_path)
    with pytest.raises(ConfigError, match=r"model.vocab_size=9, but the data has \d+"):
        workflow.train(from_dict(recipe(text, model__vocab_size=9)), run=tmp_path / "a")
    with pytest.raises(ConfigError, match=r"task.max_length=32, but the model has vectors for 16 positions"):
        workflow.train(from_dict(recipe(text, model__max_length=16)), run=tmp_path / "b")
    other = recipe(text)
    other["model"] = {"_target_": "pdl_nlp.BERTForPretraining", "dim": 16, "heads": 2, "layers": 1}
    with pytest.raises(ConfigError, match=r"is no pdl_nlp\.LanguageDecoder"):
        workflow.train(from_dict(other), run=tmp_path / "c")


def test_check_finds_texts_of_both_splits(tmp_path: Path) -> None:
    path = standin.write(tmp_path / "a.txt", ["the same long line, again and again and again"] * 90)
    made = Recipe(from_dict(recipe(path)))
    faults = made.task.build().check(made)
    assert any("long lines are in the training texts, too" in fault.what for fault in faults)
    assert any("so few little is learned" in fault.what for fault in faults)


def test_a_recipe_for_a_file(tmp_path: Path) -> None:
    path = text_of(tmp_path)
    (tmp_path / "recipe.yaml").write_text(write_recipe(path))
    made = Recipe(load(tmp_path / "recipe.yaml"))
    assert made.task.target == "pdl_nlp.LanguageModel"
    assert made.model.get("dim") == 128
    with pytest.raises(DataError, match="at least 2,000 are needed"):
        write_recipe(standin.write(tmp_path / "short.txt", ["a few"]))
