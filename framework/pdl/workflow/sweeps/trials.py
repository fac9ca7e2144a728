"""`Trials`: what is trained next, what became of it, and what is stopped. It trains nothing itself."""

from __future__ import annotations

import json
import math
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pdl.errors import DataError, NumericalError, PdlError, UsageError
from pdl.files import locked
from pdl.train.log import append_log, duration, read_log
from pdl.workflow.leaderboards import Row, Tell, Trained, finished, state_of
from pdl.workflow.result import Result
from pdl.workflow.sweeps.halving import Halving
from pdl.workflow.sweeps.plans import Job, Maker
from pdl.workflow.sweeps.proposing import Past, Space, State, propose

RECORD, LOCK = "trials.jsonl", ".sweep.lock"
FIRST = 2  # trials of a search that may fail before the next ends it, where none has not failed


@dataclass
class Trial:
    """A setting, and how far its runs are. `number` counts from 1, `values` are of the monitored metric in its first
    run, by epoch; `ended` says why it does not come to its end: "stopped" or "diverged"."""

    number: int
    settings: dict[str, str]
    jobs: list[Job]
    row: Row
    values: dict[int, float] = field(default_factory=dict)
    ended: str = ""

    @property
    def first(self) -> Job:
        """The run that is judged."""
        return self.jobs[0]

    @property
    def state(self) -> State:
        """Where it stands."""
        if self.ended:
            return "stopped" if self.ended == "stopped" else "diverged"
        if self.row.failures:
            return "failed"
        return "finished" if len(self.row.seeds) == len(self.jobs) else "running"

    def best(self, less: bool) -> float:
        """Of the values; NaN where there is none."""
        known = [value for value in self.values.values() if not math.isnan(value)]
        return (min(known) if less else max(known)) if known else math.nan

    def end(self, how: str, metric: str, less: bool) -> None:
        """It does not come to its end; its row says so, with the best of its values."""
        self.ended = how
        self.row.ended = f"{how} after epoch {max(self.values, default=0)}"
        if not self.row.seeds:
            self.row.runs = [str(self.first.plan.folder.path)]
            best = self.best(less)
            self.row.values = {} if math.isnan(best) else {metric: [best]}


class Record:
    """trials.jsonl: a first line about the sweep, then what happened, a line each."""

    def __init__(self, file: Path, about: dict[str, Any]) -> None:
        self.file = file
        self.lines: list[dict[str, Any]] = []
        if not file.is_file():
            file.parent.mkdir(parents=True, exist_ok=True)
            return append_log(file, about)
        head, *self.lines = read_log(file) or [{}]
        for key, value in about.items():
            if head.get(key) != value:
                raise UsageError(
                    f"{file}: holds trials of another sweep, whose {key} is {_shown(head.get(key))}; here it is "
                    f"{_shown(value)}: name another folder (--runs)"
                )
        if not file.read_bytes().endswith(b"\n"):  # a line that a kill cut short
            text = "".join(json.dumps(line) + "\n" for line in [head, *self.lines])
            file.write_text(text, encoding="utf-8")

    def add(self, kind: str, **said: Any) -> None:
        """One line more."""
        append_log(self.file, {"kind": kind, **said})


def _shown(value: Any) -> str:
    return ", ".join(value) if isinstance(value, list) else str(value)


@contextmanager
def recorded(folder: Path, about: dict[str, Any]) -> Iterator[Record]:
    """The record in a folder, of this process alone. UsageError where another one has it, or it is of another sweep."""

    def refuse() -> None:
        raise UsageError(f"{folder}: something else sweeps into this folder; wait for it, or name another one (--runs)")

    with locked(folder / LOCK, refuse):
        yield Record(folder / RECORD, about)


