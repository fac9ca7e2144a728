"""A classical method on the pixels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pdl.data import Dataset, Subset
from pdl.dtype import Array
from pdl.train import Recipe, Task
from pdl.train.classical import spread
from pdl.train.embeddings import Trials
from pdl_cv.classification.baselines import SIDE, averaged
from pdl_cv.retrieval.metrics import retrieval_metrics


def baselines(task: Task, recipe: Recipe, datasets: Mapping[str, Any], split: str) -> dict[str, dict[str, float]]:
    """Images as they are prepared for evaluation, averaged to at most 16 x 16 pixels, less the mean of at most 10,000
    images of training, compared by their cosine."""
    train = datasets["train"]
    if not isinstance(train, Dataset):
        return {}
    middle = np.concatenate([x for x, _ in _read(task, recipe, Subset(train, spread(len(train))))]).mean(axis=0)
    trials = Trials(most=task.trials)  # type: ignore[attr-defined]
    metrics = retrieval_metrics(trials, task.recall, task.far)  # type: ignore[attr-defined]
    for x, batch in _read(task, recipe, datasets[split]):
        vectors = x - middle
        vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
        trials.update(vectors.astype(np.float32), batch["label"], batch["index"], batch["name"])
    values = {name: metric.compute() for name, metric in metrics.items()}
    name = f"cosine of {SIDE} x {SIDE} pixels"
    return {name: {metric: value for metric, value in values.items() if isinstance(value, float)}}


def _read(task: Task, recipe: Recipe, dataset: Any) -> Any:
    """Of each batch float64 [N, D], and the batch."""
    for batch in task.loader(dataset, recipe, training=False, seed=0):
        small: Array = averaged(np.asarray(batch["image"], np.float64))
        yield small.reshape(len(small), -1), batch
