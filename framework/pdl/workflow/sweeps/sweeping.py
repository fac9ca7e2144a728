"""`sweep` from its arguments to the table and the page."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Literal

from pdl.config.named import find
from pdl.config.sweeps import grid
from pdl.errors import UsageError
from pdl.threads import available_cores
from pdl.train.hooks import Hook
from pdl.train.recipe import Recipe
from pdl.workflow.ensembling import ensemble, members_of
from pdl.workflow.folds import Validate, best_mean_epoch, chosen_within, protocol
from pdl.workflow.leaderboards import Board, Row, Tell, board
from pdl.workflow.metric_names import of_the_test
from pdl.workflow.result import Result
from pdl.workflow.run import RESULT
from pdl.workflow.sweeps.halving import Halving
from pdl.workflow.sweeps.page import write_page
from pdl.workflow.sweeps.plans import Maker
from pdl.workflow.sweeps.proposing import require_optuna
from pdl.workflow.sweeps.running import inline
from pdl.workflow.sweeps.trials import Record, Trials, recorded
from pdl.workflow.sweeps.workers import at_once

Scheduler = Literal["none", "asha"]
FACTOR = 3
_REST = 2.0  # seconds between two writings of the page


def sweep(
    recipe: str | Path,
    overrides: Sequence[str] = (),
    *,
    runs: str | Path | None = None,
    folds: int = 0,
    validate: Validate = "inner",
    trials: int = 0,
    scheduler: Scheduler = "none",
    grace: int | None = None,
    factor: int = FACTOR,
    jobs: int | None = None,
    ray: str | None = None,
    average: int = 0,
    metrics: Sequence[str] = (),
    tell: Tell = lambda line: None,
    progress: bool = False,
    hooks: Sequence[Hook] = (),
) -> Board:
    """Train a recipe with every combination of the values that `overrides` give, into RUNS/KEY=VALUE,..., and put
    them in one table, sorted by the validation metric that the recipe monitors, and in a page, RUNS/sweep.html.

    What is finished is loaded, what is not goes on. A row is a setting; its members are the values of train.seed, or
    the folds. All recipes of a grid are checked before one is trained.

    runs       by default runs/<recipe>-sweep
    folds      train each setting so many times, each with another part of the data as test: see `pdl.workflow.folds`
    validate   what chooses the weights of a fold: the next fold, or ("held_out") the tested one itself
    trials     train so many settings that Optuna's TPE sampler proposes (Bergstra et al., NeurIPS 2011); here
               interval(a,b) and log(a,b) are values, too. With one job the same seed proposes the same. More of them
               later go on with what is known
    scheduler  asha: stop settings that are not among the best (`pdl.workflow.sweeps.halving`), judged by their first
               seed or fold; they stay where they are, and go on without it
    grace      epochs before the first is stopped; by default a 27th of all
    factor     of so many settings one goes on, for so many times the epochs
    jobs       runs at once, in processes with a share of the cores each; by default one, in this process; on Ray as
               many as there is room for
    ray        train on a cluster by Ray Tune: "auto", "HOST:PORT", "ray://HOST:PORT", or "local", a Ray of its own here
    average    put so many of the best runs together (`pdl.workflow.ensemble`), into RUNS/ensemble; a row more
    metrics    of the table; by default the monitored one and those of the test
    tell, progress, hooks   as of `pdl.workflow.leaderboard`; processes of their own have no progress and no hooks
    """
    file, over = find(recipe), grid(overrides)
    folder = Path(runs) if runs is not None else Path("runs") / f"{file.stem}-sweep"
    if over.intervals and not trials:
        key = next(iter(over.intervals))
        raise UsageError(f"{key}: an interval has no end of values; name some, or search: --trials 20")
    maker = Maker(file, over, folder, folds, validate)
    if trials and not (over.intervals or maker.axes):
        raise UsageError("--trials: there is nothing to search; write optim.lr=log(1e-4,1e-1)")
    if jobs is not None and jobs < 1:
        raise UsageError(f"--jobs {jobs}: at least 1")
    if average and (folds or average < 2):
        why = "folds are tested on different data" if folds else "at least 2"
        raise UsageError(f"--ensemble {average}: {why}")
    first = maker.first()
    monitor, less = monitored(first)
    if (trials or scheduler == "asha") and "val" not in first.data.splits:
        raise UsageError(f"{file.stem}: the recipe has no data.val, so nothing says which trial is better; give it one")
    asha = Halving.of(first.settings.epochs, grace, factor, less) if scheduler == "asha" else None
    if trials:
        require_optuna()
    if ray is not None:
        from pdl.workflow.sweeps.on_ray import on_ray, require_tune

        require_tune()
    space = maker.space() if trials else None
    notes = [protocol(first, folds, validate)] if folds else []
    about = {"kind": "sweep", "recipe": file.stem, "settings": sorted({*over.axes, *over.intervals}), "metric": monitor}
    holding = recorded(folder, about) if trials or asha is not None else nullcontext()
    with holding as record:
        assert record is None or isinstance(record, Record)
        course = Trials(
            maker, trials or len(maker.points()), monitor=monitor, less=less, seed=first.settings.seed, asha=asha,
            record=record, space=space, tell=tell,
        )  # fmt: skip
        page = Page(course)
        course.changed = page.changed
        try:
            if ray is not None:
                on_ray(course, ray, jobs, max(1, available_cores() // jobs) if jobs and ray == "local" else 1)
            elif jobs is not None and jobs > 1:
                at_once(course, jobs)
            else:
                inline(course, progress=progress, hooks=hooks)
        finally:
            page.write()
    tell(f"a page with all of them: {page.file}")
    table = _board(course, metrics, notes)
    if average:
        table.rows.insert(0, _averaged(course, table, average))
    return table


class Page:
    """sweep.html, written while it goes on."""

    def __init__(self, trials: Trials) -> None:
        self.trials, self.file, self._written = trials, trials.maker.runs / "sweep.html", 0.0

    def changed(self) -> None:
        """Something has come to an end."""
        if time.monotonic() - self._written >= _REST:
            self.write()

    def write(self) -> None:
        """Write it, if there is something to see."""
        if self.trials.found.results or any(each.ended for each in self.trials.proposed):
            write_page(self.file, self.trials)
            self._written = time.monotonic()


def monitored(recipe: Recipe) -> tuple[str, bool]:
    """The metric that chooses, and whether less of it is better."""
    monitor, mode = recipe.task.build().monitored(recipe.settings)
    return monitor, mode == "min"


def _board(trials: Trials, metrics: Sequence[str], notes: list[str]) -> Board:
    """The table, and what is to be said of it."""
    monitor, less, folds = trials.monitor, trials.less, trials.maker.folds
    names = [name for _, result in trials.found.results for name in result.metrics]
    lacking = [name for name in metrics if names and name not in names]
    if lacking:
        raise UsageError(f"--metrics: no run has {', '.join(lacking)}; they have {', '.join(dict.fromkeys(names))}")
    known = monitor in names or any(monitor in row.values for row in trials.rows)
    chosen = list(metrics) or list(dict.fromkeys([*([monitor] if known else []), *of_the_test(names)]))
    own, members = less if chosen[:1] == [monitor] else None, "folds" if folds else "seeds"
    table = board(trials.found, trials.recipes, chosen, less=own, members=members)
    table.notes = [*notes, *table.notes]
    whole = [row for row in table.rows if row.runs and not row.ended]
    if folds and trials.maker.validate == "held_out":
        table.notes += [best_mean_epoch(row, monitor, less) for row in whole]
    elif folds:
        table.notes += chosen_within(whole, monitor, less, chosen)
    ended = [row.ended.split()[0] for row in table.rows if row.ended]
    if ended:
        said = ", ".join(f"{ended.count(how)} {how}" for how in dict.fromkeys(ended))
        table.notes.append(f"{said} early, with the best {monitor} until then; they stand last.")
    return table


def _averaged(trials: Trials, table: Board, count: int) -> Row:
    """The ensemble of the best runs, as a row; that of an earlier call is taken where it is of the same."""
    whole = [row for row in table.rows if row.runs and not row.ended and trials.monitor in row.values]
    known = [(value, run) for row in whole for value, run in zip(row.values[trials.monitor], row.runs, strict=True)]
    if len(known) < count:
        raise UsageError(f"--ensemble {count}: only {len(known)} runs came to their end with {trials.monitor}")
    best = [run for _, run in sorted(known, key=lambda each: each[0], reverse=not trials.less)[:count]]
    folder = trials.maker.runs / "ensemble"
    if members_of(folder) == best and (folder / RESULT).is_file():
        result = Result.load(folder / RESULT)
    else:
        if members_of(folder):  # of other runs, or of a call that was killed
            shutil.rmtree(folder)
        result = ensemble(best, run=folder)
    row = Row(f"ensemble of the {count} best", {})
    row.add(0, result)
    return row
