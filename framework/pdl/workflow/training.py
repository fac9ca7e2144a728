"""`train` a recipe into a run folder, or `profile` its first steps."""

from __future__ import annotations

import json
import shlex
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pdl import checkpoint, random
from pdl.checkpoint import LAST
from pdl.config import Config, diff
from pdl.distributed.elastic import member
from pdl.distributed.group import Group, Silence, world
from pdl.errors import CheckError, NumericalError, PdlError, UsageError, listed
from pdl.files import write_atomic
from pdl.hub.pretrained import collected, deferred
from pdl.nn.init import tables_skipped
from pdl.train.assembly import Parts, assemble
from pdl.train.checkpoints import Checkpoints, held
from pdl.train.freeze import Frozen
from pdl.train.hooks import EarlyStop, Hook
from pdl.train.log import MetricsLog, Progress, append_log, short
from pdl.train.loop import Evaluation, Trainer
from pdl.train.loop import evaluate as evaluate_split
from pdl.train.parallel import ParallelTrainer
from pdl.train.pictures import FOLDER as PICTURES
from pdl.train.pictures import Pictures
from pdl.train.players import learners, refuse_players
from pdl.train.profiler import Profiler
from pdl.train.rank_log import RankLog
from pdl.train.recipe import Recipe
from pdl.train.settings import TrainSettings
from pdl.train.task import Task
from pdl.train.tensorboard import TensorBoard
from pdl.train.tracking import Tracker
from pdl.workflow.baselines import has_baselines, measured
from pdl.workflow.elastic import Elastic
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
    here = member()
    if here is None:
        made = Made(recipe, settings, overfit, hooks)
        return _train(made, mode, run, resume, job(recipe), None, progress=progress, verbose=verbose)
    elastic = Elastic(here, recipe, run, resume)
    with random.fork_seed(settings.seed):
        made = Made(recipe, settings, overfit, hooks)
        made.assemble(Run.open(run) if resume and run is not None else None, look=not here.place)
    return elastic.trained(
        lambda: _train(
            made, mode, elastic.run, elastic.resume, elastic.generation.group, elastic, progress=progress,
            verbose=verbose,
        )
    )  # fmt: skip


@dataclass
class Made:
    """What a training is made of: settings, and, once it is assembled, task and parts, which a process of an elastic
    training keeps."""

    recipe: Recipe
    settings: TrainSettings
    overfit: int
    hooks: Sequence[Hook]
    task: Task | None = None
    parts: Parts | None = None
    reports: Sequence[Any] = ()

    def assemble(self, folder: Run | None, *, look: bool) -> tuple[Task, Parts]:
        """Task and parts; `folder`: the run that is begun or gone on with."""
        if self.task is None or self.parts is None:
            task: Task = self.recipe.task.build() if folder is None else folder.task(self.recipe)
            going_on = folder is not None and folder.resumable
            tables = tables_skipped() if self.recipe.distributed.tables is not None else nullcontext()
            with deferred() if going_on else nullcontext(), tables, collected() as reports:
                self.parts = assemble(task, self.recipe, seed=self.settings.seed, overfit=self.overfit, look=look)
            self.task, self.reports = task, reports
            if reports and self.recipe.distributed.tables is not None:
                raise UsageError(
                    "distributed.tables: pretrained weights do not reach the servers; leave one of the two out"
                )
        return self.task, self.parts


