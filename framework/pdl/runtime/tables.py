"""Files of many inputs, and files of answers: sessions out of csv, predictions into csv."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any, TextIO

from pdl.errors import DataError, UsageError

TABLES = {".csv": ",", ".tsv": "\t"}
DEFAULTS = ("session", "item", "time")


# -- sessions ----------------------------------------------------------------------------------------------------------
def sessions(path: str | Path, columns: Sequence[str] = DEFAULTS) -> Iterator[tuple[str, list[str]]]:
    """(name, items in order of time) for each session of a file, in the order in which they first appear.

    A file whose first line names columns of a session and an item (between tabs, commas, semicolons or bars) is a table
    with a row for each event: `columns` are the names of those of the session, the item and the time; session, item
    and time are understood as well. Rows of a session may stand anywhere; without a column of times they count as they
    come. A file *.csv or *.tsv must be one. Any other file, and standard input ("-"), has a session on each line, its
    items between commas; its name is the number of the line. Files *.gz are unpacked. DataError with the line that is
    wrong.
    """
    with _opened(path) as file:
        try:
            first = file.readline()
        except (UnicodeDecodeError, EOFError, OSError) as error:
            raise DataError(f"{path}:1: not the text of a csv file ({error})") from None
        lines = chain([first] if first else [], file)
        separator = next((each for each in "\t,;|" if _is_header(first, each, columns)), TABLES.get(_suffix(path)))
        if separator is None:
            yield from _lines(lines, str(path))
        else:
            yield from _table(csv.reader(lines, delimiter=separator, strict=True), str(path), columns)


def _is_header(line: str, separator: str, columns: Sequence[str]) -> bool:
    """Whether a line names a column of sessions and one of items."""
    names = line.rstrip("\r\n").split(separator)
    return all(_column(names, each, other) is not None for each, other in zip(columns[:2], DEFAULTS[:2], strict=True))


def _suffix(path: str | Path) -> str:
    return Path(str(path).removesuffix(".gz")).suffix.lower()


@contextmanager
def _opened(path: str | Path) -> Iterator[TextIO]:
    name = str(path)
    if name == "-":
        yield io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8-sig", newline="")
        return
    try:
        opened = gzip.open(name) if name.endswith(".gz") else open(name, "rb")  # noqa: SIM115 - closed below
    except OSError as error:
        raise DataError(f"{name}: cannot be read ({error.strerror})") from None
    with opened, io.TextIOWrapper(opened, encoding="utf-8-sig", newline="") as file:  # type: ignore[arg-type]
        yield file


def _lines(file: Iterable[str], name: str) -> Iterator[tuple[str, list[str]]]:
    for number, row in _rows(csv.reader(file, skipinitialspace=True, strict=True), name):
        if row:
            yield str(number), [item.strip() for item in row]


def _rows(reader: Any, name: str) -> Iterator[tuple[int, list[str]]]:
    """Rows with the number of the line they end on."""
    try:
        for row in reader:
            yield reader.line_num, row
    except (csv.Error, UnicodeDecodeError, EOFError, OSError) as error:
        raise DataError(f"{name}:{reader.line_num + 1}: not the text of a csv file ({error})") from None


def _table(reader: Any, name: str, columns: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    rows = _rows(reader, name)
    _, header = next(rows, (0, []))
    session, item, time = (_column(header, each, other) for each, other in zip(columns, DEFAULTS, strict=True))
    if session is None or item is None:
        wanted = ", ".join(dict.fromkeys([*columns[:2], *DEFAULTS[:2]]))
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


# -- texts -------------------------------------------------------------------------------------------------------------
def texts(path: str | Path, column: str) -> Iterator[tuple[str, Any]]:
    """(text, text) for each line of a file, or of standard input ("-"), that is not blank; of a table *.csv or *.tsv
    (text, row): what stands in this column, else the number of the line."""
    if is_table(path):
        yield from ((row.get(column) or number, row) for number, row in rows(path))
        return
    with _opened(path) as file:
        try:
            yield from ((line.strip(), line.strip()) for line in file if line.strip())
        except (UnicodeDecodeError, EOFError, OSError) as error:
            raise DataError(f"{path}: not a text ({error})") from None


def is_table(path: str | Path) -> bool:
    """Whether a file's name says that it is a table with a header: *.csv or *.tsv, or these with .gz."""
    return _suffix(path) in TABLES


