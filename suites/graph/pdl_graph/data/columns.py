"""Tables of nodes and edges by columns: csv, tsv (also .gz), and parquet where pyarrow is installed."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pdl.data.faults import DataFault, fault, unreadable
from pdl.files import read_plain
from pdl_graph.exchange import optional

LARGEST = float(np.finfo(np.float32).max)
ENDINGS = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet")


@dataclass(frozen=True)
class Table:
    """Columns by name: lists of text (of a csv file), or NumPy arrays (of parquet), all of one length.

    lines  the line of each row in the file; () where a row has none
    """

    path: Path
    columns: dict[str, Any]
    lines: Sequence[int] = ()

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def fault(self, row: int, what: str, advice: str) -> DataFault:
        """A fault of a row, with its line or number."""
        return fault(self.path, what, advice, **{"line": self.lines[row]} if len(self.lines) else {"index": row})

    def text(self, name: str) -> list[str]:
        """A column as text; missing values are empty."""
        held = self.columns[name]
        return held if isinstance(held, list) else [_text(each) for each in held.tolist()]

    def numbers(self, name: str, thing: str = "a feature") -> np.ndarray:
        """A column as finite numbers, float64. DataFault with the first line that is none."""
        held = self.columns[name]
        try:
            times = isinstance(held, np.ndarray) and held.dtype.kind in "mM"
            found = np.full(len(held), np.nan) if times else np.asarray(held, np.float64)
        except (ValueError, TypeError):
            found = np.array([_number(each) for each in held], np.float64)
        bad = np.flatnonzero(~(np.abs(found) <= LARGEST))
        if len(bad):
            row = int(bad[0])
            value = held[row]
            raise self.fault(row, f"{name} is {value!r}", f"{thing} is a finite number: write one, or drop the column")
        return found


def _text(value: Any) -> str:
    """Missing values are empty; integers that parquet stores as floats, because some are missing, have no point."""
    if value is None or value != value:
        return ""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _number(text: Any) -> float:
    try:
        return float(text)
    except (ValueError, TypeError):
        return float("nan")


def find_table(folder: Path, name: str) -> Path | None:
    """nodes.csv or the like of a folder, if it is there."""
    return next((path for end in ENDINGS if (path := folder / f"{name}{end}").is_file()), None)


def read_table(path: Path) -> Table:
    """The table of a file. DataFault for rows of another length than the header, and names of columns twice."""
    return _parquet(path) if path.suffix == ".parquet" else _csv(path)


def _csv(path: Path) -> Table:
    try:
        text = read_plain(path).decode("utf-8-sig")
    except (EOFError, zlib.error, gzip.BadGzipFile, UnicodeDecodeError) as error:
        raise fault(path, f"is damaged, or no text in UTF-8: {error}", "get or write it again") from error
    except OSError as error:
        raise unreadable(path, error) from error
    reader = csv.reader(io.StringIO(text, newline=""), delimiter="\t" if ".tsv" in path.suffixes else ",", strict=True)
    rows, lines = [], []
    try:
        for row in reader:
            if row:
                rows.append(row)
                lines.append(reader.line_num)
    except csv.Error as error:
        raise fault(path, f"cannot be read as a table: {error}", "correct the line", line=reader.line_num) from error
    if not rows:
        raise fault(path, "is empty", "give a header and a row for each node or edge")
    rows = [[cell.strip() for cell in row] for row in rows]
    header = rows[0]
    _check_names(path, header)
    for row, line in zip(rows, lines, strict=True):
        if len(row) != len(header):
            raise fault(path, f"has {len(row)} values for {len(header)} columns", "correct the line", line=line)
    columns = [list(column) for column in zip(*rows[1:], strict=True)] or [[] for _ in header]
    return Table(path, dict(zip(header, columns, strict=True)), lines[1:])


def _parquet(path: Path) -> Table:
    parquet = optional("pyarrow.parquet", f"reading {path.name}")
    arrow = optional("pyarrow", f"reading {path.name}")
    try:
        table = parquet.read_table(path)
    except (arrow.ArrowException, OSError) as error:
        raise fault(path, f"cannot be read as parquet: {error}", "get or write it again") from error
    _check_names(path, table.column_names)
    return Table(path, {name: table[name].to_numpy() for name in table.column_names})


def _check_names(path: Path, header: Sequence[str]) -> None:
    twice = sorted({name for name in header if list(header).count(name) > 1})
    if twice:
        raise fault(path, f"has two columns {twice[0]!r}", "name each column once", line=1)


def numbered(table: Table, name: str) -> np.ndarray:
    """A column of names as an array of text, or of whole numbers where the file (parquet) has such; none is empty."""
    held = table.columns[name]
    if isinstance(held, np.ndarray) and held.dtype.kind in "iu":
        return held
    found = np.array(table.text(name), str)
    empty = np.flatnonzero(found == "")
    if len(empty):
        raise table.fault(int(empty[0]), f"{name} is empty", "name the node")
    return found


def places(names: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Where each of `wanted` stands in `names`, int64; -1 where it does not."""
    if names.dtype.kind != wanted.dtype.kind and "U" in names.dtype.kind + wanted.dtype.kind:
        names, wanted = names.astype(str), wanted.astype(str)
    if names.dtype.kind == "U":
        number = dict(zip(names.tolist(), range(len(names)), strict=True))
        return np.fromiter((number.get(each, -1) for each in wanted.tolist()), np.int64, len(wanted))
    if not len(names):
        return np.full(len(wanted), -1)
    order = np.argsort(names, kind="stable")
    at = order[np.minimum(np.searchsorted(names, wanted, sorter=order), len(names) - 1)]
    return np.where(names[at] == wanted, at, -1)
