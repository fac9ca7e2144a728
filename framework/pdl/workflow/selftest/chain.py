"""The steps of a self-test, and what came of them."""

from __future__ import annotations

import math
import os
import shutil
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from pdl import checkpoint
from pdl.config import from_dict
from pdl.config.named import find, name_of
from pdl.config.tree import shown
from pdl.errors import CheckError, PackageError, PdlError
from pdl.export.deployment import Deployment
from pdl.runtime.predict import pipeline_of, predict
from pdl.train import Hook
from pdl.train.log import read_log
from pdl.train.task import SPLITS
from pdl.workflow import Result, Run, evaluate, train
from pdl.workflow import predict as ask
from pdl.workflow.exporting import deployment_of, export
from pdl.workflow.selftest.compare import differences
from pdl.workflow.selftest.tiny import Cut, Skipped, cut_down

INPUTS = 8
ALL = 1_000_000  # answers asked of an input: every class
METRIC_TOLERANCE = 1e-4
#: the same of a metric that is no loss: ranks and classes jump where scores are nearly equal, as after a few steps; one
#: answer of thirty may
JUMP = 0.035


@dataclass
class Outcome:
    """What came of one recipe.

    status   passed, failed or skipped (something it needs is not on this machine)
    step     the step it ended at
    reason   why it did not pass
    data     "own data", or the stand-in that was used
    facts    numbers met on the way: loss, metrics, size of the bundle, ...
    notes    lines that the trainer or the export printed
    """

    recipe: str
    status: Literal["passed", "failed", "skipped"] = "failed"
    step: str = ""
    reason: str = ""
    data: str = ""
    seconds: float = 0.0
    facts: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def run(
    recipe: str | Path,
    overrides: Sequence[str] = (),
    *,
    folder: Path,
    tell: Callable[[str], object] = lambda step: None,
) -> Outcome:
    """Take one recipe through all steps below `folder`; whatever goes wrong is in the outcome. `tell` is called with
    the name of each step that begins.
    """
    file = find(recipe)
    trial = Trial(file, tuple(overrides), folder, Outcome(name_of(file) or shown(file)))
    begun = time.monotonic()
    try:
        with _offline():
            for name, step in STEPS.items():
                trial.outcome.step = name
                tell(name)
                step(trial)
        trial.outcome.status = "passed"
    except (Skipped, PackageError) as error:
        trial.outcome.status, trial.outcome.reason = "skipped", str(error)
    except PdlError as error:
        trial.outcome.reason = str(error)
    except Exception as error:  # a bug in a recipe's part is a finding, and the other recipes go on
        last = traceback.extract_tb(error.__traceback__)[-1]
        trial.outcome.reason = f"{type(error).__name__}: {error} ({last.filename}:{last.lineno})"
    trial.outcome.seconds = round(time.monotonic() - begun, 2)
    return trial.outcome


@dataclass
class Trial:
    """What the steps hand on."""

    recipe: Path
    overrides: tuple[str, ...]
    folder: Path
    outcome: Outcome
    cut: Cut | None = None
    result: Result | None = None
    bundle: Path | None = None

    @property
    def path(self) -> Path:
        """The run folder."""
        return self.folder / "run"

    @property
    def again(self) -> Path:
        """The folder of the run that is interrupted and resumed."""
        return self.folder / "resumed"

    @property
    def split(self) -> str:
        """The split that the run was tested on."""
        data = Run.open(self.path).config()["data"]
        return next(name for name in reversed(SPLITS) if data.get(name) is not None)


def _data(trial: Trial) -> None:
    trial.cut = cut_down(trial.recipe, trial.overrides, trial.folder / "data")
    trial.outcome.data = trial.cut.data
    trial.outcome.notes += [*filter(None, [trial.cut.why]), *trial.cut.fresh]


def _train(trial: Trial) -> None:
    assert trial.cut is not None
    snapshot = _Snapshot(trial.path, trial.again)
    hooks = [_Notes(trial.outcome.notes), snapshot]
    trial.result = train(trial.cut.config, run=trial.path, hooks=hooks, progress=False)
    lines = [line for line in read_log(trial.path / "metrics.jsonl") if line["kind"] == "epoch"]
    epochs = [line["train/loss"] for line in lines]
    against = any(name.startswith("train/") and name != "train/loss" for name in lines[0])  # players: one's loss grows
    trial.outcome.facts |= {"loss": [epochs[0], epochs[-1]], "metrics": trial.result.metrics}
    found = trial.result.metrics
    strange = [f"{name} is {value}" for name, value in found.items() if _strange(name, value, snapshot.monitor)]
    if strange:
        raise CheckError(f"not a number: {', '.join(strange)}")
    if not against and not epochs[-1] < epochs[0]:
        steps = f"{trial.result.steps} steps in {len(epochs)} epochs"
        raise CheckError(f"the loss does not fall: {epochs[0]:.4g} in the first epoch, {epochs[-1]:.4g} in the last "
                         f"({steps})")  # fmt: skip


