"""Look rows with labels over before training: labels of one kind, fields that tell the label or nothing, rows in two
splits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from pdl.data.checks import Progress
from pdl.data.faults import DataFault, Fault
from pdl.errors import DataError
from pdl.train import Recipe
from pdl_rec.data.click_file import Clicks, ClickStream

if TYPE_CHECKING:
    from pdl_rec.click_through.task import ClickThrough

ALONE = 0.9  # of the rows: so many names of a field number the rows
OFTEN = 5  # rows of a name, on average, that all have one label: no chance
SAME = 0.05  # of the rows of a split: so many may be like one of training, beside those that chance explains
Arrays = dict[str, np.ndarray]


def check(task: ClickThrough, recipe: Recipe, progress: Progress | None = None) -> list[Fault]:
    """Faults of the tables of a recipe; of a `ClickStream` the first buffer is looked at.

    Looked for are files, columns and labels that cannot be read, splits with labels of one kind, fields with one value,
    with a value for each row, or from whose value the label follows, and rows that are in training too.
    """
    faults: list[Fault] = []
    tables = dict(opened(task, recipe, faults))
    arrays: dict[str, Arrays] = {}
    for split, table in tables.items():
        try:
            arrays[split] = rows_of(table)
        except DataError as error:
            faults.append(fault_of(error, split))
            continue
        found = [*_labels(task, arrays[split]), *(_fields(task, arrays[split]) if split == "train" else ())]
        if split != "train" and "train" in arrays:
            found += again(arrays["train"], arrays[split])
        path = str(table.source.path)
        faults += [Fault(path, None, what, advice, split=split, severity=severity) for what, advice, severity in found]
        if progress is not None:
            progress(split, len(arrays[split]["label"]), len(arrays[split]["label"]))
    return faults


def opened(task: ClickThrough, recipe: Recipe, faults: list[Fault]) -> Mapping[str, Clicks]:
    """The tables of a recipe by split, bound to what the training data tells; what cannot be read goes to `faults`."""
    from pdl_rec.click_through.task import table_of

    tables, datasets = {}, {}
    for split, part in recipe.data.splits.items():
        try:
            datasets[split] = part.build()
            tables[split] = table_of(datasets[split], split)
        except DataError as error:
            faults.append(fault_of(error, split))
    try:
        task.prepare(recipe, datasets)
    except DataError as error:
        if not faults:  # else they are the reason
            faults.append(fault_of(error, "train"))
        return {}
    return tables


def fault_of(error: DataError, split: str) -> Fault:
    """An error of a split as a fault."""
    if isinstance(error, DataFault):
        old = error.fault
        return Fault(old.path, old.index, old.what, old.advice, old.line, split, old.severity)
    return Fault(None, None, str(error), "see above", split=split)


def rows_of(table: Clicks) -> Arrays:
    """The arrays of a table, or of the first buffer of a stream; DataError where there are no rows."""
    if isinstance(table, ClickStream):
        found = next(table.buffers(), None)
        if found is None:
            raise DataError("the split has no rows; give it some, or another ratio")
        return found
    arrays: Arrays = table.arrays  # type: ignore[attr-defined]
    if not len(arrays["label"]):
        raise DataError("the split has no rows; give it some, or another ratio")
    return arrays


Finding = tuple[str, str, str]
"""(what, advice, severity)."""


def _labels(task: ClickThrough, arrays: Arrays) -> Iterator[Finding]:
    for at, name in enumerate(task.labels):
        share = float(arrays["label"][:, at].mean())
        if share in (0.0, 1.0):
            what = f"the label {name!r} is {share:g} in all {len(arrays['label'])} rows"
            yield what, f"correct the rule of task.labels.{name}, or the split; there is nothing to tell apart", "error"


def _fields(task: ClickThrough, arrays: Arrays) -> Iterator[Finding]:
    """The fields with one name a row. In a few rows anything happens by chance."""
    label, at = arrays["label"], 0
    for name, (_, length) in task.encoding.schema.ids.items():
        ids, at = arrays["ids"][:, at], at + max(1, length)
        if length or len(label) < 100:
            continue
        names, row, counts = np.unique(ids, return_inverse=True, return_counts=True)
        if len(names) == 1:
            yield f"the field {name!r} has one value in all rows", "leave it out", "warning"
        elif len(names) > ALONE * len(ids):
            what = f"the field {name!r} has {len(names)} values in {len(ids)} rows: it numbers the rows"
            yield what, "leave it out, or give it min_count or hash", "warning"
        elif len(ids) >= OFTEN * len(names):
            yield from _tell_tale(task, name, row, counts, label)


def _tell_tale(
    task: ClickThrough, name: str, row: np.ndarray, counts: np.ndarray, label: np.ndarray
) -> Iterator[Finding]:
    for at, target in enumerate(task.labels):
        yes = np.bincount(row, weights=label[:, at], minlength=len(counts))
        if 0 < yes.sum() < len(label) and ((yes == 0) | (yes == counts)).all():
            what = f"the label {target!r} follows from the value of field {name!r} in all rows"
            yield what, "leave the field out, unless it is known before the label is", "error"


def again(train: Arrays, later: Arrays) -> Iterator[Finding]:
    """Rows of a later split that are in training too, more than chance explains."""
    known = _hashes(train)
    same = int(np.isin(_hashes(later), known).sum())
    by_chance = 1 - len(np.unique(known)) / len(known)  # rows of training that are like others of training
    if same > (SAME + 2 * by_chance) * len(later["label"]):
        what = f"{same} of {len(later['label'])} rows are in train too, with the same fields and labels"
        yield what, "take them out of one of the two, or state it with the results", "warning"


def _hashes(arrays: Arrays) -> np.ndarray:
    """A number for each row: sums of its columns with random odd factors, modulo 2^64."""
    columns = [
        arrays[name].astype(np.float64).view(np.uint64) for name in ("ids", "numbers", "label") if name in arrays
    ]
    rows = np.concatenate(columns, axis=1)
    factors = np.random.default_rng(0).integers(0, 2**63, rows.shape[1], np.uint64) * np.uint64(2) + np.uint64(1)
    mixed: np.ndarray = (rows ^ (rows >> np.uint64(29))) @ factors
    return mixed
