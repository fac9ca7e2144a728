"""The run folder.

config.yaml        the resolved recipe, with what was inferred from the data (class names); enough to use the run
                   without it
run.json           the recipe's name, when the run began, and whether it is a fast dev run or an overfit run
train.log          what was printed
logs/              rank<r>.txt: what each process of a job has said (`pdl.train.rank_log`)
metrics.jsonl      numbers as they came (`pdl.train.log.MetricsLog`)
checkpoints/       last.safetensors, best.safetensors, step-*.safetensors (`pdl.checkpoint`)
result.json        the outcome (`pdl.workflow.result`)
report.html        the outcome for people
vocabularies/      NAME.txt: names inferred from the data that are too many for config.yaml (`pdl.vocabulary`);
                   NAME.npy: arrays that belong to them
model.pdl          the bundle to deploy (`pdl.export`), unless train.export=false
pictures/          of how training goes, as the task makes them (`pdl.train.pictures`)
tensorboard/       event files, with train.tensorboard=true
trace.json         a Chrome trace, and profile.json, its tables, of `pdl train --profile` (`pdl.train.profiler`)
"""

from __future__ import annotations

import io
import json
import os
import shlex
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from pdl import checkpoint
from pdl.checkpoint import BEST, LAST
from pdl.config import Config, dump, from_dict, load
from pdl.config.source import values
from pdl.errors import DataError, UsageError
from pdl.files import read_text, write_atomic
from pdl.hub.pretrained import deferred
from pdl.nn import Module
from pdl.train.assembly import learned_config, restored
from pdl.train.checkpoints import LOCK, held
from pdl.train.loop import State
from pdl.train.rank_log import FOLDER
from pdl.train.recipe import Recipe
from pdl.train.task import Task
from pdl.vocabulary import Vocabulary

CONFIG, ABOUT, VOCABULARIES, RESULT, LOG = "config.yaml", "run.json", "vocabularies", "result.json", "train.log"


