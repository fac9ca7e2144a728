"""Sweeps: values of settings, seeds and folds in one table; what is finished is loaded."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
import pytest

from pdl.cli import main
from pdl.config import load
from pdl.config.sweeps import Interval, grid
from pdl.data import ArrayDataset, Fold
from pdl.data.splits import of_fold, stratified_folds
from pdl.errors import ConfigError, UsageError
from pdl.train import Recipe
from pdl.workflow.folds import best_mean_epoch, chosen_within, folded, protocol
from pdl.workflow.leaderboards import Row
from pdl.workflow.sweeps import sweep
from tests.framework.workflow.test_leaderboard import SMALL

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("small.yaml").write_text(SMALL.format(channels=4, lr=0.01))
    return tmp_path


def test_values_are_hydras() -> None:
    ends = ["e=int(interval(1,5))", "f=tag(log,interval(0.1,1))", "g=log(1e-4, 0.1)", "h=int(log(2,8))"]
    found = grid(["a=1,2", "+b=range(3)", "c=[1,2]", "d=choice(x,'y z')", *ends])
    assert found.fixed == ["c=[1,2]"]
    assert found.axes == {"a": ["1", "2"], "+b": ["0", "1", "2"], "d": ["x", "y\\ z"]}
    assert found.intervals == {
        "e": Interval(1, 5), "f": Interval(0.1, 1, True), "g": Interval(1e-4, 0.1, True), "h": Interval(2, 8, True)
    }  # fmt: skip
    assert [each.whole for each in found.intervals.values()] == [True, False, False, True]
    assert len(found.points()) == 12
    assert found.points()[1] == {"a": "1", "+b": "0", "d": "y\\ z"}
    for words, says in ((["a=1,2", "a=3,4"], "a is given twice"), (["a"], "key=value")):
        with pytest.raises(ConfigError, match=says):
            grid(words)
    with pytest.raises(ConfigError, match="several values for one key are for `pdl sweep`"):
        load("cv/digits_lenet", ["optim.lr=1,2"])


def test_a_grid_over_seeds(place: Path, capsys: Capture) -> None:
    words = ["sweep", "-c", "small.yaml", "optim.lr=0.0,0.02", "train.seed=3,5", "train.log_every=7"]
    assert main([*words, "--json", "--markdown", "table.md"]) == 0
    board = json.loads(capsys.readouterr().out)
    assert board["metrics"][:2] == ["val/accuracy", "test/accuracy"]
    rows = [row for row in board["rows"] if not row["baseline"]]
    assert [row["name"] for row in rows] == ["optim.lr=0.02", "optim.lr=0.0"]
    assert rows[0]["seeds"] == [3, 5]
    files = [Path(f"runs/small-sweep/optim.lr=0.02,train.seed={seed}/result.json") for seed in (3, 5)]
    values = [json.loads(file.read_text())["metrics"]["val/accuracy"] for file in files]
    assert rows[0]["metrics"]["val/accuracy"]["mean"] == pytest.approx(mean(values))
    assert rows[0]["metrics"]["val/accuracy"]["std"] == pytest.approx(stdev(values))
    assert "| optim.lr=0.02 |" in Path("table.md").read_text()

    files[1].unlink()
    assert main([*words, "-q"]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    columns = ["val/accuracy", "test/accuracy", "test/top5", "test/f1", "test/auc", "seeds", "parameters", "time"]
    assert said.out.split()[: len(columns)] == columns
    assert main(words) == 0
    assert capsys.readouterr().err.count("loaded from") == 4
    assert main(["sweep", "-c", "small.yaml", "train.seed=3", "optim.lr=0.02,0.0", "--runs", "runs/small-sweep"]) == 0
    assert main([*words, "model.channels=[2,8]"]) == 2
    assert "these settings differ" in capsys.readouterr().err


@pytest.mark.parametrize("validate", ["inner", "held_out", None])
def test_folds_are_stratified_and_each_sample_is_tested_once(validate: Any) -> None:
    labels = np.random.default_rng(0).choice(3, 100, p=[0.6, 0.3, 0.1])
    data = [ArrayDataset(x=np.arange(60), label=labels[:60]), ArrayDataset(x=np.arange(60, 100), label=labels[60:])]
    cut = {
        split: [Fold(list(data), split=split, fold=k, folds=5, validate=validate) for k in range(5)]  # type: ignore[arg-type]
        for split in ("train", "val", "test")
    }
    seen = np.concatenate([fold.get_batch(np.arange(len(fold)))["x"] for fold in cut["test"]])
    assert sorted(seen.tolist()) == list(range(100))
    for k in range(5):
        own = {split: {int(fold[k][i]["x"]) for i in range(len(fold[k]))} for split, fold in cut.items()}
        assert own["train"].isdisjoint(own["test"] | own["val"])
        assert own["train"] | own["test"] | own["val"] == set(range(100))
        assert own["val"] == {"inner": own["val"] - own["test"], "held_out": own["test"], None: set()}[validate]
        assert len(own["test"]) == 20
        counts = np.bincount(cut["test"][k].labels, minlength=3)  # type: ignore[arg-type]
        assert abs(counts - np.bincount(labels) / 5).max() < 1
    assert of_fold(stratified_folds(labels, 5), None, 0, 5, validate).tolist() == list(range(100))
    with pytest.raises(ConfigError, match="fold=5 of 5 folds"):
        Fold(list(data), split="test", fold=5, folds=5)
    with pytest.raises(ConfigError, match="100 samples cannot be cut into 101 folds"):
        Fold(list(data), split="test", fold=0, folds=101)


def test_any_recipe_is_cross_validated(place: Path, capsys: Capture) -> None:
    words = ["sweep", "-c", "small.yaml", "--folds", "3", "optim.lr=0.01,0.03"]
    assert main([*words, "--json"]) == 0
    said = capsys.readouterr()
    board = json.loads(said.out)
    pool = "3 folds of the 1,797 samples of data.train and data.val and data.test"
    assert board["notes"][0].startswith(f"{pool}, stratified by its 10 classes. Each fold is tested once; the next one")
    rows = {row["name"]: row for row in board["rows"]}
    assert rows["optim.lr=0.01"]["seeds"] == [0, 1, 2]
    assert rows["majority"]["baseline"]
    assert len(rows["majority"]["metrics"]["test/accuracy"]["values"]) in (1, 2, 3)
    assert "Each fold with the setting that its own validation likes best: test/accuracy" in board["notes"][1]
    run = "runs/small-sweep/optim.lr=0.01,inner=fold1of3"
    assert main(["eval", run, "--json"]) == 0, "the run of a fold is a run like any other"
    assert (
        json.loads(capsys.readouterr().out)["metrics"]["test/accuracy"]
        == rows["optim.lr=0.01"]["metrics"]["test/accuracy"]["values"][1]
    )
    assert main([*words[:5], "optim.lr=0.01", "--validate", "held_out"]) == 0
    assert "mean of the folds' curves of val/accuracy is best with" in capsys.readouterr().err


def test_what_cannot_be_folded(place: Path, capsys: Capture) -> None:
    text = Path("small.yaml").read_text()
    Path("same.yaml").write_text(text.replace("Digits, split: val}", "Digits, split: test}"))
    recipe = Recipe(load("same.yaml"))
    assert protocol(recipe, 5, "inner").startswith("5 folds of the 1,617 samples of data.train and data.val, ")
    assert len(folded(recipe, 0, 5, "inner").config["data"]["train"]["datasets"]) == 2
    Path("few.yaml").write_text(
        text.replace("{_target_: pdl_cv.data.Digits, split: val}",
                     "{_target_: pdl.data.Few, n: 50, dataset: {_target_: pdl_cv.data.Digits, split: train}}")
    )  # fmt: skip
    for words, says in (
        (["-c", "few.yaml", "--folds", "3"], "data.val: the samples of Few cannot be dealt out to folds"),
        (["-c", "quantum/h2_vqe", "--folds", "3"], "Molecule cannot be dealt out to folds: they are problems to be"),
        (["-c", "small.yaml", "--folds", "1"], "there must be two at least"),
        (["-c", "small.yaml", "--folds", "2"], "nothing is left to train; write --folds 3 or more"),
        (["-c", "small.yaml", "--folds", "3", "--validate", "x"], "choose inner or held_out"),
        (["-c", "small.yaml", "optim.lr=interval(0.1,1)"], "an interval has no end of values"),
        (["-c", "small.yaml", "--trials", "2"], "there is nothing to search"),
        (["small.yaml"], "which recipe? write: -c small.yaml"),
    ):
        assert main(["sweep", *words]) == 2, words
        assert says in capsys.readouterr().err
    assert not Path("runs").exists()


def test_each_fold_chooses_by_its_own_validation() -> None:
    one = Row("a", {"val/accuracy": [0.5, 0.6], "test/accuracy": [0.1, 0.2]}, [0, 1], ["x", "y"])
    two = Row("b", {"val/accuracy": [0.8, 0.6], "test/accuracy": [0.3, 0.4]}, [0, 1], ["x", "y"])
    (line,) = chosen_within([one, two], "val/accuracy", False, ["val/accuracy", "test/accuracy"])
    assert "test/accuracy 0.2500 ± 0.0707" in line, "of equal ones the first"
    assert chosen_within([one], "val/accuracy", False, ["test/accuracy"]) == []


def test_the_epoch_of_the_best_mean(tmp_path: Path) -> None:
    for name, values in (("x", [0.5, 0.9, 0.6]), ("y", [0.5, 0.3, 0.8])):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.yaml").write_text("")
        lines = [{"kind": "epoch", "epoch": 2 * k + 2, "val/rmse": value} for k, value in enumerate(values)]
        (tmp_path / name / "metrics.jsonl").write_text("\n".join(map(json.dumps, lines)))
    row = Row("a", {}, [0, 1], [str(tmp_path / "x"), str(tmp_path / "y")])
    assert "best with 0.7000 ± 0.1000 at epoch 6" in best_mean_epoch(row, "val/rmse", False)
    assert "best with 0.5000 ± 0.0000 at epoch 2" in best_mean_epoch(row, "val/rmse", True)


def test_what_is_not_installed(place: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    words = ["sweep", "-c", "small.yaml", "optim.lr=log(1e-3,1e-1)"]
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert main([*words, "--trials", "3"]) == 2
    assert 'pip install "pdl-core[search]"' in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "ray", None)
    assert main([*words[:-1], "optim.lr=0.1,0.2", "--ray", "local"]) == 2
    assert 'pip install "pdl-core[tune]"' in capsys.readouterr().err


def test_a_run_that_fails_has_a_row_that_says_so(place: Path, capsys: Capture) -> None:
    words = ["sweep", "-c", "small.yaml", "optim.lr=0.01,1e30", "+train.clip_norm=null"]
    assert main(words) == 1
    assert "failed: optim.lr=1e+30" in capsys.readouterr().err
    with pytest.raises(UsageError, match="nothing to search"):
        sweep("small.yaml", ["train.seed=0,1"], trials=2)
