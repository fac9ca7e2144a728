"""Texts out of files: tables, lines of JSON, lines of columns, whole files; plain, .gz, .bz2 or .xz.

UTF-8, or UTF-16 with its byte order mark. Whatever is wrong is a DataError with file and line. Files are read line by
line, however large.
"""

from __future__ import annotations

import csv
import json
import re
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

from pdl.data.faults import fault
from pdl.data.store import find, under_roots
from pdl.errors import listed
from pdl.files import plain_name
from pdl.runtime import tables

Normal: TypeAlias = Literal["NFC", "NFD", "NFKC", "NFKD"]
"""A form of Unicode (Annex 15) that texts are brought into."""

JSON = (".jsonl", ".ndjson", ".json")
_SPACE = re.compile(r"\s*")
Row: TypeAlias = tuple[int, dict[str, Any]]
"""The number of a line, and its values by column."""


def locate(path: str | Path, address: str | None = None) -> Path:
    """A file or folder as given, or below PDL_DATA; DataFault where it is not there, with the `address` of it
    (`pdl.data.to_get`)."""
    given = Path(path).expanduser()
    found = next((place for place in (given, *under_roots(given)) if place.exists()), None)
    return found or find(given.name, [str(path)], address=address or "the place you have it from")


def kind_of(path: str | Path) -> str:
    """What the name of a file says that it is: "json", "," or a tab (what is between its columns), or ""."""
    plain = plain_name(path).lower()
    return "json" if plain.endswith(JSON) else tables.separator_of(path) or ""


def rows(path: Path, columns: Sequence[str] | None = None, separator: str | None = None) -> Iterator[Row]:
    """The rows of a table, or the objects of a file of JSON lines.

    columns    of a file without a header. The last one has all that is left of its line, except in csv
    separator  between columns; by default that of the file's name (.csv, .tsv), else a tab. Quotes are signs like any
               other, except in csv
    """
    kind = kind_of(path)
    if kind == "json":
        yield from ((int(number), found) for number, found in tables.json_lines(path))
        return
    separator = separator or kind or ("\t" if columns is not None else None)
    if separator is None:
        what = "its name does not say what its lines are"
        raise fault(path, what, "call it *.csv, *.tsv or *.jsonl, or give columns=[label, text] (and separator=)")
    with tables.opened(path) as file:
        lines = tables.lines_of(file, str(path))
        if separator == ",":
            found = tables.numbered(csv.reader(lines, strict=True), str(path))
        else:
            most = -1 if columns is None else len(columns) - 1
            found = ((number, line.rstrip("\r\n").split(separator, most)) for number, line in enumerate(lines, 1))
        names = list(columns) if columns is not None else [name.strip() for name in next(found, (0, []))[1]]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise fault(path, f"two columns are called {twice[0]!r}", "name each column once", line=1)
        for number, row in found:
            if len(row) == len(names):
                yield number, dict(zip(names, row, strict=True))
            elif row and row != [""]:
                what = f"{len(row)} columns, expected {len(names)} ({listed(names, 8)})"
                raise fault(path, what, "correct the line, or columns and separator", line=number)


def document(path: Path, keys: Sequence[str], columns: Sequence[str] | None = None) -> Iterator[Row]:
    """The rows of lists in a file that is one JSON object, those of each key in turn; a row is an object, or a list of
    the values of `columns`. Rows are numbered by the line that each begins on."""
    with tables.opened(path) as file:
        text = "".join(tables.lines_of(file, str(path)))
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise fault(path, f"is not JSON: {error}", "correct it; for a file of JSON lines leave keys out") from None
    have = [key for key, found in whole.items() if isinstance(found, list)] if isinstance(whole, dict) else []
    if missing := [key for key in keys if key not in have]:
        what = f"has no list {missing[0]!r}; it has {listed(have) or 'none'}"
        raise fault(path, what, "correct keys, the names of the lists that hold the rows")
    begins = _begins(text)
    line, counted = 1, 0
    for key in keys:
        for begin, row in zip(begins[key], whole[key], strict=True):
            if begin < counted:
                line, counted = 1, 0
            line, counted = line + text.count("\n", counted, begin), begin
            if isinstance(row, list) and columns is not None and len(row) == len(columns):
                yield line, dict(zip(columns, row, strict=True))
            elif isinstance(row, dict):
                yield line, row
            else:
                expected = "an object" if columns is None else f"an object, or a list of {', '.join(columns)}"
                raise fault(path, f"{row!r:.60} is no row", f"write {expected}; name columns=[...] of lists", line=line)


def _begins(text: str) -> dict[str, list[int]]:
    """Where the elements of each list begin that a JSON object, known to be one, has under its keys."""
    decode, found = json.JSONDecoder().raw_decode, dict[str, list[int]]()

    def behind(at: int) -> int:
        return _SPACE.match(text, at).end()  # type: ignore[union-attr]  # it matches nothing, too

    at = behind(text.index("{") + 1)
    while text[at] != "}":
        key, at = decode(text, at)
        at = behind(text.index(":", at) + 1)
        if text[at] == "[":
            found[key], at = [], behind(at + 1)
            while text[at] != "]":
                found[key].append(at)
                at = behind(decode(text, at)[1])
                at = behind(at + 1) if text[at] == "," else at
            at = behind(at + 1)
        else:
            at = behind(decode(text, at)[1])
        at = behind(at + 1) if text[at] == "," else at
    return found


def value(row: Row, column: str, path: Path) -> Any:
    """What a row has in a column; DataFault where it lacks it."""
    number, values = row
    if column not in values:
        advice = f"it has {listed(list(values), 20)}; name the columns in the recipe (text=, label=, pair=)"
        raise fault(path, f"has no column {column!r}", advice, line=number)
    return values[column]


def text_of(row: Row, column: str, path: Path, normalise: Normal | None) -> str:
    """The text in a column of a row."""
    found = value(row, column, path)
    if not isinstance(found, str):
        raise fault(path, f"{column} is {found!r:.40}, not a text", "write it in quotes", line=row[0])
    return normalised(found, normalise)


def lines(path: Path, normalise: Normal | None = None) -> Iterator[tuple[int, str]]:
    """The lines of a text that are not blank, each with its number, without white space around them."""
    with tables.opened(path) as file:
        for number, line in enumerate(tables.lines_of(file, str(path)), 1):
            if text := line.strip():
                yield number, normalised(text, normalise)


def whole(path: Path, normalise: Normal | None = None) -> str:
    """The text of a file, without white space around it."""
    with tables.opened(path) as file:
        return normalised("".join(tables.lines_of(file, str(path))).strip(), normalise)


def normalised(text: str, form: Normal | None) -> str:
    """The text in a form of Unicode, or as it is."""
    return text if form is None else unicodedata.normalize(form, text)
