"""The input step for sessions of items: names in, their numbers out."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pdl.dtype import Array
from pdl.errors import DataError, listed
from pdl.runtime import tables
from pdl.runtime.fields import part_of
from pdl.runtime.steps import Input, InputStep, NamesOf, Sample
from pdl.runtime.steps.arguments import check, count, text, texts
from pdl.runtime.steps.rows import ABOUT_ROW, ROW
from pdl.suites import suggest
from pdl_rec.steps.session_file import COLUMNS, sessions

ABOUT_SESSION = "the items of a session between commas, the newest last"


class SessionInput(NamesOf, InputStep):
    """The names of a session in order of time -> their numbers int64 [T], zeros behind the last.

    An item is a text of names between commas (with quotes as in csv), or a sequence of names. Names that the vocabulary
    lacks are dropped and listed in the answer as "unknown"; of the others the `max_length` newest count. T is the next
    of `lengths` (by default 1, 2, 4, ... and max_length), so that few shapes occur; sessions that go through the model
    together are filled up to the longest of them. `columns` are the names of the columns of a table of sessions: of
    the session, the item, and the time.

    part, parts   the session is this part of an item, whose parts have these names (`pdl.runtime.fields.part_of`). One
                  of several parts may be empty, which gives zeros: the others say something. A part that is one name
                  alone (max_length 1) is no session but what it is called, and has a line of a file to itself
    """

    name = "session"

    def __init__(
        self,
        vocabulary: str,
        max_length: int = 50,
        lengths: Sequence[int] | None = None,
        columns: Sequence[str] = COLUMNS,
        part: str | None = None,
        parts: Sequence[str] = (),
    ) -> None:
        self.vocabulary, self.max_length = text("vocabulary", vocabulary), count("max_length", max_length)
        self.lengths = _lengths(self.max_length) if lengths is None else sorted(count("lengths", n) for n in lengths)
        good = bool(self.lengths) and self.lengths[-1] >= self.max_length
        check(good, f"lengths={lengths!r} must reach max_length={self.max_length}")
        self.columns = tuple(texts("columns", columns))
        check(len(self.columns) == 3, f"columns={columns!r} must be the names of the columns of session, item and time")
        self.part, self.parts = None if part is None else text("part", part), texts("parts", parts)
        self.takes, self.metavar, self.about = "session", "ITEM,ITEM,...", ABOUT_SESSION
        if len(self.parts) > 1:
            self.takes, self.metavar, self.about = "row", ROW, ABOUT_ROW
        elif self.part is not None and self.max_length == 1:
            self.takes, self.metavar, self.about = self.part, "NAME", f"the name of a {self.part}"

    def parse(self, item: Any, sample: Sample) -> Array:
        given = item if self.part is None else part_of(item, self.part, self.parts)
        names = tables.split_names(given, "session")
        numbers = self.names.encode(names)
        known = numbers[numbers > 0][-self.max_length :]
        unknown = [name for name, number in zip(names, numbers, strict=True) if not number]
        if not len(known) and len(self.parts) < 2:
            raise DataError(self._nothing(unknown))
        sample.note_unknown(unknown)
        return filled(known, next(n for n in self.lengths if n >= len(known)))

    def _nothing(self, unknown: list[str]) -> str:
        if not unknown:
            return "a session without items: give at least one"
        shown = listed(unknown, 5)
        kind = "item" if self.takes in ("session", "row") else self.takes
        which = f"none of the {kind}s {shown} is" if len(unknown) > 1 else f"the {kind} {shown} is not"
        return f"{which} among the {len(self.names):,} that the model knows{suggest(unknown[-1], self.names)}"

    def file(self, path: str | Path) -> Iterator[Input]:
        if self.takes == "session":
            found: Iterator[tuple[str, Any]] = sessions(path, self.columns)
        else:
            found = tables.rows(path) if self.takes == "row" else tables.text_lines(path, self.takes)
        return (Input(name, item) for name, item in found)

    def group(self, array: Array) -> Hashable:
        return array.dtype

    def collate(self, arrays: Sequence[Array]) -> Array:
        longest = max(map(len, arrays))
        return np.stack([filled(each, longest) for each in arrays])

    def random(self, shape: tuple[int, ...], rng: np.random.Generator, sizes: Mapping[str, int]) -> Array:
        return rng.integers(1, max(2, len(self.names) + 1), shape)


def filled(numbers: Array, length: int) -> Array:
    """int64 [length]: the numbers, and zeros behind them."""
    made = np.zeros(length, np.int64)
    made[: len(numbers)] = numbers
    return made


def _lengths(most: int) -> list[int]:
    """1, 2, 4, ... below `most`, and `most`."""
    return [*(1 << n for n in range((most - 1).bit_length())), most]