@dataclass(frozen=True)
class Run:
    """A run folder by its path."""

    path: Path

    @property
    def checkpoints(self) -> Path:
        """The folder of checkpoints."""
        return self.path / "checkpoints"

    @property
    def result(self) -> Path:
        """result.json."""
        return self.path / RESULT

    @property
    def active(self) -> bool:
        """Whether a process trains into it now."""
        if not (self.path / LOCK).exists():
            return False
        try:
            with held(self.path):
                return False
        except UsageError:
            return True
        except OSError:  # a folder of others, that may only be read
            return False

    @property
    def log(self) -> Path:
        """train.log."""
        return self.path / LOG

    def note(self, *lines: str) -> None:
        """Add lines to train.log, where the folder (still) has one."""
        if self.log.is_file():
            with self.log.open("a", encoding="utf-8") as file:
                file.writelines(f"{line}\n" for line in lines)

    def settings(self) -> dict[str, Any]:
        """config.yaml as it is written: nothing is composed, interpolations stay text."""
        return values(self.path / CONFIG)

    @property
    def resumable(self) -> bool:
        """Whether there is a checkpoint to go on from."""
        return (self.checkpoints / LAST).is_file()

    @classmethod
    @contextmanager
    def new(cls, path: str | Path | None, recipe: str) -> Iterator[Run]:
        """The folder of a new run, held by this process alone within the block: `path`, which must not hold a run, or
        the next free runs/<recipe>-<n>.

        Where the block raises before there is a checkpoint to go on from, the folder holds no run again, and is removed
        if it was made here and holds no logs.
        """
        run, made = (cls(_reserved(recipe)), True) if path is None else (cls(Path(path)), _made(Path(path)))
        with held(run.path):
            if run.resumable or any((run.path / name).exists() for name in (CONFIG, ABOUT, VOCABULARIES, RESULT)):
                go_on = f"go on with it (pdl train --resume {run.path})"
                raise UsageError(f"{run.path}: holds a run already; {go_on} or name another folder (--run)")
            try:
                yield run
            except BaseException:
                if not run.resumable:
                    run._forget(made)
                raise

    def _forget(self, made: bool) -> None:
        if made and not (self.path / FOLDER).exists():
            return shutil.rmtree(self.path)
        if made:  # the logs of a job say which of its processes failed, and how
            shutil.rmtree(self.checkpoints, ignore_errors=True)
            (self.path / "metrics.jsonl").unlink(missing_ok=True)
        for name in (CONFIG, ABOUT, LOG):
            (self.path / name).unlink(missing_ok=True)
        shutil.rmtree(self.path / VOCABULARIES, ignore_errors=True)

    @classmethod
    def open(cls, path: str | Path) -> Run:
        """An existing run folder."""
        run = cls(Path(path))
        if not (run.path / CONFIG).is_file():
            what = "no such folder" if not run.path.exists() else "not a run folder (it has no config.yaml)"
            raise UsageError(f"{run.path}: {what}; `pdl train` writes run folders, by default below runs/")
        return run

    def config(self, overrides: Sequence[str] = ()) -> Config:
        """The resolved recipe of the run."""
        return load(self.path / CONFIG, list(overrides))

    @property
    def vocabularies(self) -> dict[str, Vocabulary]:
        """The vocabularies of the run, by name."""
        files = sorted((self.path / VOCABULARIES).glob("*.txt"))
        return {file.stem: Vocabulary.read(read_text(file), str(file)) for file in files}

    @property
    def constants(self) -> dict[str, np.ndarray]:
        """The arrays that belong to them, by name."""
        found = {}
        for file in sorted((self.path / VOCABULARIES).glob("*.npy")):
            try:
                found[file.stem] = np.load(file, allow_pickle=False)
            except (OSError, ValueError, EOFError) as error:
                raise DataError(f"{file}: no array of NumPy ({error})") from None
        return found

    def recipe(self, overrides: Sequence[str] = ()) -> Recipe:
        """The checked recipe of the run, maybe with other data."""
        return Recipe(self.config(overrides))

    def task(self, recipe: Recipe) -> Task:
        """The task of a recipe of the run, with the names it has learned."""
        task: Task = recipe.task.build()
        task.vocabularies.update(self.vocabularies)
        task.constants.update(self.constants)
        return task

    def opened(self, weights: str | None = None) -> OpenRun:
        """The run ready for use, by its folder alone: no data set is opened. `weights` as in `load_weights`."""
        recipe = self.recipe()
        task = self.task(recipe)
        with deferred():
            model = restored(task, recipe)
        return OpenRun(recipe, task, model, self.load_weights(model, weights))

    def load_weights(self, model: Module, which: str | None = None) -> str:
        """Give the model the weights of a checkpoint, "best" or "last" (None: those the run's own test used).

        Of a run with `train.ema` they are the averaged ones. Returns which they are, and of when.
        """
        path = checkpoint.find(self.path, which)
        tree = checkpoint.load(path)
        model.load_state_dict(checkpoint.weights(tree))
        return f"{path.stem} (epoch {tree['state']['epoch']})"

    def describe(self) -> dict[str, Any]:
        """run.json."""
        file = self.path / ABOUT
        return dict(json.loads(read_text(file))) if file.is_file() else {"recipe": self.path.name}

    def resumption(self, mode: dict[str, Any]) -> str:
        """The command that goes on with a run of this `mode`."""
        return f"pdl train --resume {shlex.quote(str(self.path))}{_options(mode)}"

    def begin(
        self,
        recipe: Recipe,
        task: Task,
        mode: dict[str, Any],
        pretrained: Sequence[dict[str, Any]] = (),
    ) -> None:
        """Write config.yaml (the recipe, and over it what was inferred from the data), the task's vocabularies, and
        run.json, which also keeps what became of pretrained weights.

        The folder of a resumed run has them already, and must be of the same `mode` (fast_dev_run, overfit).
        """
        if (self.path / ABOUT).is_file():
            begun = self.describe()["mode"]
            if begun != mode:
                how = f"with{_options(begun)}" if any(begun.values()) else "without --fast-dev-run and --overfit"
                raise UsageError(f"{self.path}: this run was begun {how}; go on with: {self.resumption(begun)}")
            return
        config, learned = recipe.config, learned_config(task, recipe)
        keep_names(self.path, task)
        whole = from_dict(overlaid(config.plain(), learned))
        dump(replace(whole, path=config.path, overrides=config.overrides, kept=config.kept), self.path)
        began = time.strftime("%Y-%m-%dT%H:%M:%S%z")
        about: dict[str, Any] = {
            "recipe": recipe.name,
            "started": began,
            "learned": learned,
            "mode": mode,
        }
        about["pretrained"] = list(pretrained)
        write_atomic(self.path / ABOUT, (json.dumps(about) + "\n").encode())

    def keep(self, config: Config, task: Task, model: Module, about: Mapping[str, Any]) -> None:
        """Write what a run that was not trained is: run.json, the names that its task has learned, the weights of the
        model as its best checkpoint, and, when all that is there, the config."""
        keep_names(self.path, task)
        write_atomic(self.path / ABOUT, (json.dumps(dict(about)) + "\n").encode())
        self.checkpoints.mkdir(exist_ok=True)
        checkpoint.save(self.checkpoints / BEST, {"model": model.state_dict(), "state": asdict(State())})
        dump(config, self.path)


