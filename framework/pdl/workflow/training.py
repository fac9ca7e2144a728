"""`train` a recipe into a run folder, or `profile` its first steps."""

from __future__ import annotations

import json
import shlex
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pdl import checkpoint, random
from pdl.checkpoint import LAST
from pdl.config import Config, diff
from pdl.distributed.group import Group, world
from pdl.errors import CheckError, NumericalError, PdlError, UsageError, listed
from pdl.files import write_atomic
from pdl.hub.pretrained import collected, deferred
from pdl.train.assembly import Parts, assemble
from pdl.train.checkpoints import Checkpoints, held
from pdl.train.freeze import Frozen
from pdl.train.hooks import EarlyStop, Hook
from pdl.train.log import MetricsLog, Progress, append_log, short
from pdl.train.loop import Evaluation, Trainer
from pdl.train.loop import evaluate as evaluate_split
from pdl.train.parallel import ParallelTrainer
from pdl.train.profiler import Profiler
from pdl.train.recipe import Recipe
from pdl.train.settings import TrainSettings
from pdl.train.task import Task
from pdl.train.tensorboard import TensorBoard
from pdl.train.tracking import Tracker
from pdl.workflow.baselines import has_baselines, measured
from pdl.workflow.exporting import FILE, deployment_of, describe, write_bundle
from pdl.workflow.opening import opening, position
from pdl.workflow.report import write_report
from pdl.workflow.result import Result, identity
from pdl.workflow.run import Run
from pdl.workflow.run_warnings import OneAnswer, absent_classes, below_baseline, left_out, one_answer
from pdl.workflow.selection import selection

# What may differ between a run and its resumption: nothing that a weight depends on.
FREE = (
    "train.checkpoint_every", "train.checkpoint_seconds", "train.keep_last", "train.log_every", "train.tensorboard",
    "train.report", "train.export", "train.nan_check", "train.test_weights", "data.workers", "data.prefetch",
    "data.cache", "data.test", "hooks", "distributed",
)  # fmt: skip
TEST = ("data.test", "train.test_weights")
FAST_BATCHES = 2
TRACE, PROFILE = "trace.json", "profile.json"
OVERFIT_EPOCHS, OVERFIT_RATIO = 300, 0.1


def train(
    recipe: Recipe | Config | dict[str, Any],
    *,
    run: str | Path | None = None,
    resume: bool = False,
    fast_dev_run: bool = False,
    overfit: int = 0,
    hooks: Sequence[Hook] = (),
    progress: bool = True,
    verbose: bool = False,
) -> Result:
    """Train a recipe into a run folder, test it, and write the report.

    run           the folder; by default runs/<recipe>-<n>
    resume        go on from the last checkpoint of `run` (from the beginning if it has none yet)
    fast_dev_run  two batches of everything
    overfit       train on this many samples only, until their loss is a tenth; CheckError if that never happens
    hooks         of your own, before the trainer's
    progress      print progress on standard error; the run's train.log has it in any case
    verbose       with a line every `train.log_every` steps, and more at the beginning
    """
    recipe = recipe if isinstance(recipe, Recipe) else Recipe(recipe)
    settings, mode = _settings(recipe, fast_dev_run, overfit), {"fast_dev_run": fast_dev_run, "overfit": overfit}
    group = job(recipe)
    if group is not None and group.rank:
        return _follow(group, recipe, settings, resume, fast_dev_run, overfit, hooks)
    trackers = recipe.trackers()
    with _folder(recipe, run, resume) as folder, _explained(folder, mode), _tracked(trackers):
        each = settings.log_every if verbose else None
        printed = Progress(sys.stderr if progress else None, every=each, path=folder.log)
        printed.say([f"run      {folder.path}"])
        task = folder.task(recipe)
        with random.fork_seed(settings.seed):
            going_on = resume and folder.resumable
            with deferred() if going_on else nullcontext(), collected() as reports:
                parts = assemble(task, recipe, seed=settings.seed, overfit=overfit, look=True)
            limit = FAST_BATCHES if fast_dev_run else None
            trainer = _trainer(recipe, task, parts, settings, limit=limit, plain_lr=overfit > 0, group=group)
            absent = [*left_out(parts.datasets), *absent_classes(parts.datasets, task.unlearned)]
            adapted = [line for report in reports for line in report.lines()]
            trainer.notes = [*opening(recipe, parts, trainer, verbose=verbose), *adapted]
            trainer.notes += [f"warning: {each}" for each in absent]
            trainer.hooks = [*hooks, *trackers, *_hooks(folder, settings, overfit, printed, _classes(task))]
            folder.begin(recipe, task, mode, [report.to_dict() for report in reports])
            if group is not None:
                trainer.notes.append(f"{group.size} processes on {listed(sorted(set(group.hosts)))} share each batch")
                _hand_out(group, folder.checkpoints / LAST if going_on else None)
            if going_on:
                trainer.load_state_dict(checkpoint.load(folder.checkpoints / LAST))
                trainer.notes.append(position(trainer, tested=folder.result.is_file()))
            for tracker in trackers:
                tracker.start(folder.path.name, folder.settings(), folder.path)
            trainer.fit()
        stopped = "stopped early" if trainer.state.stopped else "finished"
        status = "fast dev run" if fast_dev_run else "overfit" if overfit else stopped
        result = _finish(folder, recipe, trainer, parts, status, absent)
        folder.note("", *(f"{name:<20}{_text(value)}" for name, value in result.rows()))
        for tracker in trackers:
            tracker.finish(result.metrics, "finished")
        if group is not None:
            group.rest()
            group.texts(json.dumps(result.to_dict()))
        return result


