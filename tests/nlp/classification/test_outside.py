"""Texts outside of all classes: the threshold, what is measured, and the whole way to a bundle that says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pdl
from pdl import workflow
from pdl.config import from_dict
from pdl.errors import ConfigError, DataError
from pdl.train import Recipe
from pdl.train.recipe import check
from pdl.workflow.run_warnings import absent_classes
from pdl_nlp import BoW
from pdl_nlp.classification.metrics import Inside, OutsidePrecision, OutsideRecall
from pdl_nlp.classification.outside import Outside, threshold, with_threshold
from pdl_nlp.data import TextFile, standin


def answered(t: float, log_p: np.ndarray, right: np.ndarray, outside: np.ndarray) -> int:
    return int(((log_p >= t) & right & ~outside).sum() + ((log_p < t) & outside).sum())


def test_the_threshold_answers_most() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        log_p = np.log(rng.random(40)).round(1)
        right, outside = rng.random(40) < 0.7, rng.random(40) < 0.3
        given = (log_p, right, outside)
        most = max(answered(t, *given) for t in np.concatenate([log_p, log_p + 1e-9, [-99.0]]))
        assert answered(threshold(*given), *given) == most
    middle = threshold(np.array([-1.0, -4.0, -0.1]), np.array([True, False, True]), np.array([False, True, False]))
    assert middle == pytest.approx(-2.5)


def test_outside_is_the_last_class() -> None:
    pdl.seed(0)
    net: Any = with_threshold(BoW(9, 3, dim=4, dropout=0.0))
    tokens = pdl.as_tensor(np.array([[3, 4, 0], [5, 0, 0]]))
    scores = Outside(net)(tokens).detach().numpy()
    np.testing.assert_allclose(np.exp(scores[:, :3]).sum(axis=1), 1, rtol=1e-5)
    assert scores.argmax(axis=1).max() < 3
    net.threshold.data[:] = -0.01
    assert (Outside(net)(tokens).detach().numpy().argmax(axis=1) == 3).all()


def test_what_is_measured() -> None:
    scores = np.log([[0.7, 0.2, 0.5], [0.3, 0.4, 0.5], [0.1, 0.9, 0.5], [0.4, 0.3, 0.5], [0.8, 0.1, 0.5]])
    targets = np.array([0, 1, 0, 2, 2])
    for metric, value in ((Inside(), 1 / 3), (OutsideRecall(), 1 / 2), (OutsidePrecision(), 1 / 2)):
        metric.update(scores[:2], targets[:2])
        metric.update(scores[2:], targets[2:])
        assert metric.compute() == pytest.approx(value)


def recipe(folder: Path, **task: Any) -> dict[str, Any]:
    keys = {split: [split, f"oos_{split}"] for split in ("train", "val", "test")}
    if not (folder / "all.json").is_file():
        made = [standin.write_file(folder, {"columns": ["text", "label"], "keys": each}) for each in keys.values()]
        whole = {key: rows for path in made for key, rows in json.loads(path.read_text()).items()}
        (folder / "all.json").write_text(json.dumps(whole, indent=1))
    data = {"_target_": "pdl_nlp.data.TextFile", "path": str(folder / "all.json"), "columns": ["text", "label"]}
    return {
        "task": {"_target_": "pdl_nlp.TextClassification", "outside": "oos", "mistakes": 3, **task},
        "model": {"_target_": "pdl_nlp.BoW", "dim": 16, "dropout": 0.0},
        "data": {**{split: {**data, "keys": each} for split, each in keys.items()}, "batch_size": 16},
        "optim": {"_target_": "pdl.optim.Adam", "lr": 0.02},
        "train": {"epochs": 10},
    }


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("outside")
    workflow.train(from_dict(recipe(folder)), run=folder / "run")
    return folder / "run"


def test_it_learns_what_is_outside(run: Path) -> None:
    result = json.loads((run / "result.json").read_text())
    assert result["metrics"]["test/inside"] > 0.9
    assert result["metrics"]["test/outside_recall"] > 0.6
    assert result["baselines"]["majority"]["test/outside_recall"] == 0
    assert "oos" in (run / "report.html").read_text()


def test_a_bundle_says_so(run: Path) -> None:
    session = pdl.runtime.load(run / "model.pdl")
    assert session("the room was really lovely .")["label"] == "positive"
    assert session("keyboard simply plot hotel rather")["label"] == "oos"
    bundled, found = (workflow.evaluate(path, split="test").metrics for path in (run / "model.pdl", run))
    for name in ("test/inside", "test/outside_recall", "test/accuracy"):
        assert bundled[name] == pytest.approx(found[name])
    assert found["test/inside"] == json.loads((run / "result.json").read_text())["metrics"]["test/inside"]


def test_the_threshold_is_that_of_val_and_is_kept(run: Path) -> None:
    value = kept(run)
    assert -5 < value < 0
    workflow.evaluate(run, split="test")
    assert kept(run) == value


def kept(run: Path) -> float:
    model: Any = workflow.Run.open(run).opened().model
    return float(model.threshold.data[0])


def test_training_needs_none(run: Path) -> None:
    data = TextFile(run.parent / "all.json", columns=["text", "label"], keys=["train"])
    data.bind(["negative", "positive", "oos"])
    assert absent_classes({"train": data}, ["oos"]) == []
    assert ["cannot be learned: oos" in each for each in absent_classes({"train": data})] == [True]
    assert ["not measured on val: oos" in each for each in absent_classes({"val": data}, ["oos"])] == [True]


def test_check_misses_none_in_training(tmp_path: Path) -> None:
    tree = recipe(tmp_path)
    tree["data"]["train"]["keys"] = ["train"]
    given = Recipe(check(tree))
    assert not any("classes" in str(fault) for fault in given.task.build().check(given))
    tree["task"]["outside"] = None
    given = Recipe(check(tree))
    found = [str(fault) for fault in given.task.build().check(given)]
    assert sum("classes that training does not have: oos" in each for each in found) == 2


def test_averaged_weights_have_it(tmp_path: Path) -> None:
    """Averages are evaluated and kept with the threshold as it was chosen, and not with a mean of thresholds."""
    tree = recipe(tmp_path)
    tree["train"] = {"epochs": 2, "ema": 0.9}
    workflow.train(from_dict(tree), run=tmp_path / "run")
    assert -5 < kept(tmp_path / "run") < 0


@pytest.mark.parametrize(
    ("task", "error", "said"),
    [
        ({"outside": "nowhere"}, DataError, "the threshold of task.outside='nowhere' needs texts inside and outside"),
        ({"class_weights": "balanced"}, ConfigError, "task.outside: is for one class a text, without class_weights"),
    ],
)
def test_settings_that_do_not_fit(task: dict[str, Any], error: Any, said: str, tmp_path: Path) -> None:
    with pytest.raises(error, match=said):
        workflow.train(from_dict(recipe(tmp_path, **task)), run=tmp_path / "run")


def test_val_needs_both(tmp_path: Path) -> None:
    tree = recipe(tmp_path)
    tree["data"]["val"]["keys"] = ["val"]
    with pytest.raises(
        DataError, match=r"data.val: the threshold of task.outside='oos' needs texts inside and outside"
    ):
        workflow.train(from_dict(tree), run=tmp_path / "run")