def keep_names(folder: Path, task: Task) -> None:
    """Write the vocabularies and constants that a task has learned into the folder of its run."""
    for name, vocabulary in task.vocabularies.items():
        (folder / VOCABULARIES).mkdir(exist_ok=True)
        write_atomic(folder / VOCABULARIES / f"{name}.txt", vocabulary.text().encode())
    for name, array in task.constants.items():
        saved = io.BytesIO()
        np.save(saved, array, allow_pickle=False)
        (folder / VOCABULARIES).mkdir(exist_ok=True)
        write_atomic(folder / VOCABULARIES / f"{name}.npy", saved.getvalue())


def runs_in(folders: Sequence[str | Path]) -> list[Run]:
    """The run folders that are given, and those at any depth below folders that are none themselves; each once.
    UsageError for a folder that neither is nor holds one."""
    found: dict[Path, Run] = {}
    for folder in map(Path, folders):
        inside = [Run(path) for path in _below(folder)]
        for run in inside or [Run.open(folder)]:
            found.setdefault(run.path.resolve(), run)
    return list(found.values())


def _below(folder: Path) -> Iterator[Path]:
    for place, names, files in os.walk(folder):
        names.sort()
        if {CONFIG, ABOUT} <= {*files}:  # a config alone may be anybody's
            names.clear()
            yield Path(place)


@dataclass(frozen=True)
class OpenRun:
    """A run ready for use. `weights` says which they are, and of when: "best (epoch 3)"."""

    recipe: Recipe
    task: Task
    model: Module
    weights: str


def _options(mode: dict[str, Any]) -> str:
    """The options of `pdl train` that a mode stands for."""
    return "".join(
        f" --{name.replace('_', '-')}" + (f" {value}" if name == "overfit" else "")
        for name, value in mode.items()
        if value
    )


def _reserved(recipe: str) -> Path:
    """The next free runs/<recipe>-<n>, made."""
    return next(path for n in count(1) if _made(path := Path("runs") / f"{recipe}-{n}"))


def _made(path: Path) -> bool:
    """Make a folder; False where it is there already."""
    try:
        path.mkdir(parents=True)
    except FileExistsError:
        if not path.is_dir():
            raise
        return False
    return True


def overlaid(tree: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """`tree` with the values of `over` laid over it."""
    merged = dict(tree)
    for key, value in over.items():
        below = merged.get(key)
        merged[key] = overlaid(below if isinstance(below, dict) else {}, value) if isinstance(value, dict) else value
    return merged
