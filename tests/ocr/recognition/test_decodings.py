"""Nets that write until an end, and guided training, from a recipe to what bundles answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

import pdl
from pdl import workflow
from pdl.config.compose import load
from pdl.data.randomness import SampleRandom
from pdl.errors import DataError
from pdl.hub.states import read_state
from pdl.nn.module import evaluating
from pdl.runtime import Session
from pdl.runtime import load as opened
from pdl.runtime.predict import Configured
from pdl.train import Recipe
from pdl.train.assembly import assemble
from pdl_ocr import PARSeq, Reader, SVTRLCNet
from pdl_ocr.data.standin import drawn
from pdl_ocr.recognition.transfer import keep_characters
from tests.ocr.synthetic import session as synthetic

WORDS = ["bed", "note", "hat", "hook", "tab", "ok", "deed", "boot"]
PARSEQ = "{_target_: pdl_ocr.PARSeq, dim: 32, layers: 2, heads: 1, max_length: 5, image_width: 96}"
GUIDED = "{_target_: pdl_ocr.SVTRLCNet, width: 0.25, dim: 32, layers: 1, heads: 2, guide: 32}"


def line(word: str, number: int, index: int) -> np.ndarray:
    return drawn(word, SampleRandom(0, number, index))


def recipe(folder: Path, model: str, *settings: str) -> Any:
    """A recipe for lists of these words, each drawn sixteen times for training and once for validation and test."""
    folder.mkdir(exist_ok=True)
    splits = []
    for number, (split, times) in enumerate((("train", 16), ("val", 1), ("test", 1))):
        for i, word in enumerate(WORDS * times):
            cv2.imwrite(str(folder / f"{split}{i}.png"), line(word, number, i))
        rows = [f"{split}{i}.png\t{word}" for i, word in enumerate(WORDS * times)]
        (folder / f"{split}.txt").write_text("\n".join(rows), encoding="utf-8")
        path = folder / f"{split}.txt"
        splits.append(f"data.{split}={{_target_: pdl_ocr.data.TextLines, path: {path}, split: null, ratios: null}}")
    sizes = ["data.transforms.eval.0.width=96"]
    sizes += [f"data.transforms.eval.2.{name}=[32,96]" for name in ("size", "multiple")]
    quick = ["data.transforms.train=${data.transforms.eval}", "data.batch_size=8", "train.ema=null"]
    return load("ocr/text_lines", [*splits, *sizes, *quick, f"model={model}", *settings])


def texts(read: Session) -> list[str]:
    return [read(line(word, 2, i))["text"] for i, word in enumerate(WORDS)]


@pytest.fixture(scope="module")
def run(tmp_path_factory: Any) -> Path:
    """A PARSeq that has learned the words."""
    folder: Path = tmp_path_factory.mktemp("parseq")
    config = recipe(folder / "words", PARSEQ, "train.epochs=20", "optim.lr=5.0e-3")
    done = workflow.train(config, run=folder / "run", progress=False)
    assert done.metrics["test/accuracy"] == 1
    return folder / "run"


def test_its_bundle_reads_the_same_texts(run: Path, tmp_path: Path) -> None:
    read = opened(run / "model.pdl")
    assert read.bundle.pipeline["post"] == {"logits": [{"step": "softmax"}, {"step": "until_end"}]}
    assert texts(read) == WORDS
    measured = [workflow.evaluate(each, split="test", baselines=False).metrics for each in (run, run / "model.pdl")]
    assert measured[0]["test/accuracy"] == measured[1]["test/accuracy"] == 1
    assert measured[0]["test/loss"] == pytest.approx(measured[1]["test/loss"], rel=1e-3)
    reader = Reader(synthetic("det"), read)
    assert [each["text"] for each in reader.lines([line("note", 2, 1), line("ok", 2, 5)])] == ["note", "ok"]
    (tmp_path / "words.txt").write_text("note deed", encoding="utf-8")
    chosen = Configured.of(read, {"--words": [str(tmp_path / "words.txt")]})
    assert chosen.pipeline.answers([line("note", 2, 1)], chosen.run)[0].value["text"] == "note"


def test_another_dictionary_keeps_what_is_known_of_its_characters(run: Path) -> None:
    known = read_state(str(run)).arrays
    net = PARSeq(dim=32, layers=2, heads=1, max_length=5, image_width=96, num_classes=4, pretrained=str(run))
    fresh = net.tokens.weight.data[2].copy()
    keep_characters(net, str(run), "tua")
    letters = "abdehknot"
    for ours, character in ((1, "t"), (3, "a")):
        theirs = letters.index(character) + 1
        assert np.array_equal(net.tokens.weight.data[ours], known["tokens.weight"][theirs])
        assert np.array_equal(net.classifier.weight.data[:, ours], known["classifier.weight"][:, theirs])
    assert np.array_equal(net.tokens.weight.data[0], known["tokens.weight"][0]), "the start"
    assert np.array_equal(net.tokens.weight.data[2], fresh)


def test_longer_texts_than_it_writes_are_told(tmp_path: Path) -> None:
    short = PARSEQ.replace("max_length: 5", "max_length: 3")
    made = Recipe(recipe(tmp_path, short, "task.skip=false"))
    message = r"lines have more than the 3 characters that the net writes: 'note' .*Set model\.max_length"
    with pytest.raises(DataError, match=f"64 of 128 {message}"):
        assemble(made.task.build(), made)
    left = Recipe(recipe(tmp_path, short))
    parts = assemble(left.task.build(), left)
    assert {len(text) for batch in parts.loaders["train"] for text in batch["text"]} == {2, 3}
    faults = "\n".join(str(fault) for fault in left.task.build().check(left))
    assert "'note' needs 5 steps, the image gives 4; set model.max_length" in faults


def test_guided_training_leaves_no_guide_in_the_bundle(tmp_path: Path) -> None:
    config = recipe(tmp_path / "words", GUIDED, "train.epochs=3", "train.log_every=1")
    workflow.train(config, run=tmp_path / "run", progress=False)
    log = [json.loads(row) for row in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    for part in ("ctc", "guide"):
        losses = [row[part] for row in log if row["kind"] == "step"]
        assert np.mean(losses[-8:]) < 0.8 * np.mean(losses[:8]), part
    read = opened(tmp_path / "run/model.pdl")
    assert not [name for name in read.bundle.weights if "guide" in name]
    plain = SVTRLCNet(width=0.25, dim=32, layers=1, heads=2, num_classes=10, pretrained=str(tmp_path / "run"))
    images = pdl.as_tensor(np.random.default_rng(0).normal(size=(3, 32, 96, 3)).astype(np.float32))
    with evaluating(plain):
        assert np.allclose(read.run({"image": images.data})["logits"], plain(images).data, atol=1e-4)
    count = sum(p.size for p in plain.parameters())
    assert read.bundle.meta["about"]["parameters"] == count
    assert f"{count:,} parameters" in read.bundle.card
