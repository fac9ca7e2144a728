"""Classifiers with tokenizers from files and encoders from checkpoints: training, layer-wise rates, runs, bundles."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import pdl
from pdl import workflow
from pdl.config import from_dict
from pdl.errors import ConfigError
from pdl_nlp.data import standin
from pdl_nlp.tokenizers import BERT, ByteLevelBPE, Characters, Tokenizer
from pdl_nlp.tokenizers.bpe import ALPHABET
from pdl_nlp.tokenizers.writing import write
from tests.nlp.classification.test_task import recipe
from tests.nlp.models.test_bert import CONFIG, folder_of
from tests.nlp.tokenizers.made import MERGES, bpe, wordpiece

WORDS = sorted({word for text, _ in standin.draw("train.csv") for word in text.split()})


@pytest.mark.parametrize(
    "tokenizer", [wordpiece(), bpe(), Characters([*BERT.values(), "a"], special=BERT)], ids=lambda t: t.kind
)
@pytest.mark.parametrize("most", [None, 6, 3, 2])
def test_many_texts_with_special_tokens(tokenizer: Tokenizer, most: int | None) -> None:
    texts = ["unwanted , running", "", "want", "running runn want unwanted"]
    found = tokenizer.framed(texts, max_length=most)
    for number, text in enumerate(texts):
        one = found.text(number)
        for mine, other in zip(one, tokenizer.encode(text, max_length=most)[0], strict=True):
            np.testing.assert_array_equal(mine, other)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT of two layers with random weights, and the words of the grammar as its vocabulary."""
    vocabulary = [*BERT.values(), *WORDS]
    config = {
        **CONFIG,
        "vocab_size": len(vocabulary) + 3,
        "hidden_size": 24,
        "intermediate_size": 48,
        "max_position_embeddings": 64,
    }
    folder = folder_of(tmp_path_factory.mktemp("bert") / "checkpoint", config)
    state = load_file(folder / "model.safetensors")
    for name, value in state.items():  # as training begins with them
        value[...] = name.endswith("LayerNorm.weight") if value.ndim == 1 else value / 2
    save_file(state, folder / "model.safetensors", {"format": "pt"})
    (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in vocabulary))
    return folder


def of_bert(folder: Path, checkpoint: Path, **changes: Any) -> dict[str, Any]:
    tree = recipe(folder, task__max_length=32, **changes)
    tree["model"] = {"_target_": "pdl_nlp.BERTClassifier", "pretrained": str(checkpoint), "dropout": 0.0}
    tree["optim"] = {"_target_": "pdl.optim.AdamW", "lr": 0.005, "layer_decay": 0.8}
    return tree


