"""Trackers: the names and arguments of the calls are those of the documentation of MLflow and W&B; what a foreign
program raises costs no training.

The fakes take what the documented signatures take (MlflowClient of MLflow 2 and 3; wandb.init and wandb.Run of W&B),
and nothing else.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import pdl.workflow
from pdl import config
from pdl.cli import main
from pdl.errors import ConfigError, PackageError, UsageError
from pdl.train import Hook, MLflow, Recipe
from tests.framework.config.broken import GOOD

CALLS: list[tuple[Any, ...]] = []


class MlflowClient:
    """https://mlflow.org/docs/latest/api_reference/python_api/mlflow.client.html"""

    def get_experiment_by_name(self, name: str) -> Any:
        CALLS.append(("get_experiment_by_name", name))

    def create_experiment(self, name: str, artifact_location: Any = None, tags: Any = None) -> str:
        CALLS.append(("create_experiment", name))
        return "7"

    def create_run(
        self, experiment_id: str, start_time: Any = None, tags: Any = None, run_name: str | None = None
    ) -> Any:
        CALLS.append(("create_run", experiment_id, run_name))
        return SimpleNamespace(info=SimpleNamespace(run_id="r1"))

    def update_run(self, run_id: str, status: str | None = None, name: str | None = None) -> None:
        CALLS.append(("update_run", run_id, status))

    def log_batch(
        self, run_id: str, metrics: Any = (), params: Any = (), tags: Any = (), synchronous: bool | None = None
    ) -> None:
        assert len(params) <= 100
        assert len(metrics) <= 1000
        CALLS.append(("log_batch", run_id, *metrics, *params))

    def log_metric(self, run_id: str, key: str, value: float, timestamp: Any = None, step: Any = None) -> None:
        CALLS.append(("log_metric", run_id, key))

    def set_terminated(self, run_id: str, status: str | None = None, end_time: int | None = None) -> None:
        assert status in ("FINISHED", "FAILED", "KILLED")
        CALLS.append(("set_terminated", run_id, status))


class WandbRun:
    """https://docs.wandb.ai/ref/python/sdk/classes/run/"""

    id = "w1"

    def __init__(self) -> None:
        self.summary = SimpleNamespace(update=lambda values: CALLS.append(("summary", *values)))

    def log(self, data: dict[str, Any], step: int | None = None, commit: bool | None = None) -> None:
        assert all(isinstance(value, float) for value in data.values())
        CALLS.append(("log", step, *data))

    def finish(self, exit_code: int | None = None, quiet: bool | None = None) -> None:
        CALLS.append(("finish", exit_code))


def wandb_init(
    *,
    project: str | None = None,
    group: str | None = None,
    name: str | None = None,
    config: dict[str, Any] | None = None,
    dir: str | None = None,
    id: str | None = None,
    resume: str | None = None,
    mode: str | None = None,
) -> WandbRun:
    CALLS.append(("init", project, name, id, resume, mode, config, dir))
    return WandbRun()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, demo: None) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PDL_OFFLINE", raising=False)
    Path("recipe.yaml").write_text(GOOD)
    entities = SimpleNamespace(
        Metric=lambda key, value, timestamp, step: (key, step), Param=lambda key, value: (key, value)
    )
    fake = SimpleNamespace(MlflowClient=MlflowClient, entities=entities, get_tracking_uri=lambda: "https://x")
    monkeypatch.setitem(sys.modules, "mlflow", fake)
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=wandb_init))
    CALLS.clear()
    return tmp_path


HOOKS = "hooks=[{_target_:pdl.train.%s,every:3}]"
SHORT = ("train.epochs=1", "train.report=false", "data.batch_size=16")


def test_mlflow_is_told(place: Path) -> None:
    words = ["train", "-c", "recipe.yaml", "--run", "run", *SHORT]
    assert main([*words, "hooks=[{_target_:pdl.train.MLflow,experiment:digits,every:3}]"]) == 0
    names = [call[0] for call in CALLS]
    assert names[:3] == ["get_experiment_by_name", "create_experiment", "create_run"]
    assert CALLS[2] == ("create_run", "7", "run")
    assert ("model.width", "8") in CALLS[3]
    assert CALLS[4] == ("log_batch", "r1", ("loss", 3), ("lr", 3))
    assert {key for key, _ in CALLS[5][2:]} == {"train/loss", "lr", "val/loss", "epoch"}
    assert {call[2] for call in CALLS if call[0] == "log_metric"} == {"val/loss", "train/loss"}
    assert CALLS[-1] == ("set_terminated", "r1", "FINISHED")


def test_wandb_is_told(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PDL_OFFLINE", "1")
    assert main(["train", "-c", "recipe.yaml", "--run", "run", *SHORT, HOOKS % "WandB"]) == 0
    name, project, run, known, resume, mode, settings, folder = CALLS[0]
    assert (name, project, run, known, resume, mode, folder) == ("init", None, "run", None, None, "offline", "run")
    assert settings["model"]["width"] == 8
    assert [call[:2] for call in CALLS[1:-2]] == [("log", 3), ("log", 4)]
    assert CALLS[-2:] == [("summary", "val/loss", "train/loss"), ("finish", 0)]


class Break(Hook):
    """Ends the training at its third step."""

    def on_step(self, trainer: Any) -> None:
        if trainer.state.step == 3:
            trainer.interruption = KeyboardInterrupt()


def test_a_run_that_goes_on_is_the_same_run(place: Path) -> None:
    recipe = config.load("recipe.yaml", [*SHORT, "hooks=[{_target_:pdl.train.MLflow},{_target_:pdl.train.WandB}]"])
    with pytest.raises(KeyboardInterrupt):
        pdl.workflow.train(recipe, run="run", hooks=[Break()], progress=False)
    assert CALLS[-3:] == [("set_terminated", "r1", "KILLED"), ("summary",), ("finish", 1)]
    CALLS.clear()
    pdl.workflow.train(recipe, run="run", resume=True, progress=False)
    assert CALLS[0] == ("update_run", "r1", "RUNNING")
    assert CALLS[1][3:5] == ("w1", "allow")


def test_a_fault_of_theirs_costs_no_training(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: Any, **more: Any) -> None:
        raise ConnectionError("no route\nto host")

    monkeypatch.setattr(WandbRun, "log", broken)
    recipe = config.load("recipe.yaml", [*SHORT, HOOKS % "WandB"])
    with pytest.warns(RuntimeWarning, match=r"^WandB: nothing more is sent: no route$"):
        assert pdl.workflow.train(recipe, run="run", progress=False).status == "finished"
    assert len(CALLS) == 1
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=broken))
    with pytest.raises(UsageError, match="hooks: WandB cannot begin: no route"):
        pdl.workflow.train(recipe, run="other", progress=False)
    assert not Path("other").exists()


def test_what_a_recipe_may_not(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hooks that write files wherever they are told to are none that a recipe can name."""
    for name in ("EarlyStop", "Hook", "checkpoints.Checkpoints", "log.MetricsLog", "tensorboard.TensorBoard"):
        with pytest.raises(ConfigError, match="hooks"):
            Recipe(config.load("recipe.yaml", [f"hooks=[{{_target_:pdl.train.{name}}}]"]))
    monkeypatch.setenv("PDL_OFFLINE", "1")
    with pytest.raises(UsageError, match="PDL_OFFLINE is set, and MLflow would send to https://x"):
        MLflow().start("run", {}, Path())
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(PackageError, match="pip install mlflow"):
        MLflow()
