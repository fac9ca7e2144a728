"""Look labelled rows over before training: targets that are missing, rows in two splits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pdl.data.checks import Progress
from pdl.data.faults import Fault
from pdl.errors import DataError
from pdl.train import Recipe
from pdl_rec.click_through.check import Arrays, again, fault_of, opened, rows_of

if TYPE_CHECKING:
    from pdl_rec.rows.task import RowPrediction


def check(task: RowPrediction, recipe: Recipe, progress: Progress | None = None) -> list[Fault]:
    """Faults of the tables of a recipe: files, columns and targets that cannot be read, one class or number in all of a
    split, and rows that are in training too."""
    faults: list[Fault] = []
    arrays: dict[str, Arrays] = {}
    for split, table in opened(task, recipe, faults).items():
        try:
            arrays[split] = rows_of(table)
        except DataError as error:
            faults.append(fault_of(error, split))
            continue
        labels = arrays[split]["label"]
        arrays[split]["label"] = labels[:, None]
        path = str(table.source.path)
        if len(np.unique(labels)) == 1:
            what = f"column {task.target!r} is the same in all {len(labels)} rows"
            faults.append(Fault(path, None, what, "correct the column, or the split", split=split))
        if split != "train" and "train" in arrays:
            faults += [Fault(path, None, what, advice, split=split, severity=severity)
                       for what, advice, severity in again(arrays["train"], arrays[split])]  # fmt: skip
        if progress is not None:
            progress(split, len(labels), len(labels))
    return faults
