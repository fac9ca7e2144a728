"""Several recipes against each other: each trained over several seeds, or loaded where that has been done already; and
runs that there are against each other."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from glob import glob, has_magic
from pathlib import Path
from statistics import mean, stdev
from typing import Any, NamedTuple

from pdl.config import load
from pdl.config.named import find, shipped
from pdl.errors import DataError, PdlError, UsageError
from pdl.train.hooks import Hook
from pdl.train.log import duration
from pdl.train.recipe import Recipe
from pdl.workflow.metric_names import less_is_better, of_the_test
from pdl.workflow.result import Result, machine, versions
from pdl.workflow.run import CONFIG, Run, runs_in
from pdl.workflow.training import check_same, train

Tell = Callable[[str], None]


@dataclass
class Row:
    """A recipe, or a baseline that several of them share: `values` of each metric, one a seed."""

    name: str
    values: dict[str, list[float]]
    seeds: list[int] = field(default_factory=list)
    runs: list[str] = field(default_factory=list)
    parameters: int | None = None
    seconds: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    ended: str = ""  # what kept its runs from their end: "stopped after epoch 3"

    @property
    def is_baseline(self) -> bool:
        """Whether it stands for no recipe."""
        return not self.runs and not self.failures

    def mean(self, metric: str) -> float:
        """Over seeds; NaN where it was not measured."""
        known = self.values.get(metric, [])
        return mean(known) if known else math.nan

    def deviation(self, metric: str) -> float | None:
        """The standard deviation over seeds (of a sample: n - 1); None for fewer than two."""
        known = self.values.get(metric, [])
        return stdev(known) if len(known) > 1 else None

    def add(self, member: int, result: Result) -> None:
        """One run more."""
        self.seeds.append(member)
        self.runs.append(result.run)
        self.seconds.append(result.seconds)
        self.parameters = result.parameters
        _values(self, result.metrics)

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        metrics = {name: {"mean": mean(v), "std": self.deviation(name), "values": v} for name, v in self.values.items()}
        return {
            "name": self.name, "baseline": self.is_baseline, "metrics": metrics, "seeds": self.seeds, "runs": self.runs,
            "parameters": self.parameters, "seconds": self.seconds, "failures": self.failures,
            "ended": self.ended,
        }  # fmt: skip


class Plan(NamedTuple):
    """A run to come: the name of its row, which member of the row it is, its recipe and folder."""

    name: str
    member: int
    recipe: Recipe
    folder: Run


@dataclass
class Board:
    """Rows, best first by the first metric; `members` is what the runs of a row differ in."""

    metrics: list[str]
    rows: list[Row]
    notes: list[str] = field(default_factory=list)
    members: str = "seeds"

    def columns(self) -> list[str]:
        """Of the table."""
        return ["", *self.metrics, self.members, "parameters", "time"]

    def cells(self, sign: str = "±") -> list[list[str]]:
        """Of the table, as text."""
        return [[row.name, *(_cell(row, metric, sign) for metric in self.metrics), *_facts(row)] for row in self.rows]

    def markdown(self) -> str:
        """The table, and how it came about."""
        lines = [f"| {' | '.join(self.columns())} |", "|---" + "|---:" * (len(self.columns()) - 1) + "|"]
        lines += [f"| {' | '.join(row)} |" for row in self.cells()]
        how = f"Mean ± standard deviation over {self.members}; time of training, on {machine()['class']}."
        made_with = ", ".join(f"{name} {version}" for name, version in versions().items())
        return "\n".join([*lines, "", *self.notes, how, f"{made_with}."]) + "\n"

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        rows = [row.to_dict() for row in self.rows]
        return {
            "metrics": self.metrics, "rows": rows, "notes": self.notes, "versions": versions(), "machine": machine()
        }  # fmt: skip


def _cell(row: Row, metric: str, sign: str) -> str:
    value, off = row.mean(metric), row.deviation(metric)
    if math.isnan(value):
        return "-"
    return f"{value:.4f}" if off is None else f"{value:.4f} {sign} {off:.4f}"


def _facts(row: Row) -> tuple[str, str, str]:
    """Seeds, parameters, time."""
    parameters = "-" if row.parameters is None else f"{row.parameters:,}"
    time = row.ended or (duration(mean(row.seconds)) if row.seconds else "failed" if row.failures else "-")
    return str(len(row.seeds)) if row.seeds else "-", parameters, time


def recipes(words: Sequence[str | Path]) -> list[Path]:
    """The recipes that words mean: files, names, patterns of files, patterns of names; each once."""
    if not words:
        raise UsageError("which recipes? write: pdl leaderboard -c RECIPE RECIPE ...")
    found: dict[Path, Path] = {}
    for word in map(str, words):
        files: list[Path] = [find(word)]
        if has_magic(word):
            files = sorted(map(Path, glob(word, recursive=True)))
            files = files or [path for name, path in shipped().items() if fnmatchcase(name, word)]
            if not files:
                raise UsageError(f"{word}: no recipe matches; `pdl config list` shows those that have names")
        found |= {file.resolve(): file for file in files}
    names: dict[str, Path] = {}
    for file in found.values():
        other = names.setdefault(file.stem, file)
        if other is not file:
            raise UsageError(f"{other} and {file} have one name, and so would their runs; give one of them")
    return list(found.values())


def leaderboard(
    words: Sequence[str | Path],
    *,
    overrides: Sequence[str] = (),
    seeds: int = 3,
    metrics: Sequence[str] = (),
    runs: str | Path = "runs",
    tell: Tell = lambda line: None,
    progress: bool = False,
    hooks: Sequence[Hook] = (),
) -> Board:
    """Train every recipe with the seeds 0, 1, ... (from its own `train.seed` on) into RUNS/<recipe>-seed<N>, and put
    them in one table with their baselines, sorted by the first metric.

    What has a finished run of the same settings is loaded, what has an unfinished one goes on. A recipe that fails has
    a row that says so; the others go on. By default `metrics` are those of the test. UsageError where a folder holds a
    run of other settings.

    tell      called with a line before each run
    progress  print the progress of each training on standard error
    hooks     of each training
    """
    if seeds < 1:
        raise UsageError(f"seeds={seeds} must be at least 1")
    plans = [plan for file in recipes(words) for plan in _plans(file, overrides, seeds, Path(runs))]
    found = trained(plans, tell=tell, progress=progress, hooks=hooks)
    return board(found, {plan.name: plan.recipe for plan in plans}, metrics)


@dataclass
class Trained:
    """Runs that are done: rows by name, and the result of each run with the name of its row."""

    rows: dict[str, Row] = field(default_factory=dict)
    results: list[tuple[str, Result]] = field(default_factory=list)


def trained(plans: Sequence[Plan], *, tell: Tell, progress: bool, hooks: Sequence[Hook]) -> Trained:
    """Train what is planned, or load it where that has been done."""
    found = Trained()
    for number, plan in enumerate(plans, 1):
        row = found.rows.setdefault(plan.name, Row(plan.name, {}))
        which = f"{plan.name}, seed {plan.member}"
        try:
            tell(f"[{number}/{len(plans)}] {which}: {state_of(plan.folder)} {plan.folder.path}")
            done = plan.folder.result.is_file()
            result = finished(plan.folder) if done else begun(plan.recipe, plan.folder, progress, hooks)
        except PdlError as error:
            row.failures.append(f"seed {plan.member}: {error}")
            tell(f"{which} failed: {error}")
            continue
        row.add(plan.member, result)
        found.results.append((plan.name, result))
    return found


def compared(folders: Sequence[str | Path], *, metrics: Sequence[str] = (), tell: Tell = lambda line: None) -> Board:
    """Finished runs as they are, in one table with their baselines; nothing is trained. `folders` are run folders, or
    hold them. Runs whose settings differ in nothing but the seed share a row.

    `tell` is called with a line for each run that is not finished, which is left out. UsageError where none is.
    """
    kinds: dict[str, list[tuple[Run, Result, Recipe]]] = {}
    for run in runs_in(folders):
        if not run.result.is_file():
            tell(f"{run.path}: not finished, and left out (go on: pdl train --resume {run.path})")
            continue
        recipe = run.recipe()
        tree = recipe.config.plain()
        tree.get("train", {}).pop("seed", None)
        kinds.setdefault(repr(tree), []).append((run, Result.load(run.result), recipe))
    if not kinds:
        raise UsageError(f"{', '.join(map(str, folders))}: no finished run there")
    names = [members[0][1].recipe for members in kinds.values()]
    found = Trained()
    for name, members in zip(names, kinds.values(), strict=True):
        name = name if names.count(name) == 1 else str(members[0][0].path)
        found.rows[name] = Row(name, {})
        for _, result, _ in members:
            found.rows[name].add(result.seed, result)
            found.results.append((name, result))
    return board(found, dict(zip(found.rows, (members[0][2] for members in kinds.values()), strict=True)), metrics)


def board(
    found: Trained, made: Mapping[str, Recipe], metrics: Sequence[str], *, less: bool | None = None,
    members: str = "seeds",
) -> Board:  # fmt: skip
    """The table of what was trained; `less`: whether less of the first metric is better, where its name does not say
    it."""
    chosen = list(metrics) or of_the_test(name for _, result in found.results for name in result.metrics)
    order = _order(chosen, list(made.values()), less)
    return Board(chosen, sorted([*found.rows.values(), *_baselines(found.results)], key=order), _notes(made), members)


def _plans(file: Path, overrides: Sequence[str], seeds: int, runs: Path) -> list[Plan]:
    """One for each seed; all are checked before anything is trained."""
    first = load(file, list(overrides))
    begin = int((first.get("train") or {}).get("seed") or 0)
    made = []
    for seed in range(begin, begin + seeds):
        recipe = Recipe(load(file, [*overrides, f"train.seed={seed}"]))
        made.append(planned(file.stem, seed, recipe, runs / f"{file.stem}-seed{seed}"))
    return made


def planned(name: str, member: int, recipe: Recipe, folder: Path) -> Plan:
    """A plan; UsageError where the folder holds a run of other settings."""
    run = Run(folder)
    if (folder / CONFIG).is_file():
        check_same(run, recipe, tested=True)
    return Plan(name, member, recipe, run)


def state_of(folder: Run) -> str:
    """What comes next of a folder, to be said before its name."""
    if folder.result.is_file():
        return "loaded from"
    return "going on in" if folder.resumable else "training into"


def begun(recipe: Recipe, folder: Run, progress: bool, hooks: Sequence[Hook]) -> Result:
    """Train into a folder from where it stands."""
    return train(
        recipe, run=folder.path, resume=(folder.path / CONFIG).is_file(), progress=progress, hooks=hooks
    )  # fmt: skip


def finished(folder: Run) -> Result:
    """The result of a run. DataError where it is no whole one."""
    result = Result.load(folder.result)
    if result.status not in ("finished", "stopped early"):
        raise DataError(f"{folder.path}: the run there is no whole one ({result.status}); move it away")
    return result


def _values(row: Row, metrics: Mapping[str, float | None]) -> None:
    for metric, value in metrics.items():
        if value is not None and value - value == 0:
            row.values.setdefault(metric, []).append(value)


def _baselines(results: Sequence[tuple[str, Result]]) -> list[Row]:
    """A row for each baseline, over the runs of a row, whose data may differ (folds); one that says something else for
    another recipe (of other data) has its name behind."""
    every: dict[str, dict[str, Row]] = {}
    for recipe, result in results:
        for name, metrics in result.baselines.items():
            _values(every.setdefault(recipe, {}).setdefault(name, Row(name, {})), metrics)
    rows: dict[str, Row] = {}
    for recipe, own in every.items():
        for name, row in own.items():
            row.values = {metric: v[:1] if len(set(v)) == 1 else v for metric, v in row.values.items()}
            if rows.setdefault(name, row).values != row.values:
                rows[f"{name} ({recipe})"] = Row(f"{name} ({recipe})", row.values)
    return list(rows.values())


def _order(
    metrics: Sequence[str], recipes: Sequence[Recipe], less: bool | None
) -> Callable[[Row], tuple[bool, bool, float]]:
    """Best first by the first metric; then those that did not come to their end, and rows without it last."""
    first = metrics[0] if metrics else ""
    settings = [recipe.settings for recipe in recipes]
    said = {
        each.monitor_mode
        for each in settings
        if each.monitor_mode and str(each.monitor).rpartition("/")[2] == first.rpartition("/")[2]
    }
    ascending = (said == {"min"} or (not said and less_is_better(first))) if less is None else less

    def key(row: Row) -> tuple[bool, bool, float]:
        value = row.mean(first)
        return math.isnan(value), bool(row.ended), 0.0 if math.isnan(value) else value if ascending else -value

    return key


def _notes(recipes: Mapping[str, Recipe]) -> list[str]:
    """A line where the recipes are measured on different data: their numbers are not to be compared."""
    measured: dict[str, list[str]] = {}
    for name, recipe in recipes.items():
        splits = recipe.data.splits
        node = next((splits[split].node for split in ("test", "val", "train") if split in splits), None)
        measured.setdefault(str(node), []).append(name)
    if len(measured) < 2:
        return []
    return [f"Not all recipes are measured on the same data: {'; '.join(', '.join(n) for n in measured.values())}."]