def _train(
    made: Made,
    mode: dict[str, Any],
    run: str | Path | None,
    resume: bool,
    group: Group | None,
    elastic: Elastic | None,
    *,
    progress: bool,
    verbose: bool,
) -> Result:
    """`train`, with the processes that are there."""
    recipe, settings, overfit, fast_dev_run = made.recipe, made.settings, made.overfit, bool(mode["fast_dev_run"])
    if group is not None and group.rank:
        return _follow(group, made, elastic, fast_dev_run=fast_dev_run)
    trackers, again = recipe.trackers(), elastic is not None and elastic.again
    with (
        _folder(recipe, run, resume) as folder, _explained(folder, mode, elastic), _tracked(trackers),
        _logged(group, folder) as log, elastic.folder(folder) if elastic is not None else nullcontext(),
    ):  # fmt: skip
        each = settings.log_every if verbose else None
        printed = Progress(sys.stderr if progress else None, every=each, path=folder.log)
        if not again:
            printed.say([f"run      {folder.path}"])
        with random.fork_seed(settings.seed):
            task, parts = made.assemble(folder, look=True)
            limit = FAST_BATCHES if fast_dev_run else None
            trainer = _trainer(recipe, task, parts, settings, limit=limit, plain_lr=overfit > 0, group=group)
            absent = [*left_out(parts.datasets), *absent_classes(parts.datasets, task.unlearned)]
            adapted = [line for report in made.reports for line in report.lines()]
            trainer.notes = [*opening(recipe, parts, trainer, verbose=verbose), *adapted]
            trainer.notes += [f"warning: {each}" for each in absent]
            own = _hooks(folder, settings, overfit, printed, _classes(task), rest=elastic is None)
            served = [*_served(trainer, folder), *_sparse(recipe, trainer)]
            last_of_all = [elastic.boundary] if elastic is not None else []
            trainer.hooks = [*served, *log, *made.hooks, *trackers, *own, *last_of_all]
            folder.begin(recipe, task, mode, [report.to_dict() for report in made.reports])
            last = folder.checkpoints / LAST if resume and folder.resumable else None
            with elastic.source(folder) if elastic is not None else nullcontext(last) as path:
                if group is not None:
                    hosts = listed(sorted(set(group.hosts)))
                    number, share = ("1 process", "has") if group.size == 1 else (f"{group.size} processes", "share")
                    trainer.notes.append(f"{number} on {hosts} {share} each batch")
                    _hand_out(group, path)
                if path is not None:
                    trainer.load_state_dict(checkpoint.load(path))
                    trainer.notes.append(position(trainer, tested=folder.result.is_file()))
            if again:
                trainer.notes = []
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
    distributed, n = recipe.distributed, 1 if group is None else group.size
    if n % distributed.model or distributed.data not in (1, n // distributed.model):
        wanted = distributed.data * distributed.model
        here = "this process is alone" if group is None else f"there are {group.size} processes"
        axes = [f"{a}={n}" for a in ("pipeline", "tensor") if (n := getattr(distributed, a)) > 1]
        mesh = " x ".join([f"data={distributed.data}", *axes])
        raise UsageError(
            f"distributed.{mesh}: {here}; start {wanted} of them (pdl train --workers {wanted} ...), or another "
            f"multiple of {distributed.model}"
        )
    if group is not None:
        group.timeout = recipe.distributed.timeout
    return group


def _follow(group: Group, made: Made, elastic: Elastic | None, *, fast_dev_run: bool) -> Result:
    """What `train` is on all ranks but the first: the same steps, and nothing is written but a log."""
    recipe, settings, overfit = made.recipe, made.settings, made.overfit
    with _logged(group) as log, random.fork_seed(settings.seed):
        task, parts = made.assemble(None, look=False)
        limit = FAST_BATCHES if fast_dev_run else None
        trainer = _trainer(recipe, task, parts, settings, limit=limit, plain_lr=overfit > 0, group=group)
        ending: list[Hook] = [EarlyStop(settings.early_stop)] if settings.early_stop is not None else []
        served = [*_served(trainer, None), *_sparse(recipe, trainer)]
        trainer.hooks = [*served, *log, *made.hooks, *ending, *([Overfit()] if overfit else [])]
        if trainer.in_common:
            trainer.hooks.append(Checkpoints(None, every=settings.checkpoint_every))
        if elastic is not None:
            trainer.hooks.append(elastic.boundary)
        saved = _hand_out(group, None)
        if saved is not None:
            trainer.load_state_dict(saved)
        trainer.fit()
    group.rest()
    return Result(**json.loads(group.texts("")[0]))


@contextmanager
def _logged(group: Group | None, folder: Run | None = None) -> Iterator[list[RankLog]]:
    """The log of this rank in the run folder, whose path the first one tells the others; none where there is no job."""
    if group is None:
        yield []
        return
    path = group.texts("" if folder is None else str(folder.path.absolute()))[0]
    with RankLog(group, Path(path)) as log:
        yield [log]


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
            tracker.finish({}, "interrupted" if isinstance(error, KeyboardInterrupt | Silence) else "failed")
        raise


def profile(recipe: Recipe | Config | dict[str, Any], *, run: str | Path | None = None, steps: int = 20) -> Profiler:
    """Train a recipe for a few steps and record where their time goes, into trace.json and profile.json of a new run
    folder (`run`; by default runs/<recipe>-<n>). Nothing is evaluated and no weights are kept. All processes of a job
    make this call; the first writes one trace of all of them.
    """
    recipe = recipe if isinstance(recipe, Recipe) else Recipe(recipe)
    settings = recipe.settings
    task: Task = recipe.task.build()
    group = job(recipe)
    profiler = Profiler(steps, group)
    first = group is None or not group.rank
    with Run.new(run, recipe.name) if first else nullcontext() as folder, random.fork_seed(settings.seed):
        parts = assemble(task, recipe, seed=settings.seed, splits=("train",))
        endless = replace(settings, max_steps=None)
        trainer = _trainer(recipe, task, parts, endless, limit=None, plain_lr=False, group=group)
        trainer.settings = replace(trainer.settings, epochs=10**9)  # it ends when enough steps are recorded
        trainer.hooks = [*_served(trainer, folder), profiler]
        if folder is not None:
            folder.begin(recipe, task, {"profile": steps})
        trainer.fit()
        profiler.write_trace(Path() if folder is None else folder.path / TRACE)
        if folder is not None:
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
    others = {"distributed": group, "distributed.tables": recipe.distributed.tables, "compress": recipe.compress}
    for what in (name for name, given in others.items() if given is not None):
        refuse_players(task, parts.model, what)
    optimizer: Any = learners(recipe, task, parts.model)
    schedule = None if plain_lr or recipe.schedule is None else recipe.schedule.build()
    tables, loaders = None, parts.loaders
    if recipe.distributed.tables is not None:
        from pdl.train.tables import Ahead, ServedTables

        tables = ServedTables(recipe.distributed, settings, task, parts.model, optimizer, group)
        if recipe.distributed.tables.prefetch and recipe.distributed.tables.mode in ("async", "ssp"):
            loaders = {**loaders, "train": Ahead(loaders["train"], tables)}
    make: Any = Trainer if group is None else partial(ParallelTrainer, group, recipe.distributed)
    if group is not None and recipe.distributed.model > 1:
        from pdl.train.meshed import MeshedTrainer

        make = partial(MeshedTrainer, group, recipe.distributed)
    made: Trainer = make(task, parts.model, optimizer, loaders, settings, schedule=schedule, limit=limit, frozen=frozen)
    made.tables = tables
    if recipe.compress is not None and recipe.compress.distil is not None:
        from pdl.train.distillation import Distilled
        from pdl.workflow.teachers import teacher

        distil = recipe.compress.distil
        made.distilled = Distilled(distil, teacher(distil.teacher), parts.model)
    return made


def _served(trainer: Trainer, folder: Run | None) -> list[Hook]:
    """The hook of the tables that servers have, where there are some: the first, as others may evaluate."""
    tables = trainer.tables
    if tables is None:
        return []
    if folder is not None:
        place = tables.settings.folder
        tables.folder = (folder.path if place is None else Path(place) / folder.path.name).absolute() / "tables"
    return [tables]


def _sparse(recipe: Recipe, trainer: Trainer) -> list[Hook]:
    """The hook that makes weights zeros, where the recipe has some."""
    if recipe.compress is None or recipe.compress.sparse is None:
        return []
    from pdl.train.sparsity import Sparsity

    distributed = recipe.distributed
    if distributed.model > 1 or distributed.zero or distributed.local_steps != 1:
        raise UsageError("compress.sparse: every process has all weights, and all have the same; leave out zero, "
                         "local_steps, tensor and pipeline")  # fmt: skip
    return [Sparsity(recipe.compress.sparse, trainer.model)]


def _classes(task: Task) -> list[str]:
    return list(getattr(task, "classes", None) or ())


def _hooks(
    folder: Run, settings: TrainSettings, overfit: int, printed: Progress, classes: Sequence[str], *, rest: bool
) -> list[Hook]:
    """The checkpoint comes last: it must see all others as they will be. `rest`: short epochs need not end with one."""
    made: list[Hook] = [MetricsLog(folder.path / "metrics.jsonl", settings.log_every)]
    if settings.early_stop is not None:
        made.append(EarlyStop(settings.early_stop))
    if overfit:
        made.append(Overfit())
    else:
        made.append(OneAnswer(classes))
    made.append(Pictures(folder.path / PICTURES))
    if settings.tensorboard:
        made.append(TensorBoard(folder.path / "tensorboard", settings.log_every))
    every, seconds, keep_last = settings.checkpoint_every, settings.checkpoint_seconds, settings.keep_last
    last = Checkpoints(folder.checkpoints, every=every, seconds=seconds, keep_last=keep_last, rest=rest)
    return [*made, printed, last]


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
def _explained(folder: Run, mode: dict[str, Any], elastic: Elastic | None) -> Iterator[None]:
    """Where training ends early, the error says what can be gone on from."""
    try:
        yield
    except NumericalError as error:
        if folder.resumable:
            error.args = (f"{error.args[0]}\nthe last good checkpoint is {folder.checkpoints / LAST}",)
        folder.note(str(error))
        raise
    except KeyboardInterrupt as error:
        if elastic is None or elastic.final(error):
            nothing = " before the first checkpoint, so there is nothing to go on from"
            go_on = f"; go on with: {folder.resumption(mode)}" if folder.resumable else nothing
            error.args = (f"{str(error) or 'interrupted'}{go_on}",)
            folder.note(str(error))
        raise
    except PdlError as error:
        if elastic is None or elastic.final(error):
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
        result.bounds = [*trainer.task.bounds]
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