def _resume(trial: Trial) -> None:
    """A run that goes on from a checkpoint in the middle of its last epoch ends with the very same weights."""
    assert trial.cut is not None
    for name in ("config.yaml", "run.json"):
        shutil.copy(trial.path / name, trial.again)
    tree = trial.cut.config.plain()
    tree["train"]["report"] = False
    config = from_dict(tree)
    config.path = trial.cut.config.path
    train(config, run=trial.again, resume=True, progress=False)
    whole, parted = (checkpoint.load(Run(each).checkpoints / checkpoint.LAST) for each in (trial.path, trial.again))
    other = [name for name, value in whole["model"].items() if not _same(value, parted["model"].get(name))]
    if other:
        raise CheckError(
            f"a run resumed from a checkpoint ends with other weights than one that was not interrupted: {other[0]}"
            + (f" and {len(other) - 1} more" if other[1:] else "")
        )


def _evaluate(trial: Trial) -> None:
    """The run folder alone gives the numbers that the training ended with."""
    _compare_metrics(trial, trial.path, "pdl eval of the run")


def _export(trial: Trial) -> None:
    made = export(trial.path, trial.folder / "model.pdl")
    trial.bundle = made.path
    trial.outcome.facts["bundle_bytes"] = made.path.stat().st_size
    trial.outcome.notes += made.notes


def _predict(trial: Trial) -> None:
    """The bundle answers as the run does, and measures the same."""
    assert trial.bundle is not None
    deployment, inputs = _inputs(trial)
    pipeline = pipeline_of(deployment)
    topk = ALL if pipeline.ranks else None
    ours, theirs = ([p.to_dict() for p in predict(model, inputs, topk=topk)] for model in (deployment, trial.bundle))
    found = differences(ours, theirs)
    answers = ask(trial.path, inputs)  # of the run itself, which may know more than its bundle
    if len(answers) != len(ours):
        raise CheckError(f"the run gives {len(answers)} answers, its bundle {len(ours)}")
    trial.outcome.facts |= {"inputs": len(inputs), "difference": found.largest}
    if found.lines:
        more = f" (and {len(found.lines) - 1} more)" if found.lines[1:] else ""
        raise CheckError(f"the bundle answers otherwise than the run: {found.lines[0]}{more}")
    _compare_metrics(trial, trial.bundle, "pdl eval of the bundle")


STEPS: dict[str, Callable[[Trial], None]] = {
    "data": _data, "train": _train, "resume": _resume, "evaluate": _evaluate, "export": _export, "predict": _predict,
}  # fmt: skip
"""What a recipe is taken through, in order."""


def _inputs(trial: Trial) -> tuple[Deployment, list[Any]]:
    """What the run would deploy, and a few inputs as people give them: samples of the split that it was tested on, and
    the file that it suggests."""
    folder = Run.open(trial.path)
    run = folder.opened()
    dataset = run.recipe.data.datasets((trial.split,))[trial.split]
    deployment = deployment_of(run.task.deployer(run.recipe), run.model, dataset)
    example = Path((Result.load(folder.result).next or "").rpartition(" ")[2])
    return deployment, [*deployment.samples[:INPUTS], *([example] if example.is_file() else [])]


def _compare_metrics(trial: Trial, what: Path, said: str) -> None:
    assert trial.result is not None
    for name, value in evaluate(what, split=trial.split).metrics.items():
        known = trial.result.metrics[name]
        tolerance = METRIC_TOLERANCE if name.endswith("loss") else JUMP
        both = math.isnan(value) and math.isnan(known)
        if not both and not math.isclose(value, known, rel_tol=tolerance, abs_tol=tolerance):
            raise CheckError(f"{said} gives {name} {value:.6g}, training ended with {known:.6g}")


def _strange(name: str, value: float, monitor: str) -> bool:
    """Whether a metric is no number that must be one: a loss, or what is monitored. Others are NaN where nothing can be
    measured, as the precision of large objects where there are none."""
    needed = name.endswith("loss") or name.partition("/")[2] == monitor.partition("/")[2]
    return math.isinf(value) or (math.isnan(value) and needed)


def _same(left: Any, right: Any) -> bool:
    return right is not None and np.array_equal(np.asarray(left), np.asarray(right), equal_nan=True)


class _Notes(Hook):
    """Keeps what the trainer says."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines

    def on_message(self, trainer: Any, line: str) -> None:
        self.lines.append(line)


class _Snapshot(Hook):
    """Writes the checkpoint of an interruption in the middle of the last epoch into another folder."""

    def __init__(self, run: Path, folder: Path) -> None:
        self.best, self.folder = Run(run).checkpoints / checkpoint.BEST, Run(folder).checkpoints
        self.monitor = ""  # which metric decides on the best weights

    def on_step(self, trainer: Any) -> None:
        self.monitor, lengths = trainer.monitor, trainer.lengths()
        total = lengths["total_steps"]
        if trainer.state.step == (2 if total is None else max(1, total - max(1, lengths["steps_per_epoch"] // 2))):
            self.folder.mkdir(parents=True, exist_ok=True)
            checkpoint.save(self.folder / checkpoint.LAST, trainer.state_dict())
            if self.best.is_file():
                shutil.copy(self.best, self.folder)


@contextmanager
def _offline() -> Iterator[None]:
    """PDL_OFFLINE=1 inside the block: what is not on this machine is absent."""
    before = os.environ.get("PDL_OFFLINE")
    os.environ["PDL_OFFLINE"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["PDL_OFFLINE"]
        else:
            os.environ["PDL_OFFLINE"] = before
