"""A recipe for a table of the user's, as `pdl init quantum.classifier --data FILE` writes it."""

from __future__ import annotations

import csv
from pathlib import Path

from pdl.config.text import quoted
from pdl.errors import UsageError
from pdl.runtime.tables import lines_of, numbered, opened
from pdl_quantum.data.table import TableFile

SPLITS = ("train", "val", "test")
FEWEST = 20  # rows of each class: 14 to learn from, 2 and 4 to measure
QUBITS = 8  # numbers that have a qubit each; more become amplitudes
NAMES = ("label", "class", "target", "species", "kind")


def write_recipe(data: Path) -> str:
    """The text of a recipe that tells the classes of the rows of a file *.csv or *.tsv: numbers, and a column label,
    class, target, species or kind, or else the last one.

    Up to eight numbers turn a qubit each, again and again between trained layers; more are amplitudes.
    """
    if not data.is_file():
        raise UsageError(f"{data}: no file; name a table *.csv or *.tsv with a header")
    label = _label(data)
    table = TableFile(path=str(data), label=label)
    width, rows = len(table.columns), min(map(int, _counts(table)))
    if rows < FEWEST:
        raise UsageError(f"{data}: the rarest class of column {label!r} has {rows} rows; at least {FEWEST} are needed")
    path = {split: quoted(data.resolve()) if split == "train" else '"${data.train.path}"' for split in SPLITS}
    encoding = "AngleEncoding" if width <= QUBITS else "AmplitudeEncoding"
    how = "layers: 1, uploads: 3" if width <= QUBITS else "layers: 4"
    lines = [
        f"# {len(table):,} rows of {width} numbers, {len(table.classes)} classes: {', '.join(table.classes[:8])}.",
        "defaults:",
        "  - /quantum/classifier",
        "  - _self_",
        f"task: {{scale: {'angle' if width <= QUBITS else 'standard'}}}",
        "model:",
        "  _target_: pdl_quantum.VariationalClassifier",
        f"  encoding: {{_target_: pdl_quantum.{encoding}}}",
        *(f"  {each}" for each in how.split(", ")),
        "data:",
        *(
            f"  {split}: {{_target_: pdl_quantum.data.TableFile, path: {path[split]}, label: {quoted(label)}, "
            f"split: {split}}}"
            for split in SPLITS
        ),
    ]
    return "\n".join(lines) + "\n"


def _label(data: Path) -> str:
    """The column of the class."""
    with opened(data) as file:
        lines = csv.reader(lines_of(file, str(data)), delimiter="\t" if ".tsv" in data.suffixes else ",")
        header = next(numbered(lines, str(data)), (0, []))[1]
    names = [name.strip() for name in header]
    if len(names) < 2:
        raise UsageError(f"{data}: the first line has {len(names)} columns; it must name numbers and a class")
    return next((name for name in names if name.lower() in NAMES), names[-1])


def _counts(table: TableFile) -> list[int]:
    labels = table.labels
    assert labels is not None
    return [int((labels == k).sum()) for k in range(len(table.classes))]
