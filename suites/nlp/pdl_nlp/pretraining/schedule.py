"""Which objective a batch is for: stages one after another, as ERNIE 2.0 adds a task in each of them and goes on with
those before (Sun et al., arXiv 1907.12412, section 3.2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import count, islice
from typing import Any

import numpy as np

from pdl.data import Batch, Sample, SampleRandom
from pdl.data.dataset import digest
from pdl.data.randomness import BatchRandom
from pdl.errors import ConfigError, UsageError
from pdl_nlp.data.base import drawn
from pdl_nlp.pretraining.masking import Masking
from pdl_nlp.pretraining.objectives import Objective, endless

BUFFER = 512  # samples of an objective, out of which the next one is drawn


@dataclass(frozen=True)
class Stage:
    """So many optimiser steps, in which objectives have batches in proportion to their weights."""

    steps: int
    weights: Mapping[str, float]


def stages_of(
    given: Sequence[Mapping[str, Any]] | None, objectives: Sequence[str], total: int | None
) -> tuple[Stage, ...]:
    """The stages as a recipe writes them, `{steps: 1000, weights: {masking: 1, distance: 2}}`; without any one for each
    objective, of equally many of the `total` steps, in which it joins those before it, all with one weight."""
    if given is None:
        if total is None:
            raise ConfigError("task.objectives: give train.max_steps, or task.stages with the steps of each")
        each, ends = total / len(objectives), range(1, len(objectives) + 1)
        steps = [round(n * each) - round((n - 1) * each) for n in ends]
        return tuple(Stage(s, dict.fromkeys(objectives[:n], 1.0)) for n, s in zip(ends, steps, strict=True))
    found = []
    for number, stage in enumerate(given):
        where, weights = f"task.stages[{number}]", stage.get("weights")
        if set(stage) != {"steps", "weights"} or not isinstance(weights, Mapping):
            raise ConfigError(f"{where}: expected {{steps: 1000, weights: {{masking: 1, distance: 1}}}}")
        if unknown := next((name for name in weights if name not in objectives), None):
            raise ConfigError(f"{where}: {unknown!r} is none of task.objectives ({', '.join(objectives)})")
        if int(stage["steps"]) < 1 or min(weights.values(), default=0) < 0 or not sum(weights.values()) > 0:
            raise ConfigError(f"{where}: steps must be at least 1, weights 0 or more and one of them above 0")
        found.append(Stage(int(stage["steps"]), {name: float(weight) for name, weight in weights.items()}))
    if not found:
        raise ConfigError("task.stages: there is none; leave it out for a stage of each objective")
    return tuple(found)


def turns(stages: Sequence[Stage], accumulate: int = 1) -> Iterator[tuple[int, str]]:
    """The stage and the objective of each batch, without end: the last stage goes on. In a stage the next batch is for
    the objective that is furthest behind its share, of equal ones the first."""
    for number, stage in enumerate(stages):
        total, credit = sum(stage.weights.values()), dict.fromkeys(stage.weights, 0.0)
        last = number == len(stages) - 1
        for _ in count() if last else range(stage.steps * accumulate):
            for name, weight in stage.weights.items():
                credit[name] += weight
            chosen = max(credit, key=credit.__getitem__)
            credit[chosen] -= total
            yield number, chosen


def batch_of(samples: Sequence[Sample], first: int, objective: Objective, masks: Masking, seed: int) -> Batch:
    """Samples of an objective, `first` the number of the first, with masks in; of masked or replaced tokens nothing
    but themselves is to be found."""
    whole = {name: np.stack([sample[name] for sample in samples]) for name in samples[0]}
    numbers = BatchRandom(seed, 0, np.arange(first, first + len(samples))).fork(objective.name)
    made = masks.batch(whole, numbers)
    if "segments" in made:
        made["segments"] = made["segments"].astype(np.int64)
    if objective.tokenwise:
        made[objective.name] = np.where(made["tokens"] == whole["tokens"], whole[objective.name], -1)
    return made


class Scheduled:
    """Batches for training by stages: each is for one objective, whose samples come in pass after pass over the data,
    drawn out of `BUFFER`. An epoch is `epoch_steps` optimiser steps. Every batch is a function of seed and number, so
    a run that is resumed goes on with the batches that it lacks; samples before them are made again.
    """

    def __init__(
        self,
        dataset: Any,
        objectives: Mapping[str, Objective],
        masks: Masking,
        stages: Sequence[Stage],
        *,
        size: int,
        epoch_steps: int,
        accumulate: int = 1,
        seed: int = 0,
    ) -> None:
        self.dataset, self.objectives, self.masks, self.stages = dataset, objectives, masks, tuple(stages)
        self.size, self.epoch_batches, self.accumulate, self.seed = size, epoch_steps * accumulate, accumulate, seed
        self.position = self.stage = 0
        self._begin()

    def _begin(self) -> None:
        """Stand before the first batch."""
        self._made, self._taken = 0, Counter[str]()
        self._turns, self._streams = turns(self.stages, self.accumulate), dict[str, Iterator[Sample]]()

    def _stream(self, name: str) -> Iterator[Sample]:
        if name not in self._streams:
            samples = endless(self.objectives[name], copy(self.dataset), self.seed)
            self._streams[name] = drawn(samples, BUFFER, SampleRandom(self.seed, 0, 0).fork(f"{name} buffer"))
        return self._streams[name]

    def _go_to(self, position: int) -> None:
        """Stand before this batch."""
        if position < self._made:
            self._begin()
        skipped = Counter(name for _, name in islice(self._turns, position - self._made))
        for name, batches in skipped.items():
            next(islice(self._stream(name), batches * self.size - 1, None))
            self._taken[name] += batches
        self._made = position

    def __len__(self) -> int:
        return self.epoch_batches

    def __iter__(self) -> Iterator[Batch]:
        self._go_to(self.position)
        end = (self.position // self.epoch_batches + 1) * self.epoch_batches
        while self._made < end:
            self.stage, name = next(self._turns)
            samples = list(islice(self._stream(name), self.size))
            first = self._taken[name] * self.size
            self._taken[name] += 1
            self._made += 1
            self.position = self._made
            yield batch_of(samples, first, self.objectives[name], self.masks, self.seed)

    def set_epoch(self, epoch: int) -> None:
        """The epoch of the next loop; a position inside of it stays."""
        if not epoch * self.epoch_batches <= self.position < (epoch + 1) * self.epoch_batches:
            self.position = epoch * self.epoch_batches

    def _schedule(self) -> str:
        parts = (f"{stage.steps} {name} {weight}" for stage in self.stages for name, weight in stage.weights.items())
        return digest(*parts, str(self.accumulate), str(self.size), str(self.seed))

    def state_dict(self) -> dict[str, Any]:
        """The position in the schedule: the batches that were given, the stage of the last, and which schedule."""
        return {"batches": self.position, "stage": self.stage, "schedule": self._schedule()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on behind the batch at which `state` was taken."""
        if state.get("schedule") != self._schedule():
            changed = "task.stages, task.objectives, data.batch_size, train.accumulate or the seed"
            raise UsageError(f"the run was begun with another schedule: {changed} changed; leave them, or begin anew")
        self.position, self.stage = int(state["batches"]), int(state["stage"])


class Measured:
    """Batches for evaluation: one pass over the data for each objective."""

    def __init__(
        self, dataset: Any, objectives: Mapping[str, Objective], masks: Masking, *, size: int, seed: int = 0
    ) -> None:
        self.dataset, self.objectives, self.masks, self.size, self.seed = dataset, objectives, masks, size, seed

    def __iter__(self) -> Iterator[Batch]:
        for objective in self.objectives.values():
            samples = endless(objective, copy(self.dataset), self.seed, passes=1)
            for first in count(step=self.size):
                if not (some := list(islice(samples, self.size))):
                    break
                yield batch_of(some, first, objective, self.masks, self.seed)
