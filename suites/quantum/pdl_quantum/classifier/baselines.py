"""What classical methods make of the numbers that the circuit reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.data import Subset
from pdl.train import Recipe
from pdl.train.classical import classifiers, scored, spread

if TYPE_CHECKING:
    from pdl_quantum.classifier.task import QuantumClassifier

Array = np.ndarray


def baselines(
    task: QuantumClassifier, recipe: Recipe, datasets: Mapping[str, Any], split: str
) -> dict[str, dict[str, float]]:
    """The most frequent class, logistic regression and the nearest neighbour, on the model's own inputs, laid flat, and
    at most 10,000 of the training data."""
    train = datasets["train"]
    x, y = _read(task, recipe, Subset(train, spread(len(train))))
    x_test, labels = _read(task, recipe, datasets[split])
    made = classifiers(x, y, x_test, len(task.classes), seen=len(train))
    return {name: scored(task.metrics(), scores, labels) for name, scores in made.items()}


def _read(task: QuantumClassifier, recipe: Recipe, dataset: Any) -> tuple[Array, Array]:
    batches = list(task.loader(dataset, recipe, training=False, seed=0))
    flat = [np.asarray(task.inputs(batch).data, np.float32).reshape(len(batch["label"]), -1) for batch in batches]
    return np.concatenate(flat), np.concatenate([np.asarray(batch["label"]) for batch in batches])
