"""Columns out of csv and tsv files, gzipped or not: names as numbers beside a list of names, and plain numbers.

Reading is pyarrow's: blocks of the file become columns at once, and no Python object is made for a row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from pdl import threads
from pdl.data.faults import DataFault, fault, unreadable
from pdl.data.store import to_get, under_roots
from pdl.errors import listed
from pdl.files import open_file
from pdl.runtime.tables import cells
from pdl.suites import suggest

Kind = Literal["token", "float", "time", "text"]
SEPARATORS = ("\t", ",", ";", "|")
BLOCK = 4 << 20
HEAD, SOME = 1 << 16, 20  # bytes and lines that are looked at to know what a file is like


class Coded:
    """A column of names: row i is `names[codes[i]]`; every name is there once, in the order of appearance.

    codes       int32 [rows]
    dictionary  the names, as pyarrow holds them
    """

    def __init__(self, codes: np.ndarray, dictionary: Any) -> None:
        self.codes, self.dictionary = codes, dictionary

    def take(self, rows: np.ndarray) -> Coded:
        """The column of these rows."""
        return Coded(self.codes[rows], self.dictionary)

    @cached_property
    def names(self) -> list[str]:
        """The names, as Python's."""
        return list(self.dictionary.to_pylist())

    @cached_property
    def sorted_names(self) -> np.ndarray:
        """All names in order: whole numbers by value, others as text. int64 where all are whole numbers as Python
        writes them, else text."""
        from pyarrow import compute

        numbers = self._numbers
        if numbers is not None and compute.equal(compute.cast(numbers, "string"), self.dictionary).false_count == 0:
            return np.sort(numbers.to_numpy())
        return np.array(self.names)[self._sorting]

    @cached_property
    def order(self) -> np.ndarray:
        """The place of each name among the sorted ones, int32 [names]."""
        rank = np.empty(len(self.dictionary), np.int32)
        rank[self._sorting] = np.arange(len(rank), dtype=np.int32)
        return rank

    @property
    def _sorting(self) -> np.ndarray:
        numbers = self._numbers
        return np.argsort(np.array(self.names) if numbers is None else numbers.to_numpy(), kind="stable")

    @cached_property
    def _numbers(self) -> Any:
        import pyarrow as pa
        from pyarrow import compute

        try:
            return compute.cast(self.dictionary, "int64")
        except pa.ArrowInvalid:
            return None


@dataclass(frozen=True)
class Source:
    """A table: a file, or bytes that were found under a name. `gzip` is recognised by its first bytes."""

    name: str
    content: Path | bytes

    def open(self) -> Any:
        """A fresh stream of the plain text."""
        import pyarrow as pa

        try:
            if isinstance(self.content, bytes):
                raw, head = pa.BufferReader(self.content), self.content[:2]
            else:
                with open_file(self.content) as file:
                    head = file.read(2)
                raw = pa.OSFile(str(self.content))
        except OSError as error:
            raise unreadable(self.name, error) from error
        return pa.CompressedInputStream(raw, "gzip") if head == b"\x1f\x8b" else raw

    def first_lines(self) -> list[str]:
        """The text of the first few lines, at least one, without a byte order mark; empty lines are left out."""
        try:
            head = self.open().read(HEAD)
        except (OSError, EOFError) as error:
            raise _damaged(self.name, error) from error
        lines = [line for line in head.decode("utf-8-sig", "replace").splitlines()[:SOME] if line.strip()]
        if not lines:
            raise fault(self.name, "the file is empty", "give a file with a line for each event")
        return lines


def _damaged(name: str, error: Exception) -> DataFault:
    return fault(name, f"the file is damaged or cut off: {error}", "get it again from its source")


def source(path: str | Path, address: str | None = None) -> Source:
    """The file at `path`; a relative one is also looked for under PDL_DATA. Where it is in none of them, the fault
    names all of them, and how to get it (`address`: see `pdl.data.to_get`)."""
    own = Path(path).expanduser()
    places = list(dict.fromkeys([own, *under_roots(own)]))
    found = next((place for place in places if place.exists()), None)
    if found is None:
        get = "correct the path, or set PDL_DATA" if address is None else to_get(address)
        looked = f"; looked for {' and '.join(map(str, places))}" if len(places) > 1 else ""
        raise fault(places[min(1, len(places) - 1)], f"no such file{looked}", get)
    if found.is_dir():
        raise fault(found, "a folder stands where a file was expected", "name the file itself")
    return Source(str(found), found)


def separator_of(line: str) -> str:
    """What parts the columns of a first line: tab, comma, semicolon or bar, whichever it has most of; a tab where it
    has none."""
    return max(SEPARATORS, key=line.count)


def read(
    table: Source, columns: Mapping[str, Kind], *, separator: str | None = None, header: Sequence[str] | None = None
) -> dict[str, Any]:
    """The named columns of a table.

    columns    name -> kind: "token" gives `Coded`; "float" a float64 array (NaN where the field is empty); "time" the
               same from numbers or ISO 8601 timestamps (then in seconds since 1970, UTC), none of them empty; "text" a
               pyarrow column of strings
    separator  by default found from the first line
    header     names of all columns, for a file whose first line is data

    Raises DataFault with the line for what does not fit.
    """
    lines = table.first_lines()
    line = lines[0]
    separator = separator or separator_of(line)
    quoted = separator != "\t" or '"' in line  # in tab-separated text a quote is mostly one of its letters
    names = list(header) if header is not None else _names(line, table.name, separator, quoted)
    for name in columns:
        if name not in names:
            have = listed(names, 12)
            advice = "name the column as the file does, or set separator= (here taken as " + repr(separator) + ")"
            raise fault(table.name, f"no column {name!r}; there are {have}{suggest(name, names)}", advice, line=1)
    first = 1 if header is not None else 2
    below = next((_names(each, table.name, separator, quoted) for each in lines[0 if header is not None else 1 :]), [])
    row = dict(zip(names, below, strict=False))
    found = _Reader(table, separator, quoted, names, header is not None).load(columns, row)
    return {name: _CONVERT[kind](found.column(name), name, table.name, first) for name, kind in columns.items()}


