"""Files of many inputs: tables (csv, tsv, slots), lines of text or JSON; "-" is standard input.

Files *.gz, *.bz2 and *.xz are unpacked. Text is UTF-8, with or without a byte order mark, or UTF-16 with one. A fault
is a DataError with file and line.
"""

from __future__ import annotations

import codecs
import csv
import io
import itertools
import json
import lzma
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TextIO

import numpy as np

from pdl.errors import DataError, UsageError
from pdl.files import PACKED, open_file, plain_name, unpacked

SEPARATORS = {".csv": ",", ".tsv": "\t"}
"""Of the columns of a table, by the name of its file."""
MOST_LINE = 1 << 24
"""Letters of a line."""
_MANY = (*SEPARATORS, ".txt", *PACKED)
_DAMAGED = (EOFError, OSError, zlib.error, lzma.LZMAError)


def is_file_of_many(word: str) -> bool:
    """Whether a word of the command line is a file of many inputs: "-", a name that ends as such files do, or a file or
    folder that is there."""
    return word == "-" or names_many(word) or is_there(word)


def is_there(word: str | Path) -> bool:
    """Whether a word of the command line is a file or folder; a text longer than names may be is none."""
    try:
        return Path(word).exists()
    except (OSError, ValueError):
        return False


def names_many(name: str) -> bool:
    """Whether a name ends as those of files of many inputs do."""
    return Path(name).suffix.lower() in _MANY


def is_table(path: str | Path) -> bool:
    """Whether a file's name says that it is a table with a header: *.csv or *.tsv, or these packed."""
    return separator_of(path) is not None


def separator_of(path: str | Path) -> str | None:
    """Of the columns of a table; None for a file whose name does not say that it is one."""
    return SEPARATORS.get(Path(plain_name(path)).suffix.lower())


def split_names(item: Any, what: str) -> list[str]:
    """The names in a text (between commas; quotes as in csv, RFC 4180), or of a sequence of names or whole numbers;
    `what` such an item is, for messages."""
    if isinstance(item, str):
        names = item.split(",") if '"' not in item and "\n" not in item else _quoted(item, what)
        names = [name.strip() for name in names] if item.strip() else []
    elif isinstance(item, Sequence | np.ndarray) and all(isinstance(each, str | int | np.integer) for each in item):
        names = [str(each) for each in item]
    else:
        raise UsageError(f"a {what} is a text 'name1,name2' or a list of names, not {type(item).__name__}")
    if "" in names:
        raise DataError(f"name {names.index('') + 1} of the {what} {str(item)[:60]!r} is empty")
    return names


def _quoted(text: str, what: str) -> list[str]:
    try:
        (names,) = csv.reader([text], skipinitialspace=True, strict=True)
    except (csv.Error, ValueError) as error:
        raise DataError(f"the {what} {text[:60]!r} is not one line of csv ({error})") from None
    return names


def cells(line: str, where: str, separator: str = ",", *, skipinitialspace: bool = False) -> list[str]:
    """The cells of one line of csv; DataError, with `where` it stands, for what is none."""
    try:
        return next(csv.reader([line], delimiter=separator, skipinitialspace=skipinitialspace), [])
    except csv.Error as error:
        raise DataError(f"{where}: not a line of csv ({error})") from None


def csv_line(names: Sequence[str]) -> str:
    """Names as one text, which `split_names` takes apart again."""
    quoted = (f'"{name.replace(chr(34), chr(34) * 2)}"' if set(name) & set(',"\n\r') else name for name in names)
    return ",".join(quoted)


@contextmanager
def opened(path: str | Path) -> Iterator[TextIO]:
    """The text of a file, unpacked; DataError where it cannot be read."""
    name = str(path)
    if name == "-":
        yield _decoded(sys.stdin.buffer, name)
        return
    try:
        held = open_file(name)
    except OSError as error:
        raise DataError(f"{name}: cannot be read ({error.strerror})") from None
    with held, unpacked(held, name) as data, _decoded(data, name) as file:
        yield file


def _decoded(data: BinaryIO, name: str) -> TextIO:
    """The text in these bytes: UTF-16 where they begin with its byte order mark, else UTF-8."""
    peekable: Any = data if hasattr(data, "peek") else io.BufferedReader(data)  # type: ignore[type-var]
    try:
        begin = peekable.peek(2)[:2]
    except _DAMAGED as error:
        raise DataError(f"{name}:1: not a text that can be read ({error})") from None
    wide = begin in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    return io.TextIOWrapper(peekable, encoding="utf-16" if wide else "utf-8-sig", newline="")


