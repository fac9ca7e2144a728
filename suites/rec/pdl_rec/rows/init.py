"""A recipe for labelled rows, as `pdl init rec.rows --data table.csv` writes it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from pdl.config.text import quoted
from pdl.data.faults import fault
from pdl.errors import UsageError, listed
from pdl.train.task import SPLITS
from pdl_rec.data.click_file import ClickFile
from pdl_rec.data.columns import Text
from pdl_rec.data.guessing import ISO, named

TARGET = ("target", "label", "class", "y", "outcome", "response", "species", "income", "price", "survived", "churn",
          "default", "quality")  # fmt: skip
RATIOS = "{train: 0.8, val: 0.1, test: 0.1}"
FEWEST = 50  # rows
CLASSES = 20  # whole numbers up to so many different ones are classes
MANY = 0.5  # share of the rows: so many different texts are no names to learn from
SKEWED = 20.0  # times the median: numbers from 0 on that reach so far are read by their logarithm
CUT, BUCKETS = 1_000, 64  # rows from which numbers are also names of intervals, and how many of these
SEEN = 600_000  # rows to learn from, over all epochs


def write_recipe(data: Path) -> str:
    """The text of a recipe that predicts a column of a csv or tsv file (gzipped or not) from the others.

    The target is the column called target, label, class, y or the like, else the last. Text and few whole numbers are
    classes, other numbers are predicted as numbers. Of the other columns numbers are standardised (by logarithm where
    they are skewed) and texts become names; left out are those with one value, with a value for nearly each row, and
    times. The head of the recipe says which column was taken for what.
    """
    if data.is_dir():
        raise UsageError(f"{data}: a folder; name the table itself: --data {data}/rows.csv")
    found = ClickFile(data.resolve())
    count = len(found)
    if count < FEWEST:
        raise fault(data, f"{count} rows; at least {FEWEST} are needed", "give more")
    table = {name: column for name, column in found.table.items() if isinstance(column, Text)}
    target = named(list(table), TARGET) or list(table)[-1]
    classes = _classes(table[target])
    fields, left_out = _fields({name: column for name, column in table.items() if name != target}, count)
    if not fields:
        raise UsageError(f"{data}: no column to learn from; left out are {listed(left_out)}")
    path = {split: quoted(data.resolve()) if split == "train" else '"${data.train.path}"' for split in SPLITS}
    batch = next((size for size in (512, 256, 128, 64, 32) if count >= 40 * size), 16)
    what = f"one of {len(classes)} classes ({listed(classes, 6)})" if classes else "a number"
    lines = [
        f"# {count:,} rows; {target} is predicted, {what}, from {len(fields)} columns: {listed(fields, 12)}",
        *([f"# Left out: {listed([f'{name} ({why})' for name, why in left_out.items()], 12)}."] if left_out else []),
        "defaults:",
        "  - /rec/rows",
        "  - _self_",
        "task:",
        f"  target: {quoted(target)}",
        f"  kind: {'class' if classes else 'number'}",
        "  fields:",
        *(line for name, (column, spec) in _names(fields).items() for line in _field(name, column, spec, count)),
        "model: {_target_: pdl_rec.TableNet}",
        "data:",
        *(
            f"  {split}: {{_target_: pdl_rec.data.ClickFile, path: {path[split]}, split: {split}, ratios: {RATIOS}}}"
            for split in SPLITS
        ),
        f"  batch_size: {batch}",
        f"train: {{epochs: {int(np.clip(SEEN // count, 5, 100))}}}",
    ]
    return "\n".join(lines) + "\n"


def _classes(column: Text) -> list[str]:
    """The classes of a target, none where it is a number. Raises UsageError where a row has none."""
    if (column.codes < 0).any():
        row = int(np.flatnonzero(column.codes < 0)[0])
        raise UsageError(f"the column to predict is empty in row {row} of {len(column)}; fill it in, or remove the row")
    texts = sorted(set(column.texts()))
    numbers = column.numbers()
    if not np.isfinite(numbers).all():
        return texts
    whole = bool((numbers == np.round(numbers)).all())
    return texts if whole and len(texts) <= min(CLASSES, len(column) // 10) else []


def _fields(columns: Mapping[str, Text], count: int) -> tuple[dict[str, str], dict[str, str]]:
    """Column -> the settings of its field, and column -> why it is left out."""
    fields, left_out = {}, {}
    for name, column in columns.items():
        given = column.codes >= 0
        values = [text for text in column.values if text]
        numbers = column.numbers()[given]
        few = len(set(values)) < 2
        if few:
            left_out[name] = "one value"
        elif np.isfinite(numbers).mean() > 1 - 0.01:
            if len(values) == count and bool((np.abs(np.diff(numbers)) == 1).all()):
                left_out[name] = "numbers the rows"
            else:
                fields[name] = f"kind: number, scale: {_scale(numbers[np.isfinite(numbers)])}"
        elif all(ISO.match(text) for text in values[:50]):
            left_out[name] = "times"
        elif len(values) > MANY * given.sum():
            left_out[name] = "a text for each row"
        else:
            fields[name] = f"min_count: {5 if count >= 2_000 else 2}"
    return fields, left_out


def _scale(numbers: np.ndarray) -> str:
    skewed = numbers.min() >= 0 and numbers.max() > SKEWED * max(float(np.median(numbers)), 1.0)
    return "log_standard" if skewed else "standard"


def _names(fields: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Name of a field -> its column and settings; names hold no signs that settings have no place for."""
    found: dict[str, tuple[str, str]] = {}
    for number, (column, spec) in enumerate(fields.items()):
        plain = re.sub(r"[^\w\-. ]", "_", column).strip() or f"column{number}"
        name = plain if re.match(r"\w", plain) and plain not in found else f"column{number}"
        found[name] = (column, spec)
    return found


def _field(name: str, column: str, spec: str, count: int) -> list[str]:
    """The lines of a field. With rows enough a number is read by its interval, too: what depends on it need not rise or
    fall with it (census income: val/accuracy 0.851 without, 0.859 with intervals)."""
    own = "" if name == column else f"column: {quoted(column)}, "
    lines = [f"    {quoted(name)}: {{{own}{spec}}}"]
    if spec.startswith("kind: number") and count >= CUT:
        lines.append(f"    {quoted(f'{name} cut')}: {{kind: number, column: {quoted(column)}, buckets: {BUCKETS}}}")
    return lines
