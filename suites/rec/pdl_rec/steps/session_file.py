"""Files of sessions: tables with a row for each event, or lines with a session each."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

from pdl.errors import DataError
from pdl.runtime.tables import numbered, opened, separator_of

COLUMNS = ("session", "item", "time")
"""What the columns of a table are called, unless the data says otherwise."""


def sessions(path: str | Path, columns: Sequence[str] = COLUMNS) -> Iterator[tuple[str, list[str]]]:
    """(name, items in order of time) for each session of a file, in the order in which they first appear.

    A file whose first line names columns of a session and an item (between tabs, commas, semicolons or bars) is a table
    with a row for each event: `columns` are the names of those of the session, the item and the time; session, item
    and time are understood as well. Rows of a session may stand anywhere; without a column of times they count as they
    come. A file *.csv or *.tsv must be one. Any other file, and standard input ("-"), has a session on each line, its
    items between commas; its name is the number of the line. Files *.gz are unpacked. DataError with the line that is
    wrong.
    """
    with opened(path) as file:
        try:
            first = file.readline()
        except (UnicodeDecodeError, EOFError, OSError) as error:
            raise DataError(f"{path}:1: not the text of a csv file ({error})") from None
        lines = chain([first] if first else [], file)
        separator = next((each for each in "\t,;|" if _is_header(first, each, columns)), separator_of(path))
        if separator is None:
            yield from _lines(lines, str(path))
        else:
            yield from _table(csv.reader(lines, delimiter=separator, strict=True), str(path), columns)


def _is_header(line: str, separator: str, columns: Sequence[str]) -> bool:
    """Whether a line names a column of sessions and one of items."""
    names = line.rstrip("\r\n").split(separator)
    return all(_column(names, each, other) is not None for each, other in zip(columns[:2], COLUMNS[:2], strict=True))


def _lines(file: Iterable[str], name: str) -> Iterator[tuple[str, list[str]]]:
    for number, row in numbered(csv.reader(file, skipinitialspace=True, strict=True), name):
        if row:
            yield str(number), [item.strip() for item in row]


def _table(reader: Any, name: str, columns: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    rows = numbered(reader, name)
    _, header = next(rows, (0, []))
    session, item, time = (_column(header, each, other) for each, other in zip(columns, COLUMNS, strict=True))
    if session is None or item is None:
        wanted = ", ".join(dict.fromkeys([*columns[:2], *COLUMNS[:2]]))
        raise DataError(
            f"{name}:1: columns are {', '.join(header) or 'missing'}; expected a session and an item ({wanted}); "
            "a file *.txt may have one session a line instead"
        )
    found: dict[str, list[Any]] = {}
    last = max(session, item, -1 if time is None else time)
    for number, row in rows:
        if not row:
            continue
        if len(row) <= last or not row[item].strip():
            raise DataError(f"{name}:{number}: {'no item' if len(row) > last else f'{len(row)} columns'} in {row}")
        event = row[item].strip()
        found.setdefault(row[session].strip(), []).append(event if time is None else (row[time].strip(), number, event))
    for key, events in found.items():
        yield key, events if time is None else _ordered(events, name)


def _column(header: Sequence[str], *names: str) -> int | None:
    stripped = [each.strip().strip('"') for each in header]
    return next((stripped.index(name) for name in names if name in stripped), None)


def _ordered(events: list[tuple[str, int, str]], name: str) -> list[str]:
    """The items by time; those of one time as they came."""
    return [item for _, item in sorted(((_seconds(t, n, name), item) for t, n, item in events), key=lambda e: e[0])]


def _seconds(text: str, line: int, name: str) -> float:
    """A number, or the seconds of an ISO 8601 time (UTC where it names no zone)."""
    try:
        return float(text)
    except ValueError:
        pass
    try:
        when = datetime.fromisoformat(text)
        return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
    except ValueError:
        raise DataError(f"{name}:{line}: {text!r} is no time: expected a number, or ISO 8601") from None