def header_of(table: Source) -> list[str]:
    """The columns that the first line of a table names."""
    line = table.first_lines()[0]
    return _names(line, table.name, separator_of(line), '"' in line)


def _names(line: str, where: str, separator: str, quoted: bool) -> list[str]:
    parts = cells(line, where, separator) if quoted else line.split(separator)
    return [name.strip() for name in parts]


class _Reader:
    """One pass over a file; on a fault a second, by one thread, which knows the line."""

    def __init__(self, table: Source, separator: str, quoted: bool, names: list[str], headless: bool) -> None:
        self.source, self.separator, self.quoted = table, separator, quoted
        self.names, self.headless = names, headless

    def load(self, columns: Mapping[str, Kind], row: Mapping[str, str]) -> Any:
        """pyarrow's table of these columns; `row` is the first line of data."""
        import pyarrow as pa

        try:
            try:
                found = self._read(columns, row, threads.get_num_threads() > 1)
            except pa.ArrowInvalid:
                found = self._read(columns, row, False)
        except pa.ArrowInvalid as error:
            raise self._fault(str(error)) from error
        except (OSError, EOFError) as error:
            raise _damaged(self.source.name, error) from error
        if not len(found):
            raise fault(self.source.name, "the file has a header and no rows", "give it a line for each event")
        return found

    def _read(self, columns: Mapping[str, Kind], row: Mapping[str, str], threaded: bool) -> Any:
        import pyarrow.csv as arrow

        return arrow.read_csv(
            self.source.open(),
            read_options=arrow.ReadOptions(
                use_threads=threaded, block_size=BLOCK, column_names=self.names, skip_rows=0 if self.headless else 1
            ),
            parse_options=arrow.ParseOptions(delimiter=self.separator, quote_char='"' if self.quoted else False),
            convert_options=arrow.ConvertOptions(
                column_types={name: _type(kind, row.get(name, "")) for name, kind in columns.items()},
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
        message = re.sub(r"CSV conversion error to .*: invalid UTF8 data", "not UTF-8 text", message)
        what = re.sub(r"CSV conversion error to \S+: invalid value '(.*)'", r"'\1' is no number or time", message)
        what = what.replace("CSV parse error: ", "")
        advice = "correct the line, or the column names and separator= of the data set"
        return fault(self.source.name, name + what, advice, line=int(row.group(1)) if row else None)


def _type(kind: Kind, first: str) -> Any:
    """pyarrow's type for a column of this kind whose first field is `first`."""
    import pyarrow as pa

    if kind == "time" and re.match(r"\d{4}-\d\d-\d\d", first.strip()):
        return pa.timestamp("us", "UTC" if re.search(r":\S*(Z|[-+]\d\d:?\d\d)$", first.strip()) else None)
    if kind == "token":
        return pa.dictionary(pa.int32(), pa.string())
    return pa.string() if kind == "text" else pa.float64()


def _token(column: Any, name: str, path: str, first: int) -> Coded:
    from pyarrow import compute

    array = column.unify_dictionaries().combine_chunks()
    if hasattr(array, "chunk"):  # older pyarrow
        array = array.chunk(0)
    found = Coded(array.indices.to_numpy(zero_copy_only=False), array.dictionary)
    empty = compute.index(array.dictionary, "").as_py()
    if empty >= 0:
        row = int(np.flatnonzero(found.codes == empty)[0])
        raise fault(path, f"column {name!r} is empty", "give it a name, or remove the line", line=row + first)
    return found


def _float(column: Any, name: str, path: str, first: int) -> np.ndarray:
    array: np.ndarray = column.to_numpy()
    return array.astype(np.float64, copy=False)


def _time(column: Any, name: str, path: str, first: int) -> np.ndarray:
    import pyarrow as pa

    if pa.types.is_temporal(column.type):
        times = _float(column.cast(pa.int64()), name, path, first) / 1e6
    else:
        times = _float(column, name, path, first)
    absent = np.flatnonzero(~np.isfinite(times))
    if len(absent):
        line = int(absent[0]) + first
        raise fault(path, f"column {name!r} has no time", "give it one, or remove the line", line=line)
    return times


def _text(column: Any, name: str, path: str, first: int) -> Any:
    return column


def words(column: Any) -> tuple[Coded, np.ndarray]:
    """A column of texts cut at spaces: (the words of all rows one behind another, int64 offsets [rows + 1])."""
    import pyarrow as pa
    from pyarrow import compute

    lists = compute.utf8_split_whitespace(compute.utf8_trim_whitespace(column)).cast(pa.large_list(pa.large_string()))
    lists = pa.concat_arrays(lists.chunks)
    found = lists.flatten()
    there = compute.not_equal(found, "").to_numpy(zero_copy_only=False)  # a row without words is one empty text
    coded = found.filter(pa.array(there)).dictionary_encode()
    codes = coded.indices.to_numpy(zero_copy_only=False)
    before = np.concatenate([[0], np.cumsum(there)])
    return Coded(codes, coded.dictionary), before[lists.offsets.to_numpy()]


_CONVERT: dict[Kind, Callable[[Any, str, str, int], Any]] = {
    "token": _token, "float": _float, "time": _time, "text": _text,
}  # fmt: skip