class Trials:
    """All trials of a sweep, in any number of threads.

    total     how many trials there are to be; of a grid all its points
    monitor   the metric that is judged, and whether `less` of it is better
    asha      what stops trials; then the other members of a trial begin when its first has come to its end
    record    what is kept of them (None: of a grid the runs alone tell all)
    space     what is searched (None: a grid)
    changed   called when a trial has come to its end
    """

    def __init__(
        self,
        maker: Maker,
        total: int,
        *,
        monitor: str,
        less: bool,
        seed: int = 0,
        asha: Halving | None = None,
        record: Record | None = None,
        space: Space | None = None,
        tell: Tell = lambda line: None,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self.maker, self.total, self.monitor, self.less, self.seed = maker, total, monitor, less, seed
        self.asha, self.record, self.space, self.tell, self.changed = asha, record, space, tell, changed
        self.found = Trained()
        self.trials: dict[str, Trial] = {}
        self.proposed: list[Trial] = []
        self.member = "fold" if maker.folds else "seed"
        self._waiting: deque[Job] = deque()
        self._lock = threading.RLock()
        self._next = 0
        for point in maker.points() if space is None else []:  # all are checked before one is trained
            self._propose(point)
        self._read()

    @property
    def rows(self) -> list[Row]:
        """In the order in which they were proposed."""
        return [trial.row for trial in self.trials.values()]

    @property
    def recipes(self) -> dict[str, Any]:
        """By the names of rows."""
        return {name: trial.first.plan.recipe for name, trial in self.trials.items()}

    # -- what comes next
    # -------------------------------------------------------------------------------------------------------
    def take(self) -> Job | None:
        """The next run to train; None where there is none now: all are done, or under way."""
        with self._lock:
            while True:
                while self._waiting:
                    job = self._waiting.popleft()
                    trial, done = self.trials[job.plan.name], job.plan.folder.result.is_file()
                    self.say(trial, job, f"{state_of(job.plan.folder)} {job.plan.folder.path}")
                    if not done:
                        return job
                    self.done(job, trained=False)
                if self._next >= self.total:
                    return None
                self._begin()

    def _begin(self) -> None:
        """The next trial waits, unless it has been before."""
        if self._next >= len(self.proposed):
            assert self.space is not None
            past = [self._past(trial) for trial in self.proposed]
            settings = propose(self.space, past, seed=self.seed, less=self.less)
            self._propose(settings)
            if self.record is not None:
                self.record.add("trial", settings=settings)
        trial = self.proposed[self._next]
        self._next += 1
        if trial.number == self._next and not trial.ended:  # of another number: it was proposed before
            self._waiting.extend(trial.jobs[:1] if self.asha is not None else trial.jobs)

    def _propose(self, settings: dict[str, str]) -> Trial:
        name = self.maker.name(settings)
        if name not in self.trials:
            row = self.found.rows[name] = Row(name, {})
            jobs = self.maker.jobs(settings)
            self.trials[name] = Trial(len(self.proposed) + 1, settings, jobs, row)
        self.proposed.append(self.trials[name])
        return self.trials[name]

    def _past(self, trial: Trial) -> Past:
        value = trial.row.mean(self.monitor)
        state = "failed" if trial.state == "finished" and math.isnan(value) else trial.state
        return Past(trial.settings, state, value, trial.values)

    def _read(self) -> None:
        """What the record says. A trial that was stopped goes on where nothing stops trials any more; one that was
        judged, and not yet stopped when all ended, is stopped now."""
        ends: dict[str, str] = {}
        for line in self.record.lines if self.record is not None else ():
            if line["kind"] == "trial" and self.space is not None and len(self.proposed) < self.total:
                self._propose(line["settings"])
            trial = self.trials.get(line.get("trial", ""))
            if trial is None:
                continue
            if line["kind"] == "evaluation":
                value = math.nan if line["value"] is None else line["value"]
                trial.values[line["epoch"]] = value
                last = line["epoch"] >= trial.first.plan.recipe.settings.epochs
                if self.asha is not None and self.asha.judge(trial.row.name, line["epoch"], value) and not last:
                    ends[trial.row.name] = "stopped"
            elif line["kind"] == "end" and (line["how"] != "stopped" or self.asha is not None):
                ends[trial.row.name] = line["how"]
        for name, how in ends.items():
            if not self.trials[name].first.plan.folder.result.is_file():
                self.trials[name].end(how, self.monitor, self.less)

    # -- what became of it
    # -------------------------------------------------------------------------------------------------------
    def evaluated(self, job: Job, epoch: int, value: float, last: bool) -> str:
        """A run has been evaluated after so many epochs, the `last` time or not; why it is to stop, "" to go on."""
        with self._lock:
            trial = self.trials[job.plan.name]
            if self.record is None or job is not trial.first or epoch in trial.values:
                return ""
            trial.values[epoch] = value
            known = None if math.isnan(value) else value
            self.record.add("evaluation", trial=trial.row.name, epoch=epoch, value=known)
            reason = "" if self.asha is None else self.asha.judge(trial.row.name, epoch, value)
            return "" if last else reason

    def done(self, job: Job, *, trained: bool = True) -> None:
        """The run has a result."""
        with self._lock:
            trial = self.trials[job.plan.name]
            try:
                result = finished(job.plan.folder)
            except DataError as error:
                return self.failed(job, error)
            trial.row.add(job.plan.member, result)
            self.found.results.append((trial.row.name, result))
            if self.asha is not None and job is trial.first:
                self._waiting.extend(trial.jobs[1:])
            if trained:
                self.say(trial, job, _reached(result, self.monitor))
                self.changed()

    def stopped(self, job: Job, reason: str) -> None:
        """The run was stopped, for this reason."""
        with self._lock:
            self._end(job, "stopped", reason)

    def failed(self, job: Job, error: PdlError) -> None:
        """The run failed. That numbers go out of bounds is what a search finds out. Where nothing has come to an end
        yet, what is wrong with the recipe or its data is raised, as all trials have it; so is what the first few
        have."""
        with self._lock:
            trial = self.trials[job.plan.name]
            if self.space is not None and isinstance(error, NumericalError):
                return self._end(job, "diverged", str(error).splitlines()[0])
            failed = sum(each.state == "failed" for each in self.trials.values())
            none = self.space is not None and not (self.found.results or any(each.ended for each in self.proposed))
            if none and (type(error) is UsageError or isinstance(error, DataError) or failed >= FIRST):
                raise error
            trial.row.failures.append(f"{self.member} {job.plan.member}: {error}")
            self.say(trial, job, f"failed: {error}")
            self.changed()

    def _end(self, job: Job, how: str, reason: str) -> None:
        trial = self.trials[job.plan.name]
        self._waiting = deque(each for each in self._waiting if each.plan.name != trial.row.name)
        trial.end(how, self.monitor, self.less)
        if self.record is not None:
            self.record.add("end", trial=trial.row.name, how=how, reason=reason)
        self.say(trial, job, f"{trial.row.ended}: {reason}")
        self.changed()

    def say(self, trial: Trial, job: Job, what: str) -> None:
        """A line about a run."""
        which = "" if len(trial.jobs) == 1 and self.space is not None else f", {self.member} {job.plan.member}"
        self.tell(f"[{trial.number}/{self.total}] {trial.row.name}{which}: {what}")


def _reached(result: Result, monitor: str) -> str:
    value = result.metrics.get(monitor)
    return f"{'' if value is None else f'{monitor} {value:.4f} in '}{duration(result.seconds)}"
