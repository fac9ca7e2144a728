"""What real pictures measure, and the simplest drawn ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.data import Dataset, Subset, labels_of
from pdl.dtype import Array
from pdl.train import Recipe
from pdl_cv.generation.metrics import generation_metrics
from pdl_cv.steps.pictures import as_pixels

if TYPE_CHECKING:
    from pdl_cv.generation.task import Generation

REAL = "real pictures of training"

def baselines(task: Generation, recipe: Recipe, datasets: Mapping[str, Any], split: str) -> dict[str, dict[str, float]]:
    """In place of drawn pictures: as many real ones of the training data, the floor of all distances; and the mean of
    1,000 of each class."""
    train, test = datasets["train"], datasets[split]
    if not isinstance(train, Dataset) or not isinstance(test, Dataset) or train is test:
        return {}
    real = np.concatenate([task.eye(pixels)[0] for pixels in _read(task, recipe, test)])
    asked = np.asarray(labels_of(test, "task"))[:: task.draw_every]
    labels = np.asarray(labels_of(train, "task"))
    rng, by_class = np.random.default_rng(0), {label: np.flatnonzero(labels == label) for label in np.unique(asked)}
    if any(not len(rows) for rows in by_class.values()):
        return {}
    chosen = np.empty(len(asked), np.int64)
    means = {}
    for label, rows in by_class.items():
        wanted = asked == label
        chosen[wanted] = rng.choice(rows, int(wanted.sum()), replace=wanted.sum() > len(rows))
        some = np.concatenate(list(_read(task, recipe, Subset(train, rows[:1000]))))
        means[label] = np.rint(some.mean(axis=0)).astype(np.uint8)
    shown = {
        REAL: np.concatenate(list(_read(task, recipe, Subset(train, chosen)))),
        "mean of each class": np.stack([means[label] for label in asked]),
    }
    return {name: _measured(task, real, asked, pictures) for name, pictures in shown.items()}


def _measured(task: Generation, real: Array, asked: Array, pictures: Array) -> dict[str, float]:
    features, called = task.eye(pictures)
    metrics = generation_metrics(len(task.classes), calls=task.eye.calls)
    for metric in metrics.values():
        metric.update(real, features, asked, called, pictures)
    values = {name: metric.compute() for name, metric in metrics.items()}
    return {name: value for name, value in values.items() if isinstance(value, float)}


def _read(task: Generation, recipe: Recipe, dataset: Any) -> Any:
    """Of each batch uint8 [N, H, W, C], as it is evaluated."""
    for batch in task.loader(dataset, recipe, training=False, seed=0):
        yield as_pixels(np.asarray(batch["image"]))
