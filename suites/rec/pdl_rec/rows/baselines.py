"""Classical methods on the fields of rows: numbers as the model reads them, and the most frequent names one-hot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.data import Dataset, Subset
from pdl.train import Recipe
from pdl.train.classical import ROWS, classifiers, ridge_regression, scored, spread

if TYPE_CHECKING:
    from pdl_rec.rows.task import RowPrediction

NAMES = 30  # of each field, the most frequent ones
Array = np.ndarray


def baselines(
    task: RowPrediction, recipe: Recipe, datasets: Mapping[str, Any], split: str
) -> dict[str, dict[str, float]]:
    """Metrics of each method, fitted on at most 10,000 rows of the training data."""
    train = _read(task, recipe, datasets["train"], ROWS)
    x, y, x_test, target = *train, *_read(task, recipe, datasets[split])
    if task.kind == "class":
        made = classifiers(x, y, x_test, len(task.classes), seen=len(y))
    else:
        made = {"mean": np.full(len(target), y.mean()), "ridge regression": ridge_regression(x, y, x_test)}
    return {name: scored(task.metrics(), scores, target) for name, scores in made.items()}


def _read(task: RowPrediction, recipe: Recipe, dataset: Any, most: int | None = None) -> tuple[Array, Array]:
    """float32 [n, D] and labels [n] of the rows of a split, or of about so many of them: evenly spread, or the first
    of a stream."""
    parts: list[tuple[Array, Array]] = []
    count = 0
    if most is not None and isinstance(dataset, Dataset):
        dataset = Subset(dataset, spread(len(dataset), most))
    for batch in task.loader(dataset, recipe, training=False, seed=0):
        parts.append((_flat(task, batch), np.asarray(batch["label"])))
        count += len(batch["label"])
        if most is not None and count >= most:
            break
    return np.concatenate([x for x, _ in parts]), np.concatenate([y for _, y in parts])


def _flat(task: RowPrediction, batch: Mapping[str, Array]) -> Array:
    """Numbers beside names one-hot; a name that is rare, missing or unknown is 0 in all columns."""
    parts = [np.asarray(batch["numbers"], np.float32)] if "numbers" in batch else []
    schema = task.encoding.schema
    for name, (table, _) in schema.ids.items():
        rows = min(schema.tables[table] - 1, NAMES)
        ids = np.asarray(batch["ids"])[:, schema.place(name)]
        parts.append((ids[:, :, None] == np.arange(1, rows + 1)).any(axis=1).astype(np.float32))
    return np.concatenate(parts, axis=1)
