"""Classes of turns, one of which counts as none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pdl import workflow
from pdl.config import from_dict
from pdl.errors import ConfigError, DataError
from pdl_nlp.classification.metrics import neutral_metrics
from pdl_nlp.data import Utterances, standin


def test_f1_without_the_neutral_class_by_hand() -> None:
    rng = np.random.default_rng(0)
    scores, targets = rng.standard_normal((300, 6)), rng.integers(0, 5, 300)  # nothing is of class 5
    scores[:, 5] -= 9  # nothing is found to be of it
    metrics = neutral_metrics(2)
    for part in np.array_split(np.arange(300), 3):
        for metric in metrics.values():
            metric.update(scores[part], targets[part])
    found, each = scores.argmax(axis=1), []
    for label in (0, 1, 3, 4, 5):
        hits = ((found == label) & (targets == label)).sum()
        each.append((hits, (found == label).sum() + (targets == label).sum()))
    macro = np.mean([2 * hits / below if below else 0.0 for hits, below in each])
    micro = 2 * sum(hits for hits, _ in each) / sum(below for _, below in each)
    assert metrics["macro_f1"].compute() == pytest.approx(macro)
    assert metrics["micro_f1"].compute() == pytest.approx(micro)


def test_turns_have_the_classes_of_their_line(tmp_path: Path) -> None:
    path = standin.write(tmp_path / "d.txt", ["Hi . __eou__ Oh ! __eou__", "", "No . __eou__"])
    labels = standin.write(tmp_path / "e.txt", ["0 6", "", "1 "])
    data = Utterances(path, labels, names={"0": "none", "1": "anger", "6": "surprise"})
    assert [(data[i]["text"], data.classes[data[i]["label"]]) for i in range(3)] == [
        ("Hi .", "none"), ("Oh !", "surprise"), ("No .", "anger"),
    ]  # fmt: skip
    assert data.lines == [1, 1, 3]
    assert Utterances(path, labels).classes == ["0", "1", "6"]
    many = standin.write(tmp_path / "m.txt", [f"a{n} __eou__ b{n} __eou__" for n in range(40)])
    moods = standin.write(tmp_path / "n.txt", ["0 1"] * 40)
    cut = {split: Utterances(many, moods, ratios={"train": 0.5, "val": 0.5}, split=split) for split in ("train", "val")}
    assert len(cut["train"]) + len(cut["val"]) == 80
    assert all(part.texts[at + 1] == f"b{part.texts[at][1:]}" for part in cut.values() for at in range(0, len(part), 2))
    with pytest.raises(DataError, match=r"d\.txt:3: 1 turns, but 2 classes in e\.txt"):
        Utterances(path, standin.write(tmp_path / "e.txt", ["0 6", "", "1 1"]))


def test_the_neutral_class_is_one_of_them(tmp_path: Path) -> None:
    made = Utterances.stand_in(tmp_path, {"path": "d.txt", "labels": "e.txt"}).settings
    data = {"_target_": "pdl_nlp.data.Utterances", **made}
    tree = {
        "task": {"_target_": "pdl_nlp.TextClassification", "neutral": "nothing"},
        "model": {"_target_": "pdl_nlp.BoW", "dim": 8},
        "data": {"train": data, "val": data},
        "optim": {"_target_": "pdl.optim.AdamW", "lr": 0.01},
        "train": {"epochs": 1, "export": False},
    }
    with pytest.raises(ConfigError, match=r"task\.neutral='nothing': expected one of the classes"):
        workflow.train(from_dict(tree), run=tmp_path / "run")