# -- rows --------------------------------------------------------------------------------------------------------------
def rows(
    path: str | Path, columns: Sequence[str] | None = None, separator: str | None = None
) -> Iterator[tuple[str, dict[str, Any]]]:
    """(number of the line, {column: text}) for each row of a file.

    *.csv and *.tsv (or with .gz) are tables with a header; other files whose `columns` are given have none, and
    `separator` (a tab) between columns. Any other file, and "-" (standard input), has a row of slots on each line:
    `label slot:id slot:id ...`, a slot's ids in a list. DataError with the line that is wrong.
    """
    name, separator = str(path), TABLES.get(_suffix(path)) or (separator or "\t" if columns is not None else None)
    with _opened(path) as file:
        if separator is None:
            yield from _slots(file, name)
            return
        lines = _rows(csv.reader(file, delimiter=separator, strict=True), name)
        header = columns if columns is not None and _suffix(path) not in TABLES else next(lines, (0, []))[1]
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
    for number, line in enumerate(file, 1):
        found: dict[str, Any] = {}
        label, *pairs = line.split() or [""]
        for pair in pairs:
            slot, colon, value = pair.partition(":")
            if not colon or not slot:
                raise DataError(f"{name}:{number}: {pair!r} is not slot:id; lines are: label slot:id slot:id ...")
            found.setdefault(slot, []).append(value)
        if label:
            yield str(number), {"label": label, **found}


def objects(path: str | Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """(number of the line, the object) for each line of JSON in a file, or in standard input ("-"), that is not blank;
    *.gz is unpacked. DataError with the line that is wrong."""
    number = 0
    with _opened(path) as file:
        try:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield str(number), _object(line, f"{path}:{number}")
        except (UnicodeDecodeError, EOFError, OSError) as error:
            raise DataError(f"{path}:{number + 1}: not a text ({error})") from None


def _object(line: str, where: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: {line.strip()[:60]!r} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise DataError(f"{where}: {line.strip()[:60]!r} is no object {{\"column\": value}}")
    return found


# -- answers -----------------------------------------------------------------------------------------------------------
def write_answers(path: str | Path, predictions: Iterable[Mapping[str, Any]], name: str = "input") -> tuple[int, int]:
    """Write predictions to a csv or tsv file, a row for each answer: what it is for, its rank, and what it says.

    name   of the first column
    Returns how many predictions and how many rows; one without answers has no row. The file is there whole or not at
    all.
    """
    target = Path(path)
    separator = TABLES.get(target.suffix.lower())
    if separator is None:
        raise UsageError(f"--out {path}: answers are written to a file *.csv or *.tsv")
    half = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with half.open("w", encoding="utf-8", newline="") as file:
            counts = _write(csv.writer(file, delimiter=separator, lineterminator="\n"), predictions, name)
        half.replace(target)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None
    finally:
        half.unlink(missing_ok=True)
    return counts


def _write(writer: Any, predictions: Iterable[Mapping[str, Any]], name: str) -> tuple[int, int]:
    columns: list[str] = []
    count = total = 0
    for prediction in predictions:
        count += 1
        for rank, answer in enumerate(answers(prediction), 1):
            if not columns:
                columns = list(answer)
                writer.writerow([name, "rank", *columns])
            writer.writerow([prediction["input"], rank, *(_cell(answer.get(each)) for each in columns)])
            total += 1
    if not columns:
        writer.writerow([name, "rank"])
    return count, total


def answers(prediction: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The answers of a prediction, best first: of a list of them, or the one that it is."""
    lists = [value for value in prediction.values() if isinstance(value, list)]
    several = next((each for each in lists if each and all(isinstance(item, dict) for item in each)), None)
    if several is not None:
        return several
    if any(not each for each in lists) or "error" in prediction:
        return []
    return [{name: value for name, value in prediction.items() if name != "input"}]


def _cell(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value


__all__ = ["answers", "is_table", "objects", "rows", "sessions", "texts", "write_answers"]