def test_fine_tuning_a_checkpoint(checkpoint: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(checkpoint, tmp_path / "copy")
    workflow.train(from_dict(of_bert(tmp_path, copy, train__epochs=8)), run=tmp_path / "run")
    shutil.rmtree(copy)  # the run and its bundle stand alone
    result = json.loads((tmp_path / "run/result.json").read_text())
    assert result["metrics"]["test/accuracy"] > 0.9
    log = (tmp_path / "run/train.log").read_text()
    assert "RE-INITIALISED classifier." in log
    assert re.search(r"4 learning rates, from 0.005 \(pooler.*\) to 0.00256 \(embeddings", log)
    about = json.loads((tmp_path / "run/run.json").read_text())["learned"]
    assert (about["model"]["vocab_size"], about["model"]["dim"], about["model"]["pad"]) == (len(WORDS) + 8, 24, 0)
    assert about["task"]["tokenizer"]["kind"] == "wordpiece"
    for model in (tmp_path / "run", tmp_path / "run/model.pdl"):
        (answer,) = workflow.predict(model, ["the ROOM was really lovely ."])
        assert answer["label"] == "positive"
    measured = workflow.evaluate(tmp_path / "run/model.pdl").metrics["test/accuracy"]
    assert measured == pytest.approx(result["metrics"]["test/accuracy"])
    made = workflow.compress(tmp_path / "run", samples=64)
    (accuracy,) = (each for each in made.metrics if each.name == "accuracy")
    assert accuracy.after > 0.9
    assert workflow.predict(made.path, ["the ROOM was really lovely ."])[0]["label"] == "positive"
    onnxruntime = pytest.importorskip("onnxruntime")
    workflow.export(tmp_path / "run", tmp_path / "net.onnx", to="onnx")
    theirs = onnxruntime.InferenceSession(tmp_path / "net.onnx", providers=["CPUExecutionProvider"])
    session = pdl.runtime.load(tmp_path / "run/model.pdl")
    for shape in ((1, 3), (4, 9), (2, 32)):
        tokens = np.random.default_rng(0).integers(1, len(WORDS), shape)
        tokens[0, 2:] = 0
        (expected,) = theirs.run(None, {"tokens": tokens})
        np.testing.assert_allclose(session.run({"tokens": tokens})["logits"], expected, atol=1e-4)


def test_an_encoder_goes_on_from_a_run_of_ours(checkpoint: Path, tmp_path: Path) -> None:
    first = of_bert(tmp_path, checkpoint, train__epochs=1)
    workflow.train(from_dict(first), run=tmp_path / "first")
    second = of_bert(tmp_path, tmp_path / "first", train__epochs=1)
    workflow.train(from_dict(second), run=tmp_path / "second")
    log = (tmp_path / "second/train.log").read_text()
    assert f"pretrained {tmp_path / 'first'}: " in log
    assert "RE-INITIALISED" not in log
    shutil.rmtree(tmp_path / "first")
    assert workflow.predict(tmp_path / "second", ["the room was lovely"])
    assert workflow.evaluate(tmp_path / "second", split="val")


def test_a_tokenizer_with_arrays_stays_with_the_run(tmp_path: Path) -> None:
    tokens = ["<pad>", "<unk>", *ALPHABET.values(), *("".join(pair) for pair in MERGES)]
    made = ByteLevelBPE.read(tokens, MERGES, special={"pad": "<pad>", "unknown": "<unk>"})
    write(made, tmp_path / "bpe")
    workflow.train(
        from_dict(recipe(tmp_path, task__tokenizer=str(tmp_path / "bpe"), train__epochs=1)), run=tmp_path / "run"
    )
    shutil.rmtree(tmp_path / "bpe")
    assert (tmp_path / "run/vocabularies/tokens.merges.npy").is_file()
    answers = [
        workflow.predict(model, ["the room was lovely"])[0] for model in (tmp_path / "run", tmp_path / "run/model.pdl")
    ]
    assert answers[0]["score"] == pytest.approx(answers[1]["score"], abs=1e-5)
    np.save(tmp_path / "run/vocabularies/tokens.merges.npy", np.array(["x"], object), allow_pickle=True)
    with pytest.raises(pdl.errors.DataError, match="no array of NumPy"):
        workflow.predict(tmp_path / "run", ["x"])


@pytest.mark.parametrize("tokenizer", ["words", "other"])
def test_weights_are_for_the_tokens_of_their_checkpoint(tokenizer: str, checkpoint: Path, tmp_path: Path) -> None:
    if tokenizer == "other":
        shutil.copytree(checkpoint, tmp_path / "other")
        lines = (checkpoint / "vocab.txt").read_text().splitlines()
        (tmp_path / "other/vocab.txt").write_text("\n".join([*lines[:-2], *lines[:-3:-1]]) + "\n")
        tokenizer = str(tmp_path / "other")
    tree = of_bert(tmp_path, checkpoint, task__tokenizer=tokenizer)
    with pytest.raises(
        ConfigError, match=r"task.tokenizer=.* numbers tokens otherwise: the weights of model.pretrained"
    ):
        workflow.train(from_dict(tree), run=tmp_path / "run")


def test_faults(checkpoint: Path, tmp_path: Path) -> None:
    tree = of_bert(tmp_path, checkpoint)
    tree["task"]["max_length"] = 65
    with pytest.raises(ConfigError, match=r"task.max_length=65, but the model has vectors for 64 positions"):
        workflow.train(from_dict(tree), run=tmp_path / "long")
    tree = of_bert(tmp_path, checkpoint)
    tree["model"]["vocab_size"] = 20
    with pytest.raises(ConfigError, match=r"model.vocab_size=20, but the data has"):
        workflow.train(from_dict(tree | {"model": {**tree["model"], "pretrained": None}}), run=tmp_path / "few")
