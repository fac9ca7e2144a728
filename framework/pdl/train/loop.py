"""The training loop, from top to bottom.

`Trainer.fit` is epochs of `train_epoch` (gradients, the named point, update; of every player in turn, where a task has
several), each followed by an evaluation.
Whatever else happens hangs on it as hooks. The trainer keeps everything that the next step depends on in its own
objects; the one thing outside is the generator of dropout, `pdl.random`, which `run.train` forks: so two trainings
may follow one another, or alternate, in one process.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

from pdl import autograd, random
from pdl.errors import NumericalError, UsageError
from pdl.kernels.memory import release_cached
from pdl.nn import Module
from pdl.ops import autocast
from pdl.ops.sparse import SparseGrad
from pdl.optim import EMA, Optimizer, Schedule, Scheduler, clip_grad_value_, clip_scale
from pdl.program import CompiledStep, Feeder, Receiver, StepProgram
from pdl.tensor import Tensor, no_grad
from pdl.train.freeze import Frozen, log_lines, lowest_rate
from pdl.train.hooks import Hook
from pdl.train.metrics import Mean
from pdl.train.players import Played, Player, by_name, saved_of
from pdl.train.settings import TrainSettings
from pdl.train.task import Loss, Task

if TYPE_CHECKING:
    from pdl.train.distillation import Distilled
    from pdl.train.tables import ServedTables


@dataclass
class State:
    """The position of a training: plain numbers, written into every checkpoint.

    epoch, batch     finished epochs; batches used in the one under way
    step, samples    optimiser steps, and samples (by `Loss.weight`), since the beginning
    loss, weight     running sum of the training loss in this epoch, and what it is over
    losses           the same sum by player, where there are several; `loss` is that of all
    seconds          spent, over all interruptions
    train_loss       mean over the latest finished epoch
    metrics          of the latest evaluation on the validation data
    best, best_step, best_metrics   of the best one so far
    stopped          why a hook ended training early; "" where none did
    """

    epoch: int = 0
    batch: int = 0
    step: int = 0
    samples: float = 0.0
    loss: float = 0.0
    weight: float = 0.0
    losses: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    train_loss: float = math.nan
    metrics: dict[str, float] = field(default_factory=dict)
    best: float | None = None
    best_step: int | None = None
    best_metrics: dict[str, float] = field(default_factory=dict)
    stopped: str = ""


@dataclass
class StepLog:
    """The numbers of the latest optimiser step; `lowest` is {"lr_lowest": ...} where learning rates differ. Of several
    players `loss` is the sum of their losses, and these are `parts` by name."""

    loss: float = math.nan
    weight: float = 0.0
    lr: float = math.nan
    lowest: dict[str, float] = field(default_factory=dict)
    grad_norm: float | None = None
    parts: dict[str, float] = field(default_factory=dict)


@dataclass
class Evaluation:
    """The result of one pass over a split: `metrics` are numbers by "split/name", `details` the arrays among the
    metrics, `observers` the
    accumulators themselves."""

    split: str
    metrics: dict[str, float]
    details: dict[str, Any]
    observers: dict[str, Any]
    seconds: float


class Trainer:
    """Trains `model` on `loaders["train"]` and evaluates it on `loaders["val"]`, if there is one.

    `optimizer` is that of the model, or the players of a task that has some, which make their turns of every batch in
    this order. `schedule` gives the learning rate of every step as a factor of the optimiser's own. `limit` cuts every
    pass over data to so many batches. `frozen` is the part of the model that is not learned, where the caller has
    frozen it before the optimiser was made; by default what `settings.freeze` says.
    """

    def __init__(
        self,
        task: Task,
        model: Module,
        optimizer: Optimizer | Sequence[Player],
        loaders: dict[str, Iterable[Any]],
        settings: TrainSettings | None = None,
        *,
        schedule: Schedule | None = None,
        hooks: Sequence[Hook] = (),
        limit: int | None = None,
        frozen: Frozen | None = None,
    ) -> None:
        self.task, self.model, self.loaders = task, model, loaders
        self.players = [Player("", model, optimizer)] if isinstance(optimizer, Optimizer) else list(optimizer)
        self.player = self.players[0]  # whose turn it is
        self.settings = settings or TrainSettings()
        self.frozen = Frozen(model, self.settings.freeze) if frozen is None else frozen
        self.hooks, self.limit = list(hooks), limit
        self.notes: list[str] = []  # what to say before the first step
        self.interruption: BaseException | None = None  # raised after the step or epoch under way, and its checkpoint
        if schedule is not None:
            for player in self.players:
                own = deepcopy(schedule) if player.name else schedule
                player.scheduler = Scheduler(player.optimizer, own, **self.lengths())
        self.ema = None if self.settings.ema is None else EMA(model, self.settings.ema, fixed=self.frozen.fixed)
        self.monitor, self.monitor_mode = task.monitored(self.settings)
        self.state, self.last = State(), StepLog()
        self.epoch_log: dict[str, float] = {}  # the numbers of the latest epoch: training loss, lr, validation metrics
        self.improved = False
        if self.settings.compile and not self.settings.nan_check:
            for player in reversed(self.players):
                self.player = player
                self.compiled = self._compiled()
        self._clock = time.monotonic()

    receiver: Receiver | None = None  # of the gradients of compiled steps
    feeder: Feeder | None = None  # of their weights
    tables: ServedTables | None = None  # of the model, on servers
    distilled: Distilled | None = None  # in place of the task's step, with a teacher
    weighted = False  # whether the gradient of `loss` is times its weight already

    @property
    def optimizer(self) -> Optimizer:
        """Of the player whose turn it is, as the next two."""
        return self.player.optimizer

    @optimizer.setter
    def optimizer(self, optimizer: Optimizer) -> None:
        self.player.optimizer = optimizer

    @property
    def scheduler(self) -> Scheduler | None:
        """What sets its learning rate."""
        return self.player.scheduler

    @scheduler.setter
    def scheduler(self, scheduler: Scheduler | None) -> None:
        self.player.scheduler = scheduler

    @property
    def compiled(self) -> CompiledStep | None:
        """Its step as programs; None where it is eager."""
        return self.player.compiled

    @compiled.setter
    def compiled(self, compiled: CompiledStep | None) -> None:
        self.player.compiled = compiled

    @property
    def outcomes(self) -> Outcomes:
        """How batches are evaluated."""
        return outcomes

    def _compiled(self) -> CompiledStep:
        receiver = self.receiver if self.settings.accumulate == 1 else None
        notify = partial(self.emit, "on_message")
        of: Any = Played(self.model, self.player.module) if self.player.name else self.model
        return CompiledStep(self.loss, of, notify=notify, receiver=receiver, feeder=self.feeder)

    def program_for(self, batch: Any) -> StepProgram | None:
        """The compiled step of such batches; None where it is eager."""
        return self.compiled.program_for(batch) if self.compiled is not None else None

    # -- the loop
    # --------------------------------------------------------------------------------------------------------
    def fit(self) -> State:
        """Train from the position in `state` to the end; evaluate every `eval_every` epochs and after the last."""
        self._clock = time.monotonic() - self.state.seconds
        with autograd.detect_anomaly() if self.settings.nan_check else nullcontext():
            try:
                self.emit("on_start")
                lines = [line for player in self.players for line in log_lines(self.frozen, player.optimizer)]
                for line in (*self.notes, *dict.fromkeys(lines)):
                    self.emit("on_message", line)
                while not self.finished:
                    self.train_epoch()
                    self.finish_epoch()
                self.emit("on_end")
                if self.interruption is not None:  # since the last epoch, which ended with a checkpoint
                    raise self.interruption
            finally:
                for hook in self.hooks:
                    hook.close()
        return self.state

    def train_epoch(self) -> None:
        """One pass over the training data, or the rest of one."""
        self.frozen.train()
        for batches in self.step_batches():
            turns = []
            for player in self.players:
                with self.turn(player):
                    for _ in range(player.steps):
                        self.gradients(batches)
                        self.emit("sync_gradients")
                        self.update()
                        turns.append((player, self.last))
            self.advance(turns)
            self.state.step += 1
            self.state.batch += len(batches)
            self.state.seconds = time.monotonic() - self._clock
            self.emit_or_leave("on_step")
            if self.finished:
                return

    @contextmanager
    def turn(self, player: Player) -> Iterator[None]:
        """Inside the block this player learns, and no other."""
        if not player.name:
            yield
            return
        self.player = player
        with player.alone(self.model):
            yield
        self.player = self.players[0]

    def advance(self, turns: Sequence[tuple[Player, StepLog]]) -> None:
        """After all turns of a step: move schedules and averaged weights on; add up the losses of several players."""
        for player in self.players:
            if player.scheduler is not None:
                player.scheduler.step()
        if self.ema is not None:
            self.ema.update()
        if self.player.name:
            self.last = self._together(turns)

    def _together(self, turns: Sequence[tuple[Player, StepLog]]) -> StepLog:
        """One log of the turns of all players: means over those of each."""
        state, weight = self.state, turns[0][1].weight
        parts: dict[str, float] = {}
        for player in self.players:
            name, logs = player.name, [log for each, log in turns if each is player]
            parts[name] = _mean([log.loss for log in logs])
            parts |= {f"{name}/{part}": _mean([log.parts[part] for log in logs]) for part in logs[0].parts}
            if norms := [log.grad_norm for log in logs if log.grad_norm is not None]:
                parts[f"{name}/grad_norm"] = _mean(norms)
            state.losses[name] = state.losses.get(name, 0.0) + parts[name] * weight
        loss = sum(parts[player.name] for player in self.players)
        self._counted(loss * weight, weight)
        return StepLog(loss, weight, turns[0][1].lr, turns[0][1].lowest, None, parts)

    def gradients(self, batches: list[Any]) -> None:
        """The gradient of the mean loss over all samples of these batches, into the parameters' `grad`."""
        loss, parts = self.accumulated(batches)
        self.finite(loss.total / (loss.weight or 1.0), "loss")
        if len(batches) > 1:
            self.scale_gradients(1.0 / loss.weight)
        self.count(loss, parts)

    def accumulated(self, batches: list[Any]) -> tuple[Mean, dict[str, float]]:
        """The loss over all samples of these batches, and the means of its parts. Of one batch `grad` is the gradient
        of its mean, of several the sum of gradients times weights."""
        self.optimizer.zero_grad()
        loss = Mean()
        parts: dict[str, Mean] = {}
        for batch in batches:
            self.emit("on_batch")
            one = self.backward(batch, alone=len(batches) == 1)
            loss.update(float(one.value.item()), float(one.weight))
            for name, part in one.parts.items():
                parts.setdefault(name, Mean()).update(float(part), float(one.weight))
        return loss, {name: part.compute() for name, part in parts.items()}

    def count(self, loss: Mean, parts: dict[str, float]) -> None:
        """Write down the loss of a step."""
        self.last = StepLog(loss.compute(), loss.weight, self.lr, lowest_rate(self.optimizer), None, parts)
        if not self.player.name:  # of several players `advance` does
            self._counted(loss.total, loss.weight)

    def _counted(self, loss: float, weight: float) -> None:
        self.state.loss += loss
        self.state.weight += weight
        self.state.samples += weight

    def loss(self, batch: Any) -> Loss:
        """The training loss of one batch, in the precision of the settings."""
        with autocast() if self.settings.precision == "bf16" else nullcontext():
            if self.distilled is not None:
                return self.distilled(self.task, self.model, batch)
            if self.player.name:
                return self.task.turn(self.player.name, self.model, batch)
            return self.task.step(self.model, batch)

    def backward(self, batch: Any, *, alone: bool) -> Loss:
        """The loss of one batch; its gradient, times the weight of the batch unless it is `alone`, is added to `grad`.

        From a compiled program where `train.compile` is on and the task's code can be traced; eager otherwise.
        """
        program = self.program_for(batch)
        if program is None:
            one = self.loss(batch)
            self.emit("on_loss")
            (one.value if alone or self.weighted else one.value * float(one.weight)).backward()
            return one
        before = [] if alone else [(p, p.grad) for p in self.player.module.parameters()]
        one = program(batch)
        for p, sum_so_far in before:
            if p.grad is None:  # this batch does not reach it
                p.grad = sum_so_far
            else:
                weighted = _owned(p.grad, 1.0 if self.weighted else float(one.weight))
                p.grad = weighted if sum_so_far is None else sum_so_far + weighted
        return one

    def update(self) -> None:
        """Clip, and step the optimiser."""
        if self.settings.clip_value is not None:
            clip_grad_value_(self.updated(), self.settings.clip_value)
        scale = 1.0
        if self.settings.clip_norm is not None:
            norm, scale = self.clip_scale(self.settings.clip_norm)
            self.last.grad_norm = self.finite(norm, "norm of the gradient")
        self.apply(scale)

    def updated(self) -> Iterable[Tensor]:
        """What the optimiser changes."""
        return self.player.module.parameters()

    def clip_scale(self, most: float) -> tuple[float, float]:
        """The norm of the gradient, and the factor that bounds it."""
        return clip_scale(self.player.module.parameters(), most)

    def apply(self, scale: float) -> None:
        """Change the weights by the gradients times `scale`."""
        self.optimizer.step(scale=scale)

    @property
    def in_common(self) -> bool:
        """Whether a checkpoint needs other processes, too."""
        return False

    def agreed(self, flag: bool) -> bool:
        """A decision that hangs on the clock; where others must take it, too, whether one of them has."""
        return flag

    def finish_epoch(self) -> None:
        """Evaluate when it is due, and notify the hooks."""
        self.state.epoch += 1
        self.state.train_loss = self.state.loss / self.state.weight if self.state.weight else math.nan
        self.epoch_log = {"train/loss": self.state.train_loss, "lr": self.lr, **lowest_rate(self.optimizer)}
        self.epoch_log |= {f"train/{name}": total / self.state.weight for name, total in self.state.losses.items()}
        self.improved = False
        if "val" in self.loaders and (self.state.epoch % self.settings.eval_every == 0 or self.finished):
            self.validate()
        self.state.batch, self.state.loss, self.state.weight, self.state.losses = 0, 0.0, 0.0, {}
        self.state.seconds = time.monotonic() - self._clock
        self.emit_or_leave("on_epoch")

    def validate(self) -> Evaluation:
        """Evaluate on the validation data and record whether it was the best so far."""
        evaluation = self.evaluate("val")
        if chosen := self.task.calibrate(evaluation):
            buffers = dict(self.model.named_buffers())
            for name, value in chosen.items():
                buffers[name].data[...] = value
                if self.ema is not None:
                    self.ema.average[name][...] = value
            evaluation = self.evaluate("val")
        state, self.state.metrics = self.state, evaluation.metrics
        self.epoch_log.update(evaluation.metrics)
        if self.monitor not in evaluation.metrics:
            have = ", ".join(evaluation.metrics)
            raise UsageError(f"train.monitor: there is no metric {self.monitor!r}; the task measures {have}")
        value = evaluation.metrics[self.monitor]
        self.improved = better(value, state.best, self.monitor_mode)
        if value == state.best:  # of two that measure the same the surer one
            self.improved = better(evaluation.metrics["val/loss"], state.best_metrics.get("val/loss"), "min")
        if self.improved:
            state.best, state.best_step, state.best_metrics = value, state.step, evaluation.metrics
        for player in self.players:
            if player.scheduler is not None:
                player.scheduler.observe(value, self.monitor_mode)
        self.emit("on_evaluate", evaluation)
        return evaluation

    def evaluate(self, split: str) -> Evaluation:
        """Loss and metrics over a split, with the averaged weights where there are some. Leaves no trace in the
        training."""
        training = self.model.training
        with random.fork_seed(self.settings.seed), self.averaged():
            evaluation = evaluate(
                self.task, self.model, self.loaders[split], split=split, limit=self.limit, outcomes=self.outcomes
            )
        self.frozen.train(training)
        return evaluation

    # -- its parts
    # -------------------------------------------------------------------------------------------------------
    def training_batches(self) -> Iterator[Any]:
        """The batches of this epoch that are still to come."""
        loader, done = self.loaders["train"], self.state.batch
        if hasattr(loader, "set_epoch"):
            loader.set_epoch(self.state.epoch)
        seen = 0 if hasattr(loader, "load_state_dict") else done
        return islice(loader, seen, None if self.limit is None else max(seen, seen + self.limit - done))

    def step_batches(self) -> Iterator[list[Any]]:
        """The batches of each step that is still to come."""
        return grouped(self.training_batches(), self.settings.accumulate)

    def lengths(self) -> dict[str, Any]:
        """Optimiser steps of the whole training (None where only the data knows) and of an epoch."""
        each = steps_per_epoch(self.loaders["train"], self.settings.accumulate, self.limit)
        return {
            "total_steps": total_steps(self.loaders["train"], self.settings, self.limit),
            "steps_per_epoch": each or 1,
        }

    def scale_gradients(self, factor: float) -> None:
        """Multiply every gradient; new tensors, because two parameters may share one gradient array."""
        with no_grad():
            for parameter in self.player.module.parameters():
                if parameter.grad is not None:
                    parameter.grad = parameter.grad * factor

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """The model carries the averaged weights inside the block (where `train.ema` is set), and all rows of its
        tables."""
        with (
            self.ema.swapped() if self.ema is not None else nullcontext(),
            self.tables.whole() if self.tables is not None else nullcontext(),
        ):
            yield

    @property
    def lr(self) -> float:
        """The learning rate of the next step (of the first parameter group; under `layer_decay` that of the head)."""
        return float(self.optimizer.param_groups[0]["lr"])

    @property
    def finished(self) -> bool:
        """Whether there is nothing left to train."""
        state, settings = self.state, self.settings
        enough = settings.max_steps is not None and state.step >= settings.max_steps
        return bool(state.stopped) or enough or state.epoch >= settings.epochs

    def finite(self, value: float, what: str) -> float:
        """`value`; raises where it is NaN or infinite, with what to do about it."""
        if math.isfinite(value):
            return value
        whose = f" of {self.player.name}" if self.player.name else ""
        raise self.diverged(f"the {what}{whose} is {value} at step {self.state.step + 1}")

    def diverged(self, what: str) -> NumericalError:
        """The error to raise when numbers have gone out of bounds: where, at what learning rate, and the remedies."""
        norm = "" if self.last.grad_norm is None else f", gradient norm before: {self.last.grad_norm:.4g}"
        place = f"epoch {self.state.epoch + 1}, lr {self.lr:.3g}, loss before: {self.last.loss:.4g}{norm}"
        remedy = f"lower the learning rate (optim.lr={self.lr / 10:.1g}), bound the step (train.clip_norm=1), or"
        return NumericalError(f"training diverged: {what} ({place}); {remedy} find the op with train.nan_check=true")

    @property
    def leaving(self) -> BaseException | None:
        """What ends this training after the step under way."""
        return self.interruption

    def emit_or_leave(self, event: str) -> None:
        """Call every hook, then raise the `interruption`; one that is set meanwhile has not been seen by all hooks, so
        its checkpoint may not be written: it waits for the next time."""
        interruption = self.leaving
        self.emit(event)
        if interruption is not None:
            raise interruption

    def emit(self, event: str, *arguments: Any) -> None:
        """Call every hook at a named point."""
        for hook in self.hooks:
            getattr(hook, event)(self, *arguments)

    # -- saving and going on
    # ---------------------------------------------------------------------------------------------
    def state_dict(self) -> dict[str, Any]:
        """Everything the next step depends on, as nested dicts of arrays and plain values."""
        loader = self.loaders["train"]
        return {
            "state": asdict(self.state),
            "model": self.model.state_dict(),
            "optimizer": by_name(self.players, lambda p: p.optimizer.state_dict()),
            "schedule": by_name(self.players, lambda p: p.scheduler and p.scheduler.state_dict()),
            "ema": self.ema.state_dict() if self.ema is not None else None,
            "random": random.get_state(),
            "loader": loader.state_dict() if hasattr(loader, "state_dict") else None,
            "hooks": {type(hook).__name__: hook.state_dict() for hook in self.hooks},
        }

    def load_state_dict(self, tree: dict[str, Any]) -> None:
        """Stand exactly where `state_dict` was taken."""
        self.state = State(**tree["state"])
        self.model.load_state_dict(tree["model"])
        for player in self.players:
            player.optimizer.load_state_dict(saved_of(player, tree["optimizer"]))
            saved = saved_of(player, tree["schedule"])
            if player.scheduler is not None and saved is not None:
                player.scheduler.load_state_dict(saved)
        if self.ema is not None and tree["ema"] is not None:
            self.ema.load_state_dict(tree["ema"])
        random.set_state(tree["random"])
        loader = self.loaders["train"]
        if hasattr(loader, "load_state_dict"):
            loader.load_state_dict(tree["loader"])
        for hook in self.hooks:
            hook.load_state_dict(tree["hooks"].get(type(hook).__name__, {}))


