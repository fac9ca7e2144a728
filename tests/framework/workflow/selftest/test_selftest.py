"""`pdl selftest` on recipes that cannot pass: each is named with the step and the reason, and the others go on. Those
that pass are the recipes of the suites: tests/cv/test_recipes.py.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdl.cli import main
from pdl.config import load
from pdl.config.named import find
from pdl.data import ArrayDataset, DataFault, Dataset, Fault, Few, StandIn
from pdl.train import Trainer
from pdl.workflow import selftest
from pdl.workflow.selftest import cut_down

Patch = pytest.MonkeyPatch
Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _demo(demo: None, tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.chdir(tmp_path)


def points() -> Any:
    """The data set of the demo suite."""
    import pdl_demo

    return pdl_demo.Points


def test_few_takes_as_many_of_each_class() -> None:
    labels = np.array([0, 0, 0, 0, 2, 2, 1, 0])
    few = Few(ArrayDataset(label=labels, classes=("a", "b", "c")), 5)
    assert few.indices.tolist() == [0, 1, 4, 5, 6]
    assert few.classes == ["a", "b", "c"]
    assert len(Few(ArrayDataset(label=labels), 100)) == 8


def test_few_of_samples_without_classes_is_spread_evenly() -> None:
    assert Few(ArrayDataset(x=np.zeros(100)), 4).indices.tolist() == [0, 25, 50, 75]


def test_cut_down_keeps_the_recipe_but_for_its_size(tmp_path: Path) -> None:
    cut = cut_down("points", ["optim.lr=0.4", "data.batch_size=128"], tmp_path)
    whole = load("points")
    assert cut.data == "own data"
    assert cut.config["data"]["train"] == {"_target_": "pdl.data.Few", "n": 192, "dataset": whole["data"]["train"]}
    assert cut.config["data"]["batch_size"] == 32
    assert cut.config["optim"]["lr"] == pytest.approx(0.4 * (32 / 128) ** 0.5)
    assert cut.config["model"] == whole["model"]
    assert cut.config.path == find("points")


def test_a_task_that_is_not_deployable_fails_at_the_export(tmp_path: Path) -> None:
    begun: list[str] = []
    outcome = selftest.run("points", folder=tmp_path, tell=begun.append)
    assert (outcome.recipe, outcome.status, outcome.step) == ("demo/points", "failed", "export")
    assert "Fit has no deployer" in outcome.reason
    assert begun == ["data", "train", "resume", "evaluate", "export"]
    assert outcome.facts["loss"][1] < outcome.facts["loss"][0]
    assert (tmp_path / "resumed/result.json").is_file()


@pytest.mark.parametrize(
    ("overrides", "step", "says"),
    [
        (["model.widht=3"], "data", "did you mean 'width'?"),
        (["data.val.root=nowhere"], "data", "data.val: pdl_demo.Points: nowhere: no such folder"),
        (["optim.lr=1e9"], "train", "training diverged"),
        (["optim.lr=1.05"], "train", "the loss does not fall"),
    ],
)
def test_what_goes_wrong_is_said(overrides: list[str], step: str, says: str, tmp_path: Path) -> None:
    outcome = selftest.run("points", overrides, folder=tmp_path)
    assert (outcome.status, outcome.step) == ("failed", step)
    assert says in outcome.reason


def test_a_bug_is_a_finding_with_its_line(tmp_path: Path, monkeypatch: Patch) -> None:
    import pdl_demo

    monkeypatch.setattr(pdl_demo.Fit, "smoke_test", lambda self, recipe: {}["no such key"])
    outcome = selftest.run("points", folder=tmp_path)
    assert outcome.status == "failed"
    assert outcome.reason.startswith("KeyError: 'no such key' (")
    assert "test_selftest.py:" in outcome.reason


def test_a_resumed_run_that_ends_elsewhere_fails(tmp_path: Path, monkeypatch: Patch) -> None:
    own = Trainer.load_state_dict

    def forgetful(self: Trainer, tree: dict[str, Any]) -> None:
        tree["loader"]["epoch"] = 0
        tree["model"] = {name: value * np.float32(1.01) for name, value in tree["model"].items()}
        own(self, tree)

    monkeypatch.setattr(Trainer, "load_state_dict", forgetful)
    outcome = selftest.run("points", folder=tmp_path)
    assert (outcome.status, outcome.step) == ("failed", "resume")
    assert "ends with other weights" in outcome.reason


def absent(path: str) -> Any:
    """A constructor whose data cannot be used."""

    def init(self: Dataset, **settings: Any) -> None:
        raise DataFault(Fault(path, None, "cannot be used", "get it"))

    return init


def test_absent_data_without_a_stand_in_is_skipped(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr(points(), "__init__", absent("nowhere"))
    outcome = selftest.run("points", folder=tmp_path)
    assert (outcome.status, outcome.step) == ("skipped", "data")
    assert "pdl_demo.Points has no stand-in" in outcome.reason


def test_damaged_data_is_a_failure_and_not_replaced(tmp_path: Path, monkeypatch: Patch) -> None:
    Path("here").write_text("damaged")
    monkeypatch.setattr(points(), "__init__", absent("here"))
    monkeypatch.setattr(points(), "stand_in", classmethod(lambda cls, folder, settings: StandIn({}, "never")))
    outcome = selftest.run("points", folder=tmp_path / "work")
    assert (outcome.status, outcome.step) == ("failed", "data")
    assert "cannot be used" in outcome.reason


def test_a_stand_in_gives_what_the_recipe_leaves_open(tmp_path: Path, monkeypatch: Patch) -> None:
    places = []

    def stand_in(cls: type, folder: Path, settings: dict[str, Any]) -> StandIn:
        places.append((folder, settings))
        return StandIn({"n": 40}, "other points")

    monkeypatch.setattr(points(), "stand_in", classmethod(stand_in))
    cut = cut_down("points", ["data.train.n='???'", "data.val.n=${data.train.n}"], tmp_path)
    assert (cut.data, cut.why) == ("other points", "data.train.n is for its user to give")
    assert [cut.config["data"][split]["dataset"]["n"] for split in ("train", "val")] == [40, 40]
    assert places[0] == (tmp_path / "Points", {"_target_": "pdl_demo.Points", "split": "train"})


def test_the_command_shows_each_recipe_and_ends_with_1(capsys: Capture, tmp_path: Path) -> None:
    Path("wrong.yaml").write_text("model: {_target_: pdl_demo.Net, width: 8, widht: 3}\nlr: 2\n")
    kept = [each for each in os.listdir("/tmp") if each.startswith("pdl-selftest-")]
    assert main(["selftest", "-c", "wrong.yaml", "-c", "points"]) == 1
    said = capsys.readouterr()
    first, second, last = said.out.splitlines()
    assert first.startswith("✗ wrong.yaml   data: wrong.yaml:1: model.widht: unknown key")
    assert second.startswith("✗ demo/points  export: Fit has no deployer")
    assert last.startswith("2 failed in ")
    assert "    wrong.yaml: task" in said.err
    assert [each for each in os.listdir("/tmp") if each.startswith("pdl-selftest-") and each not in kept] == []


def test_the_command_for_programs(capsys: Capture, monkeypatch: Patch) -> None:
    monkeypatch.setattr(points(), "__init__", absent("nowhere"))
    assert main(["selftest", "--all", "--json", "--keep"]) == 1  # a skip is not a pass
    said = capsys.readouterr()
    found = json.loads(said.out)
    assert {name: found[name] for name in ("passed", "failed", "skipped")} == {"passed": 0, "failed": 0, "skipped": 1}
    assert found["recipes"][0]["recipe"] == "demo/points"
    assert found["recipes"][0]["status"] == "skipped"
    assert Path(said.err.split("kept: ")[1].strip()).is_dir()
