"""Cross-validation of any recipe whose samples can be dealt out again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from pdl.config import Config, from_dict
from pdl.config.signature import TARGET
from pdl.data import ConcatDataset, Dataset, IterableDataset
from pdl.data.dataset import not_dealt
from pdl.data.folding import pooled
from pdl.errors import PdlError, UsageError
from pdl.train.log import read_log
from pdl.train.recipe import Recipe
from pdl.workflow.leaderboards import Row
from pdl.workflow.run import Run

Validate = Literal["inner", "held_out"]
FOLD = "pdl.data.Fold"
SHARED = 0.01  # of a data set: so many samples may be in another one, too


def folded(recipe: Recipe, fold: int, folds: int, validate: Validate) -> Recipe:
    """The recipe of one fold: its data sets are told which where they take `fold` and `folds`; otherwise the samples
    of all of them are one pool (`pdl.data.Fold`). Without a data.val the recipe has none here either."""
    tree, splits = recipe.config.plain(), recipe.data.splits
    kept = dict(recipe.config.kept)
    if _own_folds(recipe):
        for name, part in splits.items():
            tree["data"][name] |= {"fold": fold, "folds": folds}
            tree["data"][name] |= {"validate": validate} if "validate" in part.takes else {}
    else:
        for key in [key for key in kept if key[0] == "data" and key[1] in splits]:
            del kept[key]
        names = [name for number, name in enumerate(splits) if _first(recipe, number)]
        pool = [tree["data"][name] for name in names]
        by = recipe.task.build().fold_by
        for name in {"train", "test", *splits}:
            how: dict[str, Any] = {"split": name, "fold": fold, "folds": folds}
            how |= {"validate": validate if "val" in splits else None} | ({} if by is None else {"by": by})
            tree["data"][name] = {TARGET: FOLD, "datasets": pool, **how}
            for number, source in enumerate(names):
                for key, value in recipe.config.kept.items():
                    if key[:2] == ("data", source):
                        kept["data", name, "datasets", number, *key[2:]] = value
    made = from_dict(tree)
    return Recipe(Config(made.tree, recipe.config.path, recipe.config.overrides, kept=kept))


def _own_folds(recipe: Recipe) -> bool:
    return all({"fold", "folds"} <= set(part.takes) for part in recipe.data.splits.values())


def _first(recipe: Recipe, number: int) -> bool:
    """Whether a data set of the recipe is not one of those before it."""
    nodes = [part.node for part in recipe.data.splits.values()]
    return nodes[number] not in nodes[:number]


def protocol(recipe: Recipe, folds: int, validate: Validate) -> str:
    """How it is measured, in a sentence. UsageError where the data cannot be dealt out again."""
    splits = recipe.data.splits
    if folds == 2 and "val" in splits and validate == "inner":
        raise UsageError("--folds 2: one tests, one chooses, and nothing is left to train; write --folds 3 or more")
    which = {"inner": "the next one chooses the weights", "held_out": "it chooses the weights, too, which flatters"}
    chooses = which[validate] if "val" in splits else "nothing chooses the weights"
    each = f"Each fold is tested once; {chooses}; the rest trains."
    if _own_folds(recipe):
        names = ", ".join({part.target: None for part in splits.values()})
        return f"{folds} folds, as {names} cuts them. {each}"
    sources = recipe.data.datasets([name for number, name in enumerate(splits) if _first(recipe, number)])
    for name, data in sources.items():
        try:
            _require_dealing(data)
        except UsageError as error:
            raise UsageError(f"--folds: data.{name}: {error}") from None
    try:
        pool = pooled(list(sources.values()))
    except PdlError as error:
        raise UsageError(f"--folds: {error}") from error
    if isinstance(pool, ConcatDataset):
        _disjoint(sources)
    how = pool.dealing(recipe.task.build().fold_by).how
    names = " and ".join(f"data.{name}" for name in sources)
    return f"{folds} folds of the {len(pool):,} samples of {names}, {how}. {each}"


def _require_dealing(data: Any) -> None:
    """UsageError with the reason where the samples of a data set cannot be dealt out."""
    if isinstance(data, IterableDataset):
        raise not_dealt(data, "they are a stream, read in the order of their file, which has no sample by its number")
    if not isinstance(data, Dataset):
        raise not_dealt(data, Dataset.unfoldable)
    data.dealing()


def _disjoint(sources: dict[str, Any]) -> None:
    """UsageError where samples of one data set are in another, too: folds would be tested on what they trained on."""
    seen: dict[Any, str] = {}
    for name, data in sources.items():
        keys = _keys(data)
        twice = [key for key in keys if seen.get(key, name) != name]
        if len(twice) > SHARED * len(keys):
            raise UsageError(
                f"--folds: {len(twice)} of the {len(keys)} samples of data.{name} are in data.{seen[twice[0]]}, too: "
                "folds would be tested on what they were trained on; name data sets that share no sample"
            )
        seen |= dict.fromkeys(keys, name)


def _keys(data: Any) -> list[Any]:
    """What tells samples apart: their files, or, of arrays, their content."""
    paths = [data.path_of(i) for i in range(len(data))]
    if len(set(paths)) > 1 or (len(paths) == 1 and paths[0] is not None):
        return paths
    if not hasattr(data, "get_batch"):
        return []
    batch = data.get_batch(np.arange(len(data)))
    return [b"".join(np.ascontiguousarray(value[i]).tobytes() for value in batch.values()) for i in range(len(data))]


def chosen_within(rows: Sequence[Row], monitor: str, less: bool, metrics: Sequence[str]) -> list[str]:
    """Lines on what comes of choosing a setting in each fold by its own validation: the honest number where settings
    were compared by these very folds. [] where a fold failed, or there is nothing to choose."""
    rows = [row for row in rows if row.runs]
    values = [row.values.get(monitor, []) for row in rows]
    if len(rows) < 2 or len({tuple(row.seeds) for row in rows}) > 1:
        return []
    if any(len(each) != len(rows[0].seeds) for each in values):
        return []
    table = np.array(values)
    pick = table.argmin(axis=0) if less else table.argmax(axis=0)
    lines = []
    for metric in metrics:
        found = [rows[row].values.get(metric, []) for row in pick]
        if metric.startswith("test/") and all(len(each) == len(pick) for each in found):
            test = np.array([each[fold] for fold, each in enumerate(found)])
            lines.append(
                f"Each fold with the setting that its own validation likes best: {metric} {test.mean():.4f} ± "
                f"{test.std(ddof=1):.4f}."
            )
    return lines


def best_mean_epoch(row: Row, monitor: str, less: bool) -> str:
    """The number of the GIN paper (arXiv 1810.00826, section 7): the epoch where the mean of the folds' curves is best,
    mean and standard deviation (n in the denominator) there, and at the last epoch, which nobody chose."""
    curves = [
        {line["epoch"]: line[monitor] for line in read_log(Run.open(run).path / "metrics.jsonl") if monitor in line
         and line["kind"] == "epoch"} for run in row.runs
    ]  # fmt: skip
    if not curves or any(curve.keys() != curves[0].keys() for curve in curves) or not curves[0]:
        return f"{row.name}: the folds were not evaluated at the same epochs, so their curves have no mean."
    epochs, table = list(curves[0]), np.array([list(curve.values()) for curve in curves], np.float64)
    mean, off = table.mean(axis=0), table.std(axis=0)
    at = int(mean.argmin() if less else mean.argmax())
    best, last = (f"{mean[i]:.4f} ± {off[i]:.4f} at epoch {epochs[i]}" for i in (at, -1))
    paper = "protocol of GIN, arXiv 1810.00826, which flatters"
    return f"{row.name}: the mean of the folds' curves of {monitor} is best with {best} ({paper}); the last is {last}."