Outcomes: TypeAlias = Callable[[Task, Module, Iterable[Any]], Iterable[tuple[Loss, Any]]]


def outcomes(task: Task, model: Module, batches: Iterable[Any]) -> Iterator[tuple[Loss, Any]]:
    """What an evaluation makes of each batch, its outputs as arrays, and the batch."""
    for batch in batches:
        one = task.evaluate(model, batch)
        one.outputs = tuple(x.data if isinstance(x, Tensor) else x for x in one.outputs)
        yield one, batch


def evaluate(
    task: Task,
    model: Module,
    loader: Iterable[Any],
    *,
    split: str,
    limit: int | None = None,
    outcomes: Outcomes = outcomes,
) -> Evaluation:
    """One pass over the batches of a split, in evaluation mode (which the model is left in) and without gradients.

    Free memory goes back to the operating system at the end: batches of many shapes leave blocks of many sizes, of
    which programs that train, in memory of their own, take none."""
    metrics, loss, started = task.metrics(), Mean(), time.monotonic()
    if hasattr(loader, "set_epoch"):
        loader.set_epoch(0)
    model.eval()
    with no_grad():
        for one, batch in outcomes(task, model, islice(loader, limit)):
            if one.known:
                loss.update(float(one.value.item()), float(one.weight))
            task.update_metrics(metrics, one, batch)
    measured = {"loss": loss.compute()} if loss.weight else {}
    values = {**measured, **{name: metric.compute() for name, metric in metrics.items()}}
    numbers = {f"{split}/{name}": float(value) for name, value in values.items() if isinstance(value, float | int)}
    details = {name: value for name, value in values.items() if not isinstance(value, float | int)}
    release_cached()
    return Evaluation(split, numbers, details, metrics, time.monotonic() - started)


