"""A classifier that answers like another one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pdl
from pdl import workflow
from pdl.config import from_dict
from pdl.errors import ConfigError, UsageError
from pdl_nlp.classification.teacher import Teacher
from pdl_nlp.data import TaggedFile, standin


def recipe(folder: Path, **task: Any) -> dict[str, Any]:
    data = {}
    for split, count in (("train", 200), ("val", 60)):
        lines = [f"{standin.CLASSES[label]}\t{text}" for text, label in standin.draw(split, count)]
        path = standin.write(folder / f"{split}.tsv", ["label\ttext", *lines])
        data[split] = {"_target_": "pdl_nlp.data.TextFile", "path": str(path)}
    return {
        "task": {"_target_": "pdl_nlp.TextClassification", **task},
        "model": {"_target_": "pdl_nlp.TextCNN", "dim": 16, "windows": [1, 2], "filters": 8},
        "data": {**data, "batch_size": 32},
        "optim": {"_target_": "pdl.optim.AdamW", "lr": 0.02},
        "train": {"epochs": 8},
    }


def test_a_student_answers_like_a_teacher_that_reads_other_tokens(tmp_path: Path) -> None:
    workflow.train(from_dict(recipe(tmp_path)), run=tmp_path / "teacher")
    texts = [text for text, _ in standin.draw("train", 40)]
    session = pdl.runtime.load(tmp_path / "teacher" / "model.pdl")
    made = Teacher(tmp_path / "teacher", ["positive", "negative"]).logits([*texts, ""])
    assert made.shape == (41, 2)
    for text, logits in zip(texts[:5], made, strict=False):
        p = np.exp(logits - logits.max())
        answer = {each["label"]: each["score"] for each in session(text)["top"]}
        np.testing.assert_allclose(p / p.sum(), [answer["positive"], answer["negative"]], atol=1e-5)
    settings = {"tokenizer": "characters", "teacher": str(tmp_path / "teacher"), "temperature": 3}
    found = {}
    for weight in (0.0, 1.0):
        tree = recipe(tmp_path, **settings, distilled=weight)
        tree["train"] |= {"log_every": 1, "export": False}
        workflow.train(from_dict(tree), run=tmp_path / str(weight))
        lines = [json.loads(line) for line in (tmp_path / str(weight) / "metrics.jsonl").read_text().splitlines()]
        found[weight] = [line["divergence"] for line in lines if line["kind"] == "step"]
    assert np.mean(found[1.0][-4:]) < 0.9 * found[1.0][0]
    assert np.mean(found[1.0][-4:]) < np.mean(found[0.0][-4:])


def test_faults(tmp_path: Path) -> None:
    tree = recipe(tmp_path)
    tree["train"]["epochs"] = 1
    workflow.train(from_dict(tree), run=tmp_path / "run")
    with pytest.raises(ConfigError, match="it has the classes negative, positive, the data good, bad"):
        Teacher(tmp_path / "run", ["good", "bad"])
    with pytest.raises(UsageError, match="it puts no texts into one class each"):
        Teacher(tagger(tmp_path), ["good", "bad"])


def tagger(folder: Path) -> Path:
    data = {"_target_": "pdl_nlp.data.TaggedFile", **TaggedFile.stand_in(folder, {}).settings}
    tree = {
        "task": {"_target_": "pdl_nlp.Tagging"},
        "model": {"_target_": "pdl_nlp.RNNTagger", "dim": 8, "hidden": 8},
        "data": {"train": data, "val": data},
        "optim": {"_target_": "pdl.optim.AdamW", "lr": 0.01},
        "train": {"epochs": 1},
    }
    workflow.train(from_dict(tree), run=folder / "tagger")
    return folder / "tagger"