def job(recipe: Recipe) -> Group | None:
    """The processes of this job, of which the recipe may say how many they are; None where this one is alone."""
    group = world()
    if recipe.distributed.data not in (1, 1 if group is None else group.size):
        here = "this process is alone" if group is None else f"there are {group.size}"
        raise UsageError(
            f"distributed.data={recipe.distributed.data}: {here}; start that many processes "
            f"(pdl train --workers {recipe.distributed.data} ...)"
        )
    if group is not None:
        group.timeout = recipe.distributed.timeout
    return group


def _follow(
    group: Group,
    recipe: Recipe,
    settings: TrainSettings,
    resume: bool,
    fast_dev_run: bool,
    overfit: int,
    hooks: Sequence[Hook],
) -> Result:
    """What `train` is on all ranks but the first: the same steps, and nothing is written."""
    task: Task = recipe.task.build()
    with random.fork_seed(settings.seed):
        parts = assemble(task, recipe, seed=settings.seed, overfit=overfit, look=False)
        limit = FAST_BATCHES if fast_dev_run else None
        trainer = _trainer(recipe, task, parts, settings, limit=limit, plain_lr=overfit > 0, group=group)
        ending: list[Hook] = [EarlyStop(settings.early_stop)] if settings.early_stop is not None else []
        trainer.hooks = [*hooks, *ending, *([Overfit()] if overfit else [])]
        if recipe.distributed.zero:
            trainer.hooks.append(Checkpoints(None, every=settings.checkpoint_every))
        saved = _hand_out(group, None)
        if saved is not None:
            trainer.load_state_dict(saved)
        trainer.fit()
    group.rest()
    return Result(**json.loads(group.texts("")[0]))


def _hand_out(group: Group, path: Path | None) -> dict[str, Any] | None:
    """The checkpoint that rank 0 goes on from, on all others; None where there is none. It goes by way of messages:
    other machines may not see the folder."""
    size = np.array([path.stat().st_size if path is not None else 0], np.int64)
    group.broadcast(size)
    if not size[0]:
        return None
    content = np.fromfile(path, np.uint8) if path is not None else np.empty(int(size[0]), np.uint8)
    group.broadcast(content)
    if path is not None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / LAST
        content.tofile(copy)
        return checkpoint.load(copy)


