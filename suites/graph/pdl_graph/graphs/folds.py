"""Cross-validation over the folds of a data set.

`cross_validate` trains a recipe once for each fold and reads the curves of its validation metric. Three numbers come of
it:

held_out  the GIN paper's protocol (arXiv 1810.00826, section 7): the held-out fold serves as validation data; the
          curves of all folds are averaged, and the epoch where that mean is best is the one reported: mean and standard
          deviation over the folds there. The epoch is chosen on the data that it is measured on, so the number
          flatters a little, the more so the smaller the folds
last      the same runs at their last epoch, which nobody chose
inner     another fold is the validation data and left out of training; each fold is tested once, with the weights that
          were best on it: the honest number, from less training data, as long as nothing else was chosen by it
nested    as inner, of several settings: each fold is tested with the setting, and the weights, that were best on its
          validation fold (`chosen_within`). The honest number where settings were compared at all
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from pdl.config import load
from pdl.errors import ConfigError, DataError
from pdl.train import Recipe
from pdl.train.task import SPLITS
from pdl.workflow import train
from pdl.workflow.result import Result
from pdl.workflow.run import Run
from pdl.workflow.training import check_same

Validate = Literal["held_out", "inner"]


@dataclass(frozen=True)
class Folds:
    """What the folds came to.

    metric  its name
    curves  float64 [folds, evaluations]: it on the validation data
    epochs  the epoch of each evaluation
    test    float64 [folds]: it on the test data, with the weights that were best on the validation data
    less    whether less of it is better
    """

    metric: str
    curves: np.ndarray
    epochs: Sequence[int]
    test: np.ndarray
    less: bool = False

    @property
    def best(self) -> int:
        """Which evaluation has the best mean over the folds."""
        mean = self.curves.mean(axis=0)
        return int(mean.argmin() if self.less else mean.argmax())

    def rows(self, validate: Validate) -> list[tuple[str, int | None, float, float]]:
        """(protocol, epoch, mean over the folds, standard deviation over the folds) of each number there is."""
        if validate == "inner":
            return [("inner", None, float(self.test.mean()), float(self.test.std()))]
        return [
            (name, self.epochs[at], float(self.curves[:, at].mean()), float(self.curves[:, at].std()))
            for name, at in (("held_out", self.best), ("last", len(self.epochs) - 1))
        ]


def cross_validate(
    recipe: str | Path,
    *,
    validate: Validate = "held_out",
    folds: int = 10,
    metric: str = "accuracy",
    overrides: Sequence[str] = (),
    runs: str | Path = "runs",
    tell: Callable[[str], None] = lambda line: None,
) -> Folds:
    """Train a recipe on every fold, into RUNS/<recipe>-<validate>-fold<k>; a finished run of the same settings is
    loaded, an unfinished one goes on. Its data sets take `fold`, `folds` and `validate`, as `pdl_graph.data.TUGraphs`
    does.

    metric  of the recipe's task
    tell    is called with a line before and after each fold
    """
    if validate not in get_args(Validate):
        raise ConfigError(f"validate={validate!r} is none of {', '.join(get_args(Validate))}")
    curves, epochs, tests = [], None, []
    less = False
    for fold in range(folds):
        settings = {"fold": fold, "folds": folds, "validate": validate}
        own = [f"data.{split}.{key}={value}" for split in SPLITS for key, value in settings.items()]
        of_fold = Recipe(load(recipe, [*overrides, *own]))
        folder = Run(Path(runs) / f"{Path(recipe).stem}-{validate}-fold{fold}")
        begun = (folder.path / "config.yaml").is_file()
        if begun:
            check_same(folder, of_fold)
        tell(f"fold {fold + 1} of {folds}: {folder.path}")
        done = folder.result.is_file()
        result = Result.load(folder.result) if done else train(of_fold, run=folder.path, resume=begun, progress=False)
        found, curve = _curve(folder.path / "metrics.jsonl", f"val/{metric}")
        if epochs is not None and found != epochs:
            raise DataError(f"{folder.path}: evaluations at other epochs than in the folds before; start anew")
        epochs = found
        curves.append(curve)
        tests.append(result.metrics[f"test/{metric}"])
        less = less or metric in ("rmse", "mae", "loss")
        tell(f"  test/{metric} {tests[-1]:.4f}, last val/{metric} {curve[-1]:.4f}, {result.seconds:.0f} s")
    return Folds(metric, np.array(curves, np.float64), epochs or [], np.array(tests, np.float64), less)


def chosen_within(settings: Sequence[Folds]) -> tuple[np.ndarray, np.ndarray]:
    """The test values float64 [folds] of several settings on the same inner folds, each fold with the setting that its
    own validation fold liked best (of equal ones the first), and which that was: int64 [folds]."""
    best = np.stack([(one.curves.min(axis=1) if one.less else one.curves.max(axis=1)) for one in settings])
    pick = best.argmin(axis=0) if settings[0].less else best.argmax(axis=0)
    return np.stack([one.test for one in settings])[pick, np.arange(best.shape[1])], pick


def _curve(path: Path, name: str) -> tuple[list[int], list[float]]:
    """Epochs and values of a metric in a run's metrics.jsonl; of an epoch that was run twice the later one."""
    held: dict[int, float] = {}
    for line in path.read_text().splitlines():
        row = json.loads(line)
        if row["kind"] == "epoch" and name in row:
            held[row["epoch"]] = row[name]
    if not held:
        raise ConfigError(f"{path}: no {name} was measured; name a metric of the task")
    return list(held), list(held.values())
