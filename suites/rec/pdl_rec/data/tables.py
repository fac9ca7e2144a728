"""Columns out of csv and tsv files, gzipped or not: names as numbers beside a list of names, and plain numbers.

Reading is pyarrow's: blocks of the file become columns at once, and no Python object is made for a row.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from pdl import threads
from pdl.data.faults import DataFault, fault, unreadable
from pdl.data.store import data_root
from pdl.suites import suggest

Kind = Literal["token", "float", "time", "text"]
SEPARATORS = ("\t", ",", ";", "|")
BLOCK = 4 << 20  # bytes that are converted at once
HEAD = 1 << 16  # bytes that the first line must end in


@dataclass(frozen=True)
class Coded:
    """A column of names: row i is `names[codes[i]]`; every name is there once, in the order of appearance."""

    codes: np.ndarray
    names: list[str]

    @cached_property
    def order(self) -> np.ndarray:
        """The place of each name among the sorted ones, int64: whole numbers by value, others as text."""
        rank = np.empty(len(self.names), np.int64)
        rank[np.argsort(_sortable(self.names), kind="stable")] = np.arange(len(self.names))
        return rank


def _sortable(names: list[str]) -> np.ndarray:
    try:
        return np.array(names, np.int64)
    except (ValueError, OverflowError):
        return np.array(names)


@dataclass(frozen=True)
class Source:
    """A table: a file, or bytes that were found under a name. `gzip` is told by its first bytes."""

    name: str
    content: Path | bytes

    def open(self) -> Any:
        """A fresh stream of the plain text."""
        import pyarrow as pa

        try:
            if isinstance(self.content, bytes):
                raw, head = pa.BufferReader(self.content), self.content[:2]
            else:
                with self.content.open("rb") as file:
                    head = file.read(2)
                raw = pa.OSFile(str(self.content))
        except OSError as error:
            raise unreadable(self.name, error) from error
        return pa.CompressedInputStream(raw, "gzip") if head == b"\x1f\x8b" else raw

    def first_line(self) -> str:
        """The text up to the first line end, without a byte order mark."""
        try:
            head = self.open().read(HEAD)
        except (OSError, EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise fault(
                self.name, f"the file is damaged or cut off: {error}", "get it again from its source"
            ) from error
        if not head.strip():
            raise fault(self.name, "the file is empty", "give a file with a line for each event")
        return str(head.decode("utf-8-sig", "replace").lstrip("\n").splitlines()[0])


def source(path: str | Path, address: str | None = None) -> Source:
    """The file at `path`; a relative one is also looked for under PDL_DATA. Where it is in neither place, the fault
    names both, and the `address` to get it from."""
    own, kept = Path(path).expanduser(), data_root() / Path(path)
    found = next((place for place in (own, kept) if place.exists()), None)
    if found is None:
        get = "correct the path, or set PDL_DATA" if address is None else f"get it from {address}"
        looked = f"; looked for {own} and {kept}" if own != kept else ""
        raise fault(kept if own != kept else own, f"no such file{looked}", get)
    if found.is_dir():
        raise fault(found, "a folder stands where a file was expected", "name the file itself")
    return Source(str(found), found)


def separator_of(line: str) -> str:
    """What parts the columns of a first line: tab, comma, semicolon or bar, whichever it has most of; a tab where it
    has none."""
    return max(SEPARATORS, key=line.count)


def read(
    table: Source,
    columns: Mapping[str, Kind],
    *,
    separator: str | None = None,
    header: Sequence[str] | None = None,
) -> dict[str, Any]:
    """The named columns of a table.

    columns    name -> kind: "token" gives `Coded`; "float" a float64 array (NaN where the field is empty); "time" the
               same from numbers or ISO 8601 timestamps (then in seconds since 1970, UTC), none of them empty; "text" a
               pyarrow column of strings
    separator  by default found from the first line
    header     names of all columns, for a file whose first line is data

    Raises DataFault with the line for what does not fit.
    """
    line = table.first_line()
    separator = separator or separator_of(line)
    names = list(header) if header is not None else [name.strip() for name in line.split(separator)]
    for name in columns:
        if name not in names:
            have = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
            advice = "name the column as the file does, or set separator= (here taken as " + repr(separator) + ")"
            raise fault(table.name, f"no column {name!r}; there are {have}{suggest(name, names)}", advice, line=1)
    first = 1 if header is not None else 2
    found = _Reader(table, separator, names, header is not None).load(columns)
    return {name: _CONVERT[kind](found.column(name), name, table.name, first) for name, kind in columns.items()}


class _Reader:
    """One pass over a file; on a fault a second, by one thread, which knows the line."""

    def __init__(self, table: Source, separator: str, names: list[str], headless: bool) -> None:
        self.source, self.separator, self.names, self.headless = table, separator, names, headless

    def load(self, columns: Mapping[str, Kind]) -> Any:
        """pyarrow's table of these columns."""
        import pyarrow as pa

        try:
            try:
                found = self._read(columns, threads.get_num_threads() > 1)
            except pa.ArrowInvalid:
                found = self._read(columns, False)
        except pa.ArrowInvalid as error:
            raise self._fault(str(error)) from error
        except (OSError, EOFError) as error:
            advice = "get it again from its source"
            raise fault(self.source.name, f"the file is damaged or cut off: {error}", advice) from error
        if not len(found):
            raise fault(self.source.name, "the file has a header and no rows", "give it a line for each event")
        return found

    def _read(self, columns: Mapping[str, Kind], threaded: bool) -> Any:
        import pyarrow as pa
        from pyarrow import csv

        token = pa.dictionary(pa.int32(), pa.string())
        types = {"token": token, "float": pa.float64(), "text": pa.string()}
        return csv.read_csv(
            self.source.open(),
            read_options=csv.ReadOptions(
                use_threads=threaded, block_size=BLOCK, column_names=self.names, skip_rows=0 if self.headless else 1
            ),
            parse_options=csv.ParseOptions(
                delimiter=self.separator, quote_char=False if self.separator == "\t" else '"'
            ),
            convert_options=csv.ConvertOptions(
                column_types={name: types[kind] for name, kind in columns.items() if kind in types},
                include_columns=list(columns),
                strings_can_be_null=False,
            ),
        )

    def _fault(self, message: str) -> DataFault:
        """pyarrow's complaint with our column's name and line. It counts rows from the first line of the file."""
        row = re.search(r"Row #(\d+): ", message)
        column = re.search(r"In CSV column #(\d+): ", message)
        for found in (row, column):
            message = message.replace(found.group(), "") if found else message
        name = f"column {self.names[int(column.group(1))]!r}: " if column and int(column.group(1)) < len(
            self.names
        ) else ""  # fmt: skip
        what = message.replace("CSV conversion error to ", "not a ").replace("CSV parse error: ", "")
        advice = "correct the line, or the column names and separator= of the data set"
        return fault(self.source.name, name + what, advice, line=int(row.group(1)) if row else None)