def _text(value: Any) -> str:
    return short(value) if isinstance(value, float) else str(value)


@contextmanager
def _tracked(trackers: Sequence[Tracker]) -> Iterator[None]:
    """The trackers are told where the block raises."""
    try:
        yield
    except BaseException as error:
        for tracker in trackers:
            tracker.finish({}, "interrupted" if isinstance(error, KeyboardInterrupt) else "failed")
        raise


def profile(recipe: Recipe | Config | dict[str, Any], *, run: str | Path | None = None, steps: int = 20) -> Profiler:
    """Train a recipe for a few steps and record where their time goes, into trace.json and profile.json of a new run
    folder (`run`; by default runs/<recipe>-<n>). Nothing is evaluated and no weights are kept.
    """
    recipe = recipe if isinstance(recipe, Recipe) else Recipe(recipe)
    settings = recipe.settings
    task: Task = recipe.task.build()
    profiler = Profiler(steps)
    with Run.new(run, recipe.name) as folder, random.fork_seed(settings.seed):
        parts = assemble(task, recipe, seed=settings.seed, splits=("train",))
        trainer = _trainer(recipe, task, parts, replace(settings, max_steps=None), limit=None, plain_lr=False)
        trainer.settings = replace(trainer.settings, epochs=10**9)  # it ends when enough steps are recorded
        trainer.hooks = [profiler]
        folder.begin(recipe, task, {"profile": steps})
        trainer.fit()
        profiler.write_trace(folder.path / TRACE)
        write_atomic(folder.path / PROFILE, (json.dumps(profiler.to_dict()) + "\n").encode())
    return profiler


@contextmanager
def _folder(recipe: Recipe, run: str | Path | None, resume: bool) -> Iterator[Run]:
    """A new folder, or the one to go on in, whose recipe must be this one; held as long as it is trained into."""
    if not resume:
        with Run.new(run, recipe.name) as folder:
            yield folder
    elif run is None:
        raise UsageError("resume: which run? name its folder (pdl train --resume RUN)")
    else:
        folder = Run.open(run)
        with held(folder.path):
            check_same(folder, recipe)
            yield folder


def check_same(folder: Run, recipe: Recipe, *, tested: bool = False) -> None:
    """UsageError where a recipe is not that of a run, but for what no weight depends on and what was learned from the
    data; where the run has been `tested`, not for what its test depends on either."""
    learned = {f"{section}.{key}" for section, keys in folder.describe().get("learned", {}).items() for key in keys}
    free = tuple(key for key in FREE if not (tested and key in TEST)) + tuple(learned)
    changed = [each for each in diff(folder.config(), recipe.config) if not each.key.startswith(free)]
    if changed:
        lines = "\n".join(f"  {each}" for each in changed)
        raise UsageError(
            f"{folder.path}: these settings differ from the run's own, so the weights would not be those of one run:\n"
            f"{lines}\nleave them as they were, or start a new run"
        )


def _settings(recipe: Recipe, fast_dev_run: bool, overfit: int) -> TrainSettings:
    settings = recipe.settings
    if fast_dev_run:
        return replace(settings, epochs=1, eval_every=1, log_every=1, early_stop=None)
    if overfit:
        own = {"max_steps": None, "ema": None, "early_stop": None, "monitor": "val/loss", "monitor_mode": "min"}
        return replace(settings, epochs=OVERFIT_EPOCHS, **own)  # type: ignore[arg-type]
    return settings


def _trainer(
    recipe: Recipe,
    task: Task,
    parts: Parts,
    settings: TrainSettings,
    *,
    limit: int | None,
    plain_lr: bool,
    group: Group | None = None,
) -> Trainer:
    frozen = Frozen(parts.model, settings.freeze)  # before the optimiser, which takes what is left
    optimizer = recipe.optim.build(params=parts.model)
    schedule = None if plain_lr or recipe.schedule is None else recipe.schedule.build()
    make = Trainer if group is None else partial(ParallelTrainer, group, recipe.distributed)
    return make(task, parts.model, optimizer, parts.loaders, settings, schedule=schedule, limit=limit, frozen=frozen)


