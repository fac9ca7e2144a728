"""Baselines: measured, kept in the result, shown as a table and in the card."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pdl import watch
from pdl.errors import PdlError
from pdl.train.loop import better
from pdl.train.recipe import Recipe
from pdl.train.task import Task
from pdl.workflow.result import Result

Baselines = dict[str, dict[str, float]]


def has_baselines(task: Task) -> bool:
    """Whether a task knows of any."""
    return type(task).baselines is not Task.baselines


def measured(task: Task, recipe: Recipe, datasets: Mapping[str, Any], split: str) -> Baselines:
    """The baselines of a task on a split, metrics named "split/metric"; {} where it has none."""
    if not has_baselines(task):
        return {}
    found = task.baselines(recipe, datasets, split)
    return {name: {f"{split}/{key}": float(v) for key, v in metrics.items()} for name, metrics in found.items()}


def measured_anew(task: Task, recipe: Recipe, dataset: Any, split: str) -> Baselines:
    """The same where the training data has not been opened yet; where it is not available, a line says so."""
    if not has_baselines(task):
        return {}
    try:
        training = {} if split == "train" else recipe.data.datasets(("train",))
        if split != "train" and not training:
            watch.note("no baselines beside it: the recipe has no data.train")
            return {}
        task.prepare(recipe, training)
    except (PdlError, OSError) as error:
        watch.note(f"no baselines beside it: the training data is not here ({str(error).splitlines()[0]})")
        return {}
    return measured(task, recipe, {**training, split: dataset}, split)


def best_baseline(result: Result, metric: str, mode: str) -> tuple[str, float] | None:
    """The baseline that is best by a metric of a split ("test/accuracy"), and what it reaches; None where none has it.
    Bounds do not count.

    mode   "max" or "min": which values of the metric are better
    """
    best = None
    methods = {name: metrics for name, metrics in result.baselines.items() if name not in result.bounds}
    for method, metrics in methods.items():
        if better(metrics.get(metric, float("nan")), None if best is None else best[1], mode):
            best = method, metrics[metric]
    return best


def comparison(result: Result) -> tuple[list[str], list[list[Any]]]:
    """Column names, the model first, and a row for each metric that a baseline has: so tables stay narrow."""
    methods = [result.metrics, *result.baselines.values()]
    names = list(dict.fromkeys(key for each in result.baselines.values() for key in each))
    head = ["", result.model.rpartition(".")[2], *result.baselines]
    return head, [[name, *(each.get(name) for each in methods)] for name in names]
