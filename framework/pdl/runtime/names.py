"""Steps for names by number: a session of items in, ranked items out."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pdl.dtype import Array
from pdl.errors import DataError, UsageError
from pdl.ranking import Lists, top_k
from pdl.runtime import tables
from pdl.runtime.fields import part_of
from pdl.runtime.readers import Named, Reader, csv_line
from pdl.runtime.sample import Sample
from pdl.runtime.steps import POST, PRE, Informed
from pdl.suites import suggest

MAX_LENGTH = 1 << 16


class Session(Named, Reader, table=PRE, name="session"):
    """The names of a session in order of time -> their numbers int64 [T], zeros behind the last.

    An item is a text of names between commas (with quotes as in csv), or a sequence of names. Names that the vocabulary
    lacks are dropped, and told in the answer as "unknown"; of what is left the `max_length` newest count. T is the next
    of `lengths` (by default 1, 2, 4, ... and max_length), so that few shapes occur; sessions that go through the model
    together are filled up to the longest of them. `columns` are the names of the columns of a table of sessions: of
    the session, the item, and the time.

    part, parts   the session is this part of an item, whose parts have these names (`pdl.runtime.fields.part_of`). One
                  of several parts may be empty, which gives zeros: the others say something. A part that is one name
                  alone (max_length 1) is no session but what it is called, and has a line of a file to itself
    """

    takes = "session"

    def __init__(
        self,
        vocabulary: str,
        max_length: int = 50,
        lengths: Sequence[int] | None = None,
        columns: Sequence[str] = ("session", "item", "time"),
        part: str | None = None,
        parts: Sequence[str] = (),
    ) -> None:
        self.vocabulary, self.max_length = checked_name(vocabulary), checked_count("max_length", max_length)
        self.lengths = (
            _lengths(self.max_length) if lengths is None else sorted(checked_count("lengths", n) for n in lengths)
        )
        if not self.lengths or self.lengths[-1] < self.max_length:
            raise UsageError(f"lengths={lengths!r} must reach max_length={self.max_length}")
        if len(columns) != 3 or not all(isinstance(name, str) for name in columns):
            raise UsageError(f"columns={columns!r} must be the names of the columns of session, item and time")
        self.columns = tuple(columns)
        self.part, self.parts = None if part is None else checked_name(part), [checked_name(name) for name in parts]
        if len(self.parts) > 1:
            self.takes = "row"
        elif self.part is not None and self.max_length == 1:
            self.takes = self.part

    def read(self, item: Any, told: dict[str, Any]) -> Array:
        names = split_names(item if self.part is None else part_of(item, self.part, self.parts))
        numbers = self.names.numbers(names)
        known = numbers[numbers > 0][-self.max_length :]
        unknown = [name for name, number in zip(names, numbers, strict=True) if not number]
        if not len(known) and len(self.parts) < 2:
            raise DataError(self._nothing(unknown))
        if unknown:
            told["unknown"] = [*told.get("unknown", ()), *unknown]
        return filled(known, next(n for n in self.lengths if n >= len(known)))

    def _nothing(self, unknown: list[str]) -> str:
        if not unknown:
            return "a session without items: give at least one"
        shown = ", ".join(unknown[:5]) + (", ..." if len(unknown) > 5 else "")
        kind = "item" if self.takes in ("session", "row") else self.takes
        which = f"none of the {kind}s {shown} is" if len(unknown) > 1 else f"the {kind} {shown} is not"
        return f"{which} among the {len(self.names):,} that the model knows{suggest(unknown[-1], self.names)}"

    def rows(self, path: str | Path) -> Iterator[tuple[str, Any]]:
        if self.takes == "session":
            return tables.sessions(path, self.columns)
        return tables.rows(path) if self.takes == "row" else tables.texts(path, self.takes)

    def together(self, array: Array) -> Any:
        return array.dtype

    def joined(self, arrays: Sequence[Array]) -> Array:
        longest = max(map(len, arrays))
        return np.stack([filled(each, longest) for each in arrays])

    def random(self, shape: tuple[int, ...], rng: np.random.Generator, sizes: Mapping[str, int]) -> Array:
        return rng.integers(1, max(2, self.names.size), shape)


class TopItems(Named, Informed, table=POST, name="top_items"):
    """{"items": [{"item", "score"}, ... the k best]} of scores [n + 1] of the n names of a vocabulary.

    Column 0 stands for no item and is never ranked, nor is a score that is -inf or NaN. Of equal scores the lower
    number comes first. `exclude` is the name of an input whose numbers are left out: the items of the session itself.
    """

    def __init__(self, vocabulary: str, k: int = 20, exclude: str | None = None) -> None:
        self.vocabulary, self.k = checked_name(vocabulary), checked_count("k", k)
        self.exclude = None if exclude is None else checked_name(exclude)

    def inform(self, value: Any, sample: Sample) -> Any:
        if not isinstance(value, np.ndarray) or value.shape != (self.names.size,):
            shown = f"{value.shape}" if isinstance(value, np.ndarray) else type(value).__name__
            raise UsageError(f"{self.name}: expected scores [{self.names.size}], got {shown}")
        out = None if self.exclude is None else Lists.of_rows(sample.inputs[self.exclude][None])
        scores, numbers = top_k(value[None], min(self.k, len(self.names)), excluded=out)
        names, ranked = self.names.names, zip(numbers[0].tolist(), scores[0].tolist(), strict=True)
        return {"items": [{"item": names[number - 1], "score": score} for number, score in ranked if number]}


def split_names(item: Any) -> list[str]:
    """The names in a text (between commas; quotes as in csv, RFC 4180), or of a sequence of names or whole numbers."""
    if isinstance(item, str):
        names = item.split(",") if '"' not in item and "\n" not in item else _quoted(item)
        names = [name.strip() for name in names] if item.strip() else []
    elif isinstance(item, Sequence | np.ndarray) and all(isinstance(each, str | int | np.integer) for each in item):
        names = [str(each) for each in item]
    else:
        raise UsageError(f"a session is a text 'item1,item2' or a list of names, not {type(item).__name__}")
    if "" in names:
        raise DataError(f"item {names.index('') + 1} of the session {str(item)[:60]!r} has no name")
    return names


def _quoted(text: str) -> list[str]:
    try:
        (names,) = csv.reader([text], skipinitialspace=True, strict=True)
    except (csv.Error, ValueError) as error:
        raise DataError(f"the session {text[:60]!r} is not one line of csv ({error})") from None
    return names


def filled(numbers: Array, length: int) -> Array:
    """int64 [length]: the numbers, and zeros behind them."""
    made = np.zeros(length, np.int64)
    made[: len(numbers)] = numbers
    return made


def _lengths(most: int) -> list[int]:
    """1, 2, 4, ... below `most`, and `most`."""
    return [*(1 << n for n in range((most - 1).bit_length())), most]


def checked_count(name: str, value: Any) -> int:
    """A number from 1 to MAX_LENGTH; UsageError, which calls it by its name, for anything else."""
    if type(value) is not int or not 1 <= value <= MAX_LENGTH:
        raise UsageError(f"{name}={value!r} must be a number from 1 to {MAX_LENGTH}")
    return int(value)


def checked_name(value: Any) -> str:
    """A text; UsageError for anything else."""
    if not isinstance(value, str):
        raise UsageError(f"{value!r} must be a name")
    return value


__all__ = ["Session", "TopItems", "checked_count", "checked_name", "csv_line", "filled", "split_names"]