def _classes(task: Task) -> list[str]:
    return list(getattr(task, "classes", None) or ())


def _hooks(folder: Run, settings: TrainSettings, overfit: int, printed: Progress, classes: Sequence[str]) -> list[Hook]:
    """The checkpoint comes last: it must see all others as they will be."""
    made: list[Hook] = [MetricsLog(folder.path / "metrics.jsonl", settings.log_every)]
    if settings.early_stop is not None:
        made.append(EarlyStop(settings.early_stop))
    if overfit:
        made.append(Overfit())
    else:
        made.append(OneAnswer(classes))
    if settings.tensorboard:
        made.append(TensorBoard(folder.path / "tensorboard", settings.log_every))
    every, seconds = settings.checkpoint_every, settings.checkpoint_seconds
    return [*made, printed, Checkpoints(folder.checkpoints, every=every, seconds=seconds, keep_last=settings.keep_last)]


class Overfit(Hook):
    """Stop when the loss on the few samples has fallen to a tenth of what it was before the first step."""

    def __init__(self) -> None:
        self.first: float | None = None
        self.value = float("nan")

    def on_start(self, trainer: Trainer) -> None:
        if self.first is None:
            self.first = trainer.evaluate("val").metrics["val/loss"]

    def on_evaluate(self, trainer: Trainer, evaluation: Evaluation) -> None:
        self.value = evaluation.metrics["val/loss"]
        if self.first is not None and self.value <= OVERFIT_RATIO * self.first:
            trainer.state.stopped = "the few samples are learned"

    def on_end(self, trainer: Trainer) -> None:
        if not trainer.state.stopped:
            fell = f"in {trainer.state.epoch} epochs the loss went from {self.first:.4g} to {self.value:.4g}"
            raise CheckError(
                f"overfit: {fell}, not to a tenth; a model that cannot learn a few samples has a fault: look at "
                "optim.lr, the labels, and the transforms for evaluation"
            )

    def state_dict(self) -> dict[str, Any]:
        return {"first": self.first}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.first = state.get("first")


@contextmanager
def _explained(folder: Run, mode: dict[str, Any]) -> Iterator[None]:
    """Where training ends early, the error says what can be gone on from."""
    try:
        yield
    except NumericalError as error:
        if folder.resumable:
            error.args = (f"{error.args[0]}\nthe last good checkpoint is {folder.checkpoints / LAST}",)
        folder.note(str(error))
        raise
    except KeyboardInterrupt as error:
        what, nothing = str(error) or "interrupted", "before the first checkpoint, so there is nothing to go on from"
        error.args = (f"{what}; go on with: {folder.resumption(mode)}" if folder.resumable else f"{what} {nothing}",)
        folder.note(str(error))
        raise
    except PdlError as error:
        folder.note(str(error))
        raise