def lines_of(file: TextIO, name: str) -> Iterator[str]:
    """The lines of a text, each of at most `MOST_LINE` letters; DataError for a longer one."""
    for number in itertools.count(1):
        try:
            line = file.readline(MOST_LINE)
        except UnicodeDecodeError as error:
            raise DataError(_not_text(error, name, number)) from None
        except _DAMAGED as error:
            raise DataError(f"{name}:{number}: not a text that can be read ({error})") from None
        if not line:
            return
        if len(line) == MOST_LINE and line[-1] not in "\r\n":
            raise DataError(f"{name}:{number}: a line of more than {MOST_LINE} letters; is this a table?")
        yield line


def _not_text(error: UnicodeDecodeError, name: str, number: int) -> str:
    """What is wrong with bytes that were read ahead while line `number` was asked for, and what to do."""
    encoding = "UTF-16" if "16" in error.encoding else "UTF-8"
    before = error.object[: error.start].decode(error.encoding, "replace")
    line = number + before.count("\n") + before.count("\r") - before.count("\r\n")
    found = error.object[error.start : error.start + 4].hex(" ")
    advice = f"save it as UTF-8, such as: iconv -f GB18030 -t UTF-8 {name} > FILE"
    return f"{name}:{line}: not {encoding} text (bytes {found}); {advice}"


def numbered(reader: Any, name: str) -> Iterator[tuple[int, list[str]]]:
    """The rows of a csv reader, with the number of the line they end on."""
    try:
        for row in reader:
            yield reader.line_num, row
    except csv.Error as error:
        raise DataError(f"{name}:{reader.line_num + 1}: not the text of a csv file ({error})") from None


def rows(
    path: str | Path, columns: Sequence[str] | None = None, separator: str | None = None
) -> Iterator[tuple[str, dict[str, Any]]]:
    """(number of the line, {column: text}) for each row of a file.

    *.csv and *.tsv (or these packed) are tables with a header; other files whose `columns` are given have none, and
    `separator` (a tab) between columns. Between tabs quotes are letters like any others (IANA's
    text/tab-separated-values); elsewhere they are those of RFC 4180. Any other file, and "-" (standard input), has a
    row of slots on each line: `label slot:id slot:id ...`, a slot's ids in a list. DataError with the line that is
    wrong.
    """
    name, separator = str(path), separator_of(path) or (separator or "\t" if columns is not None else None)
    with opened(path) as file:
        if separator is None:
            yield from _slots(file, name)
            return
        quoting = csv.QUOTE_NONE if separator == "\t" else csv.QUOTE_MINIMAL
        reader = csv.reader(lines_of(file, name), delimiter=separator, quoting=quoting, strict=True)  # type: ignore[arg-type]
        lines = numbered(reader, name)
        header = columns if columns is not None and separator_of(path) is None else next(lines, (0, []))[1]
        names = [each.strip() for each in header]
        if twice := sorted({each for each in names if names.count(each) > 1}):
            raise DataError(f"{name}:1: two columns are called {twice[0]!r}; name each column once")
        for number, row in lines:
            if row and len(row) != len(header):
                expected = f"{len(header)} ({', '.join(header[:8])})"
                raise DataError(f"{name}:{number}: {len(row)} columns, expected {expected}")
            if row:
                yield str(number), dict(zip(header, row, strict=True))


def _slots(file: TextIO, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, line in enumerate(lines_of(file, name), 1):
        found: dict[str, Any] = {}
        label, *pairs = line.split() or [""]
        for pair in pairs:
            slot, colon, value = pair.partition(":")
            if not colon or not slot:
                raise DataError(f"{name}:{number}: {pair!r} is not slot:id; lines are: label slot:id slot:id ...")
            found.setdefault(slot, []).append(value)
        if label:
            yield str(number), {"label": label, **found}


def json_lines(path: str | Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """(number of the line, the object) for each line of JSON in a file, or in standard input ("-"), that is not blank;
    packed ones are unpacked. DataError with the line that is wrong."""
    with opened(path) as file:
        for number, line in enumerate(lines_of(file, str(path)), 1):
            if line.strip():
                yield str(number), _object(line, f"{path}:{number}")


def _object(line: str, where: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: {line.strip()[:60]!r} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise DataError(f'{where}: {line.strip()[:60]!r} is no object {{"column": value}}')
    return found


def text_lines(path: str | Path, column: str) -> Iterator[tuple[str, Any]]:
    """(text, text) for each line of a file, or of standard input ("-"), that is not blank; of a table *.csv or *.tsv
    (text, row): the row's value in this column, else the number of its line."""
    if is_table(path):
        yield from ((row.get(column) or number, row) for number, row in rows(path))
        return
    with opened(path) as file:
        yield from ((line.strip(), line.strip()) for line in lines_of(file, str(path)) if line.strip())