def _token(column: Any, name: str, path: str, first: int) -> Coded:
    array = column.unify_dictionaries().combine_chunks()
    if hasattr(array, "chunk"):  # older pyarrow
        array = array.chunk(0)
    found = Coded(array.indices.to_numpy(zero_copy_only=False), array.dictionary.to_pylist())
    if "" in found.names:
        row = int(np.flatnonzero(found.codes == found.names.index(""))[0])
        raise fault(path, f"column {name!r} is empty", "give it a name, or remove the line", line=row + first)
    return found


def _float(column: Any, name: str, path: str, first: int) -> np.ndarray:
    array: np.ndarray = column.to_numpy()
    return array.astype(np.float64, copy=False)


def _time(column: Any, name: str, path: str, first: int) -> np.ndarray:
    import pyarrow as pa

    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_boolean(kind):
        row = next((i for i, value in enumerate(column) if not _is_time(str(value))), 0)
        what = f"column {name!r}: {str(column[row])[:40]!r} is no time"
        raise fault(path, what, "times are numbers, or written as 2014-04-01T10:00:00", line=row + first)
    if pa.types.is_temporal(kind):
        column = column.cast(pa.timestamp("us", getattr(kind, "tz", None))).cast(pa.int64())
        times = _float(column, name, path, first) / 1e6
    else:
        times = _float(column, name, path, first)
    absent = np.flatnonzero(~np.isfinite(times))
    if len(absent):
        raise fault(
            path, f"column {name!r} has no time", "give it one, or remove the line", line=int(absent[0]) + first
        )
    return times


def _is_time(text: str) -> bool:
    return bool(
        re.fullmatch(r"[-+]?\d+(\.\d*)?([eE][-+]?\d+)?|\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?Z?)?", text)
    )


def _text(column: Any, name: str, path: str, first: int) -> Any:
    return column


def words(column: Any) -> tuple[Coded, np.ndarray]:
    """A column of texts cut at spaces: (the words of all rows one behind another, int64 offsets [rows + 1])."""
    import pyarrow as pa
    from pyarrow import compute

    lists = compute.utf8_split_whitespace(compute.utf8_trim_whitespace(column)).cast(pa.large_list(pa.string()))
    lists = pa.concat_arrays(lists.chunks)
    found = lists.flatten()
    there = compute.not_equal(found, "").to_numpy(zero_copy_only=False)  # a row without words is one empty text
    coded = found.filter(pa.array(there)).dictionary_encode()
    codes = coded.indices.to_numpy(zero_copy_only=False)
    before = np.concatenate([[0], np.cumsum(there)])
    return Coded(codes, coded.dictionary.to_pylist()), before[lists.offsets.to_numpy()]


_CONVERT: dict[Kind, Callable[[Any, str, str, int], Any]] = {
    "token": _token, "float": _float, "time": _time, "text": _text,
}  # fmt: skip

__all__ = ["Coded", "Kind", "Source", "read", "separator_of", "source", "words"]
