"""Trackers: hooks that a recipe may name, which hand a run's settings and numbers to a program that collects runs.

hooks:
  - {_target_: pdl.train.MLflow, experiment: digits}
  - {_target_: pdl.train.WandB, project: digits}

Where they send it is for the user to say and not for the recipe, by the environment variables and files of these
programs (MLFLOW_TRACKING_URI, `wandb login`). With PDL_OFFLINE=1 W&B keeps its runs in the run folder, for
`wandb sync`, and a server of MLflow is refused.
"""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal

from pdl import watch
from pdl.config.tree import dotted, leaves
from pdl.errors import PackageError, PdlError, UsageError
from pdl.hints import Range, part
from pdl.hub.files import offline
from pdl.train.hooks import Hook
from pdl.train.loop import Trainer

End = Literal["finished", "failed", "interrupted"]


@part
class Tracker(Hook):
    """Base of all trackers. A subclass defines `begin`, `log` and `end`, and keeps in `run_id` under which name its
    program knows the run: a training that is gone on with finds it there.

    What `log` and `end` raise does not end the training: one line says so, and nothing more is sent.

    every   steps between numbers of a step; those of an epoch are always sent
    """

    def __init__(self, *, every: Annotated[int, Range(1)] = 50) -> None:
        self.every, self.run_id = every, ""
        self._open = False

    def begin(self, name: str, settings: Mapping[str, Any], folder: Path) -> None:
        """Open the run, or the one of `run_id`: its name, its recipe as its config.yaml has it, its folder."""
        raise NotImplementedError(f"{type(self).__name__} must define begin")

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Numbers of a step, all finite."""
        raise NotImplementedError(f"{type(self).__name__} must define log")

    def end(self, metrics: Mapping[str, float], how: End) -> None:
        """Close the run; the metrics are those of its test, none where it was not finished."""
        raise NotImplementedError(f"{type(self).__name__} must define end")

    def on_step(self, trainer: Trainer) -> None:
        last = trainer.last
        if trainer.state.step % self.every == 0:
            self._send(self.log, {"loss": last.loss, "lr": last.lr, **last.parts}, trainer.state.step)

    def on_epoch(self, trainer: Trainer) -> None:
        self._send(self.log, {**trainer.epoch_log, "epoch": trainer.state.epoch}, trainer.state.step)

    def start(self, name: str, settings: Mapping[str, Any], folder: Path) -> None:
        """`begin`; UsageError where its program refuses."""
        try:
            self.begin(name, settings, folder)
        except PdlError:
            raise
        except Exception as error:
            raise UsageError(f"hooks: {type(self).__name__} cannot begin: {_said(error)}") from error
        self._open = True

    def finish(self, metrics: Mapping[str, float], how: End) -> None:
        """`end`, once, of a run that was begun."""
        self._send(self.end, metrics, how)
        self._open = False

    def _send(self, call: Callable[..., None], metrics: Mapping[str, float], *more: Any) -> None:
        if not self._open:
            return
        known = {name: float(value) for name, value in metrics.items() if value is not None and math.isfinite(value)}
        try:
            call(known, *more)
        except Exception as error:  # of a foreign program, whose faults must not cost the training
            self._open = False
            watch.note(f"{type(self).__name__}: nothing more is sent: {_said(error)}")

    def state_dict(self) -> dict[str, Any]:
        return {"run_id": self.run_id}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.run_id = str(state.get("run_id", ""))


class MLflow(Tracker):
    """Runs in MLflow (https://mlflow.org/docs/latest/api_reference/python_api/mlflow.client.html): the recipe as
    parameters, losses and metrics by step.

    experiment   made where there is none of that name; by default MLflow's own default
    every        as of `Tracker`
    """

    def __init__(self, *, experiment: str | None = None, every: Annotated[int, Range(1)] = 50) -> None:
        super().__init__(every=every)
        self.experiment = experiment
        self._package = _imported("mlflow", "mlflow")
        self._client: Any = None

    def begin(self, name: str, settings: Mapping[str, Any], folder: Path) -> None:
        place = str(self._package.get_tracking_uri())
        if offline() and not place.startswith(("file:", "sqlite:", "/", ".")):
            raise UsageError(f"PDL_OFFLINE is set, and MLflow would send to {place}; unset one of the two")
        self._client = self._package.MlflowClient()
        if self.run_id:
            self._client.update_run(self.run_id, status="RUNNING")
            return
        run = self._client.create_run(self._experiment(), run_name=name)
        self.run_id = run.info.run_id
        param = self._package.entities.Param
        found = [param(dotted(key), str(value)[:500]) for key, value in leaves(dict(settings))]
        for some in _pieces(found, 100):  # as many as MLflow takes at once
            self._client.log_batch(self.run_id, params=some)

    def _experiment(self) -> str:
        if self.experiment is None:
            return os.environ.get("MLFLOW_EXPERIMENT_ID", "0")
        found = self._client.get_experiment_by_name(self.experiment)
        return str(found.experiment_id if found is not None else self._client.create_experiment(self.experiment))

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        now, metric = int(time.time() * 1000), self._package.entities.Metric
        found = [metric(_name(name), value, now, step) for name, value in metrics.items()]
        self._client.log_batch(self.run_id, metrics=found)

    def end(self, metrics: Mapping[str, float], how: End) -> None:
        for name, value in metrics.items():
            self._client.log_metric(self.run_id, _name(name), value)
        status = {"finished": "FINISHED", "failed": "FAILED", "interrupted": "KILLED"}[how]
        self._client.set_terminated(self.run_id, status=status)


class WandB(Tracker):
    """Runs in Weights & Biases (https://docs.wandb.ai/ref/python/): the recipe as config, losses and metrics by step,
    the test as summary. Its files lie in the run folder.

    project, group   as in W&B
    every            as of `Tracker`
    """

    def __init__(
        self, *, project: str | None = None, group: str | None = None, every: Annotated[int, Range(1)] = 50
    ) -> None:
        super().__init__(every=every)
        self.project, self.group = project, group
        self._package = _imported("wandb", "wandb")
        self._run: Any = None

    def begin(self, name: str, settings: Mapping[str, Any], folder: Path) -> None:
        self._run = self._package.init(
            project=self.project,
            group=self.group,
            name=name,
            config=dict(settings),
            dir=str(folder),
            id=self.run_id or None,
            resume="allow" if self.run_id else None,
            mode="offline" if offline() else None,
        )
        self.run_id = self._run.id

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        self._run.log(dict(metrics), step=step)

    def end(self, metrics: Mapping[str, float], how: End) -> None:
        self._run.summary.update(dict(metrics))
        self._run.finish(exit_code=0 if how == "finished" else 1)


def _imported(module: str, distribution: str) -> Any:
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise PackageError(f"this hook needs {module}: pip install {distribution}") from error


def _said(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def _name(metric: str) -> str:
    """A name as MLflow takes it: letters, digits, and some signs, of which @ is none."""
    return re.sub(r"[^\w\-. :/]", "_", metric.replace("@", "_at_"))


def _pieces(items: list[Any], most: int) -> list[list[Any]]:
    return [items[start : start + most] for start in range(0, len(items), most)]