def _finish(folder: Run, recipe: Recipe, trainer: Trainer, parts: Parts, status: str, absent: Sequence[str]) -> Result:
    """Load the weights the test is to use, test, measure the baselines, and write result and report. `absent`: what is
    said of classes that a split lacks."""
    which = trainer.settings.test_weights if trainer.state.best is not None else "last"
    weights = folder.load_weights(trainer.model, which) + (f", by {trainer.monitor}" if which == "best" else "")
    split = next(each for each in ("test", "val", "train") if each in trainer.loaders)
    if trainer.state.stopped:
        trainer.emit("on_message", f"stopped after epoch {trainer.state.epoch}: {trainer.state.stopped}")
    trainer.emit("on_message", f"measuring on {split}; weights: {weights}")
    evaluation = evaluate_split(trainer.task, trainer.model, trainer.loaders[split], split=split, limit=trainer.limit)
    validation = trainer.state.best_metrics if which == "best" else trainer.state.metrics
    figures = trainer.task.summary_metrics(evaluation)
    metrics = {**figures, **evaluation.metrics, **validation, "train/loss": trainer.state.train_loss}
    result = _result(folder, recipe, trainer, status, weights, metrics)
    stopped = bool(trainer.state.stopped) and trainer.settings.early_stop is not None
    result.selection = selection(which, trainer.monitor, parts.datasets, stopped_early=stopped)
    result.warnings = [*absent]
    answers = one_answer(evaluation, _classes(trainer.task))
    result.warnings += [answers] if answers else []
    result.save(folder.result)
    if status in ("finished", "stopped early") and has_baselines(trainer.task):
        _beside(result, trainer, recipe, parts, split)
        behind = below_baseline(result, trainer.monitor, trainer.monitor_mode)
        result.warnings += [behind] if behind else []
        result.save(folder.result)
    line = {"kind": "test", "step": trainer.state.step, **result.metrics, "weights": weights}
    append_log(folder.path / "metrics.jsonl", line)
    if trainer.settings.report:
        dataset = getattr(trainer.loaders[split], "dataset", None)
        monitored = trainer.monitor, trainer.monitor_mode
        write_report(
            folder.path, recipe, result, trainer.task, evaluation, dataset, monitored=monitored, datasets=parts.datasets
        )
    if trainer.settings.export and status != "overfit":
        _export(folder, recipe, trainer, result, getattr(trainer.loaders[split], "dataset", None))
    return result


def _beside(result: Result, trainer: Trainer, recipe: Recipe, parts: Parts, split: str) -> None:
    """Measure the baselines; a fault there costs their numbers and not the run's."""
    found = {name: value for name, value in result.metrics.items() if name.startswith(f"{split}/")}
    first = {f"{split}/loss", f"{split}/{trainer.monitor.partition('/')[2]}"} & set(found) or set(found)
    reached = ", ".join(f"{name} {value:.4g}" for name, value in found.items() if name in first)
    trainer.emit("on_message", f"{reached}; measuring the baselines on {split}")
    try:
        result.baselines = measured(trainer.task, recipe, parts.datasets, split)
    except PdlError as error:
        trainer.emit("on_message", f"no baselines: {str(error).splitlines()[0]}")


def _export(folder: Run, recipe: Recipe, trainer: Trainer, result: Result, dataset: Any) -> None:
    """Write model.pdl; where that cannot be, one line says why."""
    try:
        deployer = trainer.task.deployer(recipe)
        deployment = deployment_of(deployer, trainer.model, dataset)
        describe(deployment, deployer.card(trainer.model), result.metrics, result, weights=result.weights)
        write_bundle(folder.path / FILE, deployment, folder, result.metrics)
    except PdlError as error:
        trainer.emit("on_message", f"no {FILE} was written: {str(error).splitlines()[0]}")


def _result(
    folder: Run, recipe: Recipe, trainer: Trainer, status: str, weights: str, metrics: dict[str, float]
) -> Result:
    state = trainer.state
    return Result(
        **identity(folder.describe()["recipe"], folder.path, recipe),
        status=status,
        stopped=trainer.state.stopped,
        seed=trainer.settings.seed,
        epochs=state.epoch,
        steps=state.step,
        seconds=round(state.seconds, 3),
        samples_per_second=round(state.samples / state.seconds, 1) if state.seconds > 0 else None,
        parameters=sum(p.size for p in trainer.model.parameters()),
        weights=weights,
        pretrained=folder.describe().get("pretrained", []),
        metrics=metrics,
        next=_next(folder, recipe, trainer),
    )


def _next(folder: Run, recipe: Recipe, trainer: Trainer) -> str:
    """The command to type next."""
    run = shlex.quote(str(folder.path))
    try:
        deployer = trainer.task.deployer(recipe)
    except UsageError:  # a task that is only trained
        return f"pdl info {run}"
    return f"pdl predict {run} {deployer.example(trainer.loaders, folder.path)}"
