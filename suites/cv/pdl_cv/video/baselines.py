"""Classical methods on one frame, and on all frames whatever their order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pdl.data import Dataset, Subset
from pdl.dtype import Array
from pdl.train import Recipe, Task
from pdl.train.classical import classifiers, scored, spread
from pdl.train.metrics import class_metrics
from pdl_cv.classification.baselines import averaged
from pdl_cv.video.clips import RANKS, kind_of

ROWS = 2_000  # clips of training that are looked at


def baselines(task: Task, recipe: Recipe, datasets: Mapping[str, Any], split: str) -> dict[str, dict[str, float]]:
    """The most frequent class, logistic regression and the nearest neighbour on the middle frame, and logistic
    regression on the mean of all frames, as they are prepared for evaluation, images averaged to at most 16 x 16
    pixels; of at most 2,000 clips of training."""
    train = datasets["train"]
    if not isinstance(train, Dataset):
        return {}
    frames, y = _read(task, recipe, Subset(train, spread(len(train), ROWS)))
    frames_test, labels = _read(task, recipe, datasets[split])
    classes, seen, found = len(task.classes), len(train), dict[str, Array]()  # type: ignore[attr-defined]
    for x, x_test, what in (
        (frames[0], frames_test[0], "the middle frame"),
        (frames[1], frames_test[1], "the mean frame"),
    ):
        for name, scores in classifiers(x, y, x_test, classes, seen=seen).items():
            found.setdefault(name if name == "majority" else f"{name}, {what}", scores)
    return {name: scored(class_metrics(scores.shape[1]), scores, labels) for name, scores in found.items()}


def _read(task: Task, recipe: Recipe, dataset: Any) -> tuple[tuple[Array, Array], Array]:
    """Middle frames and mean frames, float32 [N, D] each, and labels of all clips."""
    middle, mean, labels = list[Array](), list[Array](), list[Array]()
    for batch in task.loader(dataset, recipe, training=False, seed=0):
        kind = kind_of(batch)
        x = np.asarray(batch[kind], np.float32)
        x = x if x.ndim == RANKS[kind] else x[:, x.shape[1] // 2]  # of several views the middle one
        for found, frames in ((middle, x[:, x.shape[1] // 2]), (mean, x.mean(axis=1))):
            found.append((averaged(frames) if kind == "clip" else frames).reshape(len(x), -1))
        labels.append(np.asarray(batch["label"]))
    return (np.concatenate(middle), np.concatenate(mean)), np.concatenate(labels)