def _owned(g: Tensor, factor: float) -> Tensor:
    """A gradient times a number, in memory of its own: that of a program is overwritten by its next run."""
    scaled = g.detach() * factor
    if isinstance(scaled, SparseGrad):
        scaled.rows = Tensor(scaled.rows.data.copy())
    return scaled


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def grouped(batches: Iterator[Any], n: int) -> Iterator[list[Any]]:
    """Lists of n batches; the last may be shorter."""
    while group := list(islice(batches, n)):
        yield group


def better(value: float, best: float | None, mode: str) -> bool:
    """Whether a metric's value beats the best so far; NaN never does."""
    if math.isnan(value):
        return False
    return best is None or (value > best if mode == "max" else value < best)


def steps_per_epoch(loader: Any, accumulate: int, limit: int | None = None) -> int | None:
    """Optimiser steps in one pass over a loader, or None for a stream without a length."""
    try:
        batches = len(loader)
    except TypeError:
        return limit and math.ceil(limit / accumulate)
    return math.ceil(min(batches, batches if limit is None else limit) / accumulate)


def total_steps(loader: Any, settings: TrainSettings, limit: int | None = None) -> int | None:
    """Optimiser steps of a whole training, or None where only the data knows."""
    each = steps_per_epoch(loader, settings.accumulate, limit)
    known = [n for n in (settings.max_steps, each and each * settings.epochs) if n is not None]
    return min(known) if known else None


__all__ = ["Evaluation", "Loss", "State", "StepLog", "Trainer", "steps_per_epoch", "total_steps"]
