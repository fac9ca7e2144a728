"""Small tables of numbers with a header."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pdl.errors import DataError
from pdl.files import read_text
from pdl.runtime.arrays import read_array
from pdl.runtime.tables import lines_of, numbered, opened


@dataclass(frozen=True)
class Columns:
    """values float64 [rows, columns];    columns  their names;    names  of the rows, where a column has them."""

    values: np.ndarray
    columns: list[str]
    names: list[str]


def read_columns(
    path: str | Path, wanted: Sequence[str] | None, *, names: str | None = None, skip: str | None = None
) -> Columns:
    """A *.csv (or with tabs, *.tsv) with a header.

    wanted   the columns of numbers, by default all but `names` (of the rows, if it is there) and `skip`
    """
    file = Path(path).expanduser()
    if not file.is_file():
        raise DataError(f"{file}: no such file; give a table with a header")
    with opened(file) as stream:
        lines = csv.reader(lines_of(stream, str(file)), delimiter="\t" if file.suffix == ".tsv" else ",")
        rows = [row for _, row in numbered(lines, str(file)) if row]
    head = [cell.strip() for cell in rows[0]] if rows else []
    chosen = [name for name in head if name not in (names, skip)] if wanted is None else list(wanted)
    absent = [name for name in chosen if name not in head]
    if absent or not chosen or len(rows) < 2:
        raise DataError(f"{file}: {f'no column {absent[0]!r}' if absent else 'no rows of numbers'}; its header is "
                        f"{','.join(head)!r:.80}, expected {','.join(chosen) or 'names of columns'}")  # fmt: skip
    at = [head.index(name) for name in chosen]
    values = np.zeros((len(rows) - 1, len(chosen)))
    for number, row in enumerate(rows[1:]):
        try:
            values[number] = [float(row[k]) for k in at]
        except (IndexError, ValueError):
            raise DataError(f"{file}, line {number + 2}: {','.join(row)!r:.60} lacks a number of the columns "
                            f"{', '.join(chosen)}") from None  # fmt: skip
    labels = [row[head.index(names)].strip() for row in rows[1:]] if names in head else []
    return Columns(values, chosen, labels)


def read_matrix(path: str | Path) -> np.ndarray:
    """A matrix float64 of a *.npy, or of a *.csv without a header."""
    file = Path(path).expanduser()
    try:
        if file.suffix == ".npy":
            return np.asarray(read_array(file), np.float64)
        lines = read_text(file).splitlines()
        rows = [[float(cell) for cell in line.split(",")] for line in lines if line.strip()]
        return np.array(rows, np.float64)
    except (OSError, ValueError, TypeError) as error:
        raise DataError(f"{file}: no matrix as *.npy, or as *.csv without a header: {error}") from None
