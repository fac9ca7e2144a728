"""What a person would say of a run is said: while it trains, in the result, at its end and in the report."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pdl.cli import main
from pdl.data import ArrayDataset, ConcatDataset, Fault, Subset
from pdl.train.loop import Evaluation
from pdl.train.metrics import ConfusionMatrix
from pdl.workflow.run_warnings import absent_classes, below_baseline, left_out, one_answer

NAMES = ["cat", "dog", "fish"]


def _data(*labels: int) -> ArrayDataset:
    return ArrayDataset(label=np.array(labels), classes=NAMES)


def test_absent_classes() -> None:
    found = absent_classes({"train": _data(0, 1), "val": _data(0, 1, 2), "test": _data(1), "other": object()})
    assert found == [
        "data.train has no sample of one class, cannot be learned: fish",
        "data.test has no sample of 2 of the 3 classes, not measured on test: cat, fish",
    ]


@pytest.mark.parametrize(
    ("true", "given", "name"), [([0, 1, 2], [1, 1, 1], "dog"), ([0, 1], [0, 1], None), ([1, 1], [1, 1], None)]
)
def test_one_answer(true: list[int], given: list[int], name: str | None) -> None:
    confusion = ConfusionMatrix(3)
    confusion.update(np.array(given), np.array(true))
    found = one_answer(Evaluation("test", {}, {}, {"confusion": confusion}, 0.0), NAMES)
    assert (found is None) if name is None else (found is not None and f"is class {name}" in found)


@pytest.mark.parametrize(("mode", "reached", "best"), [("max", 0.5, "b"), ("max", 0.8, None), ("min", 0.5, "a"),
                                                       ("min", 0.2, None)])  # fmt: skip
def test_below_baseline(mode: str, reached: float, best: str | None) -> None:
    baselines = {"a": {"test/score": 0.3}, "b": {"test/score": 0.7}, "c": {"test/other": 9.0, "test/score": np.nan}}
    baselines |= {"real": {"test/score": 0.0 if mode == "min" else 1.0}}
    result: Any = SimpleNamespace(metrics={"test/score": reached}, baselines=baselines, bounds=["real"])
    found = below_baseline(result, "val/score", mode)
    assert (found is None) if best is None else (found is not None and f", {best} " in found)
    assert below_baseline(result, "val/nothing", mode) is None


def test_a_model_that_learns_nothing_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    words = ["train.epochs=3", "optim.lr=1e-12", "train.ema=null", "train.compile=false"]
    assert main(["train", "-c", "cv/digits_lenet", *words, "--run", str(run)]) == 0
    messages = capsys.readouterr()
    warnings = json.loads((run / "result.json").read_text())["warnings"]
    assert any(each.startswith("the model is below a baseline: test/accuracy") for each in warnings)
    for each in warnings:
        assert " ".join(each.split()) in " ".join(messages.out.split())
        in_words = "the model is below a baseline", "worse by"  # what the report's headline says instead
        assert each.partition(":")[0].replace(*in_words) in (run / "report.html").read_text()


def test_what_was_left_out_is_told_once() -> None:
    data = ArrayDataset(x=np.zeros(3))
    assert left_out({"train": data}) == []
    wrong = [Fault("a.csv", None, f"line {i} is wrong", "correct it") for i in range(2)]
    data.faults = [*wrong, Fault("b.jpg", None, "it has no labels", "add some", severity="warning")]
    first, second = left_out({"train": data, "val": Subset(data, [0]), "test": ConcatDataset([data])})
    assert first == "2 wrong annotations, which are left out (pdl check names all): a.csv: line 0 is wrong; correct it"
    assert second == "b.jpg: it has no labels; add some"
