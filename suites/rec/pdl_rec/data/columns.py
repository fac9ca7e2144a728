"""Columns of a table as they were read: text by its different values, or numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pdl.runtime.fields import as_number


@dataclass(frozen=True)
class Text:
    """A column of text: row i holds values[codes[i]]. codes int64 [n], -1 for the empty text.

    With `offsets` int64 [n + 1] a row holds several: those at codes[offsets[i]:offsets[i + 1]].
    """

    codes: np.ndarray
    values: Sequence[str]
    offsets: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.codes) if self.offsets is None else len(self.offsets) - 1

    def take(self, rows: np.ndarray) -> Text:
        """The column of these rows."""
        if self.offsets is None:
            return Text(self.codes[rows], self.values)
        counts = np.diff(self.offsets)[rows]
        ends = np.concatenate([[0], np.cumsum(counts)])
        places = np.repeat(self.offsets[rows] - ends[:-1], counts) + np.arange(ends[-1])
        return Text(self.codes[places], self.values, ends)

    def numbers(self) -> np.ndarray:
        """float64 [n]: the text as numbers, NaN where it is none."""
        codes = self.first().codes
        return np.append([as_number(value) for value in self.values], np.nan)[codes]

    def first(self) -> Text:
        """The first text of each row."""
        if self.offsets is None:
            return self
        codes = np.full(len(self), -1, np.int64)
        some = np.diff(self.offsets) > 0
        codes[some] = self.codes[self.offsets[:-1][some]]
        return Text(codes, self.values)

    def texts(self) -> list[str]:
        """The text of each row."""
        values = [*self.values, ""]
        return [values[code] for code in self.first().codes]


Column = Text | np.ndarray
Columns = dict[str, Column]
"""Columns by name, of equal length: text, or float64 with NaN where a number is missing."""


def length(columns: Columns) -> int:
    """Rows of a table."""
    return len(next(iter(columns.values()))) if columns else 0


def take(columns: Columns, rows: np.ndarray) -> Columns:
    """The table of these rows."""
    return {name: each.take(rows) if isinstance(each, Text) else each[rows] for name, each in columns.items()}


def joined(parts: Sequence[Columns]) -> Columns:
    """Tables with the same columns, one below the other."""
    return {name: _joined([part[name] for part in parts]) for name in parts[0]} if len(parts) != 1 else parts[0]


def _joined(parts: Sequence[Column]) -> Column:
    texts = [part for part in parts if isinstance(part, Text)]
    if len(texts) < len(parts):
        return np.concatenate([part.numbers() if isinstance(part, Text) else part for part in parts])
    known: dict[str, int] = {}
    codes = []
    for text in texts:
        places = np.array([known.setdefault(value, len(known)) for value in text.values] + [-1], np.int64)
        codes.append(places[text.codes])
    offsets = None
    if any(text.offsets is not None for text in texts):
        counts = [np.ones(len(t), np.int64) if t.offsets is None else np.diff(t.offsets) for t in texts]
        offsets = np.concatenate([[0], np.cumsum(np.concatenate(counts))])
    return Text(np.concatenate(codes), list(known), offsets)
