"""Classical methods on the pixels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pdl.data import Dataset, Subset
from pdl.train import Recipe, Task
from pdl.train.classical import classifiers, scored, spread
from pdl.train.metrics import class_metrics

SIDE = 16  # pixels are averaged until no side is longer
Array = np.ndarray


def baselines(task: Task, recipe: Recipe, datasets: Mapping[str, Any], split: str) -> dict[str, dict[str, float]]:
    """The most frequent class, logistic regression and the nearest neighbour, on images as they are prepared for
    evaluation, averaged to at most 16 x 16 pixels, and at most 10,000 of the training data."""
    train = datasets["train"]
    if not isinstance(train, Dataset):
        return {}
    rows = spread(len(train))
    x, y = _read(task, recipe, Subset(train, rows))
    x_test, labels = _read(task, recipe, datasets[split])
    made = classifiers(x, y, x_test, len(task.classes), seen=len(train))  # type: ignore[attr-defined]
    return {name: scored(class_metrics(scores.shape[1]), scores, labels) for name, scores in made.items()}


def _read(task: Task, recipe: Recipe, dataset: Any) -> tuple[Array, Array]:
    """Numbers float32 [N, D] and labels of all samples."""
    batches = list(task.loader(dataset, recipe, training=False, seed=0))
    small = [averaged(np.asarray(batch["image"], np.float32)).reshape(len(batch["label"]), -1) for batch in batches]
    return np.concatenate(small), np.concatenate([np.asarray(batch["label"]) for batch in batches])


def averaged(images: Array, side: int = SIDE) -> Array:
    """[N, H, W, C] -> the same with sides of at most `side`, means of what lies within each new pixel."""
    for axis in (1, 2):
        size = images.shape[axis]
        if size > side:
            first = np.arange(side) * size // side
            counts = np.diff(np.append(first, size))
            shape = [-1 if k == axis else 1 for k in range(4)]
            images = np.add.reduceat(images, first, axis=axis) / counts.reshape(shape).astype(images.dtype)
    return images
