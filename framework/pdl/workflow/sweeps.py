"""`sweep`: one recipe with several values of its settings, over seeds or folds; a grid, or a search by Optuna."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from pdl.config import load
from pdl.config.named import find
from pdl.config.sweeps import Grid, grid
from pdl.errors import PackageError, UsageError
from pdl.train.hooks import Hook
from pdl.train.recipe import Recipe
from pdl.workflow.folds import Validate, best_mean_epoch, chosen_within, folded, protocol
from pdl.workflow.leaderboards import Board, Plan, Tell, Trained, board, planned, trained
from pdl.workflow.metric_names import of_the_test

SEED = "train.seed"
LONGEST = 120  # characters of a folder's name


def sweep(
    recipe: str | Path,
    overrides: Sequence[str] = (),
    *,
    runs: str | Path | None = None,
    folds: int = 0,
    validate: Validate = "inner",
    search: int = 0,
    metrics: Sequence[str] = (),
    tell: Tell = lambda line: None,
    progress: bool = False,
    hooks: Sequence[Hook] = (),
) -> Board:
    """Train a recipe with every combination of the values that `overrides` give, into RUNS/KEY=VALUE,..., and put
    them in one table, sorted by the validation metric that the recipe monitors.

    What is finished is loaded, what is not goes on. A row is a setting; its members are the values of train.seed, or
    the folds. All recipes are checked before one is trained.

    runs      by default runs/<recipe>-sweep
    folds     train each setting so many times, each with another part of the data as test: see `pdl.workflow.folds`
    validate  what chooses the weights of a fold: the next fold, or ("held_out") the tested one itself
    search    train so many settings that Optuna's TPE sampler proposes (Bergstra et al., NeurIPS 2011); here
              interval(a,b) and tag(log,interval(a,b)) are values, too
    metrics   of the table; by default the monitored one and those of the test
    tell, progress, hooks   as of `pdl.workflow.leaderboard`
    """
    file, over = find(recipe), grid(overrides)
    if over.intervals and not search:
        key = next(iter(over.intervals))
        raise UsageError(f"{key}: an interval has no end of values; name some, or search: --search 20")
    if search and not (over.intervals or set(over.axes) - {SEED}):
        raise UsageError("--search: there is nothing to search; write optim.lr=tag(log,interval(1e-4,1e-1))")
    maker = Maker(file, over, Path(runs) if runs is not None else Path("runs") / f"{file.stem}-sweep", folds, validate)
    first = Recipe(load(file, [*over.fixed, *maker.fixed_seed()]))
    notes = [protocol(first, folds, validate)] if folds else []
    monitor, less = monitored(first)
    run = {"tell": tell, "progress": progress, "hooks": hooks, "member": "fold" if folds else "seed"}
    if search:
        found, made = _searched(maker, search, monitor, less, first.settings.seed, run)
    else:
        plans = [plan for point in maker.points() for plan in maker.plans(point)]
        found, made = trained(plans, **run), {plan.name: plan.recipe for plan in plans}  # type: ignore[arg-type]
    names = [name for _, result in found.results for name in result.metrics]
    chosen = list(metrics) or list(dict.fromkeys([*([monitor] if monitor in names else []), *of_the_test(names)]))
    own, members = less if chosen[:1] == [monitor] else None, "folds" if folds else "seeds"
    table = board(found, made, chosen, less=own, members=members)
    table.notes = [*notes, *table.notes]
    if folds and validate == "held_out":
        table.notes += [best_mean_epoch(row, monitor, less) for row in table.rows if row.runs]
    elif folds:
        table.notes += chosen_within(table.rows, monitor, less, chosen)
    return table


def monitored(recipe: Recipe) -> tuple[str, bool]:
    """The metric that chooses, and whether less of it is better."""
    monitor, mode = recipe.task.build().monitored(recipe.settings)
    return monitor, mode == "min"


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

    def fixed_seed(self) -> list[str]:
        """The first seed, for what is the same for all."""
        return [f"{SEED}={self.over.axes[SEED][0]}"] if SEED in self.over.axes else []

    def points(self) -> list[dict[str, str]]:
        """The settings, each with a row of its own."""
        own = {key: values for key, values in self.over.axes.items() if key != SEED or self.folds}
        return Grid(axes=own).points()

    def plans(self, point: dict[str, str]) -> list[Plan]:
        """The runs of one setting."""
        name = ", ".join(f"{key.lstrip('+')}={value}" for key, value in point.items()) or self.file.stem
        made = []
        for seed in self.seeds or [""]:
            settings = point | ({SEED: seed} if seed else {})
            recipe = Recipe(load(self.file, [*self.over.fixed, *(f"{key}={value}" for key, value in settings.items())]))
            for fold in range(self.folds) if self.folds else [None]:
                own = recipe if fold is None else folded(recipe, fold, self.folds, self.validate)
                member = recipe.settings.seed if fold is None else fold
                which = settings if fold is None else {**settings, self.validate: f"fold{fold}of{self.folds}"}
                made.append(planned(name, member, own, self.runs / _folder(which)))
        return made


def _folder(settings: dict[str, str]) -> str:
    """A name for a folder that says the settings, as far as there is room."""
    text = ",".join(f"{key.lstrip('+')}={value}" for key, value in settings.items()) or "run"
    name = re.sub(r"[^\w.,=+\-]", "_", text)
    if name == text and len(name) <= LONGEST:
        return name
    return f"{name[:LONGEST]}-{hashlib.blake2b(text.encode(), digest_size=4).hexdigest()}"


def _searched(
    maker: Maker, trials: int, monitor: str, less: bool, seed: int, run: dict[str, Any]
) -> tuple[Trained, dict[str, Recipe]]:
    """What Optuna proposes, one setting after another. The same command proposes the same again, as long as it is told
    the same: so it goes on where it was, from the runs alone."""
    optuna = _optuna()
    kinds = _distributions(optuna.distributions, maker)
    study = optuna.create_study(
        direction="minimize" if less else "maximize", sampler=optuna.samplers.TPESampler(seed=seed)
    )
    found, made = Trained(), {}
    tell: Callable[[str], None] = run["tell"]
    for number in range(trials):
        trial = study.ask(kinds)
        plans = maker.plans({key: _text(trial.params[key]) for key in kinds})
        name = plans[0].name
        tell(f"trial {number + 1} of {trials}: {name}")
        if name not in made:
            made[name] = plans[0].recipe
            trained(plans, into=found, **run)
        value = found.rows[name].mean(monitor)
        if math.isnan(value):
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
        else:
            study.tell(trial, value)
    return found, made


def _optuna() -> Any:
    try:
        optuna = import_module("optuna")
    except ModuleNotFoundError as error:
        raise PackageError('--search needs Optuna: pip install "pdl-core[search]"') from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def _distributions(kinds: Any, maker: Maker) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, values in maker.over.axes.items():
        if key != SEED or maker.folds:
            found[key] = kinds.CategoricalDistribution(values)
    for key, each in maker.over.intervals.items():
        made = kinds.IntDistribution if each.whole else kinds.FloatDistribution
        found[key] = made(each.low, each.high, log=each.log)
    return found


def _text(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
