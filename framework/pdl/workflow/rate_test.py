"""`lr_find`: the learning-rate range test (Smith, "Cyclical Learning Rates for Training Neural Networks", WACV 2017,
arXiv 1506.01186): a few steps with a rate that rises from one to the next, and the loss at each."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pdl import random
from pdl.config import Config
from pdl.errors import CheckError, NumericalError, UsageError
from pdl.optim import Schedule
from pdl.report import Section, document, line_chart, table
from pdl.train.assembly import assemble
from pdl.train.freeze import Frozen
from pdl.train.hooks import Hook
from pdl.train.loop import Trainer
from pdl.train.players import refuse_players
from pdl.train.recipe import Recipe
from pdl.train.task import Task

SMOOTH = 0.9  # decay of the mean over steps
WORSE = 4.0  # the test ends where the loss is so many times the least one
FEWEST = 10  # steps that say something


@dataclass(frozen=True)
class RateTest:
    """What a range test found.

    rates, losses   of every step; losses smoothed by an exponential mean
    suggested       the rate where the loss falls fastest over the logarithm of the rate
    least           the rate with the least loss: more is too much
    """

    rates: list[float]
    losses: list[float]
    suggested: float
    least: float

    def rows(self, most: int = 16) -> list[tuple[str, float, str]]:
        """About `most` of the steps: rate, loss, and a bar as long as the loss."""
        chosen = sorted({round(i) for i in np.linspace(0, len(self.rates) - 1, most)})
        low, high = min(self.losses), max(self.losses)
        bars = [round(24 * (self.losses[i] - low) / ((high - low) or 1.0)) for i in chosen]
        return [(f"{self.rates[i]:.2e}", self.losses[i], "#" * bar) for i, bar in zip(chosen, bars, strict=True)]

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return {"suggested": self.suggested, "least": self.least, "lr": self.rates, "loss": self.losses}

    def page(self, title: str) -> str:
        """An HTML page with the curve."""
        points = [(math.log10(rate), loss) for rate, loss in zip(self.rates, self.losses, strict=True)]
        chart = f'<div class="charts">{line_chart({"loss": points}, x_label="log10 of the learning rate")}</div>'
        facts = table([("suggested", f"optim.lr={self.suggested:.1e}"), ("least loss at", f"{self.least:.1e}")])
        return document(f"{title}: learning rates", [Section("Suggestion", facts), Section("Loss", chart)])


def lr_find(recipe: Recipe | Config, *, start: float = 1e-6, end: float = 1.0, steps: int = 100) -> RateTest:
    """Train a fresh model for some steps while its learning rate rises from `start` to `end` by the same factor each
    step, until the loss is four times the least one. Nothing is evaluated or written; the schedule of the recipe has no
    part in it.

    CheckError where the loss does not fall at any rate.
    """
    if not 0 < start < end or steps < FEWEST:
        rule = f"the rates must rise (0 < {start:g} < {end:g}), in {FEWEST} steps at least ({steps})"
        raise UsageError(f"lr_find: {rule}")
    recipe = recipe if isinstance(recipe, Recipe) else Recipe(recipe)
    settings = replace(recipe.settings, epochs=10**9, max_steps=steps, ema=None)
    task: Task = recipe.task.build()
    seen = Rising()
    with random.fork_seed(settings.seed):
        parts = assemble(task, recipe, seed=settings.seed, splits=("train",))
        frozen = Frozen(parts.model, settings.freeze)
        refuse_players(task, parts.model, "lr_find")
        optimizer = recipe.optim.build(params=parts.model)
        base = float(optimizer.param_groups[0]["lr"])
        if base <= 0:
            raise UsageError("lr_find: optim.lr is the unit of its rates, so it must be more than 0")
        schedule = Growing(start / base, end / base, steps)
        trainer = Trainer(
            task, parts.model, optimizer, parts.loaders, settings, schedule=schedule, hooks=[seen], frozen=frozen
        )
        with suppress(NumericalError):  # the rate was too much: what came before says it
            trainer.fit()
    return judged(seen.rates, seen.losses)


class Growing(Schedule):
    """From one factor to another, by the same ratio each step."""

    def __init__(self, first: float, last: float, steps: int) -> None:
        self.first, self.last, self.steps = first, last, steps

    def __call__(self, step: float, total: float | None = None, epoch: float = 1) -> float:
        return float(self.first * (self.last / self.first) ** (min(step, self.steps - 1) / (self.steps - 1)))


class Rising(Hook):
    """Keeps rate and smoothed loss of every step, and ends the test where the loss has gone up."""

    def __init__(self) -> None:
        self.rates: list[float] = []
        self.losses: list[float] = []
        self._mean, self._weight = 0.0, 0.0

    def on_step(self, trainer: Trainer) -> None:
        self._mean = SMOOTH * self._mean + (1 - SMOOTH) * trainer.last.loss
        self._weight = SMOOTH * self._weight + 1 - SMOOTH
        self.rates.append(trainer.last.lr)
        self.losses.append(self._mean / self._weight)
        if len(self.losses) >= FEWEST and self.losses[-1] > WORSE * min(self.losses) > 0:
            trainer.state.stopped = "the loss has gone up"


def judged(rates: list[float], losses: list[float]) -> RateTest:
    """The steepest descent before the least loss."""
    if len(rates) < FEWEST:
        raise CheckError(f"lr_find: the loss broke after {len(rates)} steps; begin with a smaller rate (--start)")
    least = int(np.argmin(losses))
    slopes = np.gradient(np.array(losses), np.log(rates))
    steepest = int(np.argmin(slopes[: least + 1]))
    if least == 0 or slopes[steepest] >= 0:
        raise CheckError(
            f"lr_find: the loss falls at no rate from {rates[0]:.1e} to {rates[-1]:.1e}; look at labels and transforms "
            "(pdl check), or whether the model learns a few samples (pdl train --overfit 16)"
        )
    return RateTest(rates, losses, rates[steepest], rates[least])
