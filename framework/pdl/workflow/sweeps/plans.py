"""From settings to the runs that they stand for."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pdl.config import load
from pdl.config.sweeps import Grid, Interval
from pdl.errors import ConfigError
from pdl.train.recipe import Recipe
from pdl.workflow.folds import Validate, folded
from pdl.workflow.leaderboards import Plan, planned

SEED = "train.seed"
LONGEST = 120  # characters of a folder's name


@dataclass(frozen=True)
class Job:
    """One run: its plan, and what another process is told of it."""

    plan: Plan
    order: dict[str, Any]


@dataclass(frozen=True)
class Maker:
    """From a setting to the runs it stands for."""

    file: Path
    over: Grid
    runs: Path
    folds: int
    validate: Validate

    @property
    def seeds(self) -> list[str]:
        """The values of train.seed that make the members of a row; folds are members themselves."""
        return [] if self.folds else self.over.axes.get(SEED, [])

    @property
    def axes(self) -> dict[str, list[str]]:
        """The lists of values whose combinations have a row each."""
        return {key: values for key, values in self.over.axes.items() if key != SEED or self.folds}

    def first(self) -> Recipe:
        """The recipe with the first of all seeds, for what is the same for all."""
        return Recipe(load(self.file, [*self.over.fixed, *self._first_seed()]))

    def _first_seed(self) -> list[str]:
        return [f"{SEED}={self.over.axes[SEED][0]}"] if SEED in self.over.axes else []

    def space(self) -> dict[str, list[str] | Interval]:
        """What is searched. An interval between whole numbers of a setting that takes no others is one of those."""
        return {**self.axes, **{key: self._whole(key, each) for key, each in self.over.intervals.items()}}

    def _whole(self, key: str, interval: Interval) -> Interval:
        low, high = int(interval.low), int(interval.high)
        if interval.whole or (low, high) != (interval.low, interval.high):
            return interval
        try:
            Recipe(load(self.file, [*self.over.fixed, *self._first_seed(), f"{key}={low + 0.5}"]))
        except ConfigError:
            return Interval(low, high, interval.log)
        return interval

    def points(self) -> list[dict[str, str]]:
        """The settings of a grid."""
        return Grid(axes=self.axes).points()

    def name(self, settings: dict[str, str]) -> str:
        """What a row is called."""
        return ", ".join(f"{key.lstrip('+')}={value}" for key, value in settings.items()) or self.file.stem

    def jobs(self, point: dict[str, str]) -> list[Job]:
        """The runs of one setting. UsageError where a folder holds another one."""
        made = []
        for seed in self.seeds or [""]:
            settings = point | ({SEED: seed} if seed else {})
            words = [*self.over.fixed, *(f"{key}={value}" for key, value in settings.items())]
            recipe = Recipe(load(self.file, words))
            for fold in range(self.folds) if self.folds else [None]:
                own = recipe if fold is None else folded(recipe, fold, self.folds, self.validate)
                member = recipe.settings.seed if fold is None else fold
                which = settings if fold is None else {**settings, self.validate: f"fold{fold}of{self.folds}"}
                plan = planned(self.name(point), member, own, self.runs / _folder(which))
                order: dict[str, Any] = {"recipe": str(self.file.resolve()), "overrides": words}
                order |= {"fold": fold, "folds": self.folds, "validate": self.validate}
                made.append(Job(plan, {**order, "folder": str(plan.folder.path.resolve())}))
        return made


def ordered(order: dict[str, Any]) -> Recipe:
    """The recipe of a job's order."""
    recipe = Recipe(load(order["recipe"], order["overrides"]))
    return recipe if order["fold"] is None else folded(recipe, order["fold"], order["folds"], order["validate"])


def _folder(settings: dict[str, str]) -> str:
    """A name for a folder that says the settings, as far as there is room."""
    text = ",".join(f"{key.lstrip('+')}={value}" for key, value in settings.items()) or "run"
    name = re.sub(r"[^\w.,=+\-]", "_", text)
    if name == text and len(name) <= LONGEST:
        return name
    return f"{name[:LONGEST]}-{hashlib.blake2b(text.encode(), digest_size=4).hexdigest()}"
