"""Rows of a table as numbers: what stands in a field, as text or number, becomes the input of a net.

Training and bundles use the same code. A field is one of

    category    a name -> its number: its place in a vocabulary, or a hash of it; 0 is missing or unknown
    number      a number -> float32, scaled; 0.0 is missing
    buckets     a number -> the number of its interval, from 1; 0 is missing
    sequence    several names -> their numbers, the last `length` of them, zeros behind the end
"""

from __future__ import annotations

import csv
import json
import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pdl.errors import DataError
from pdl.tensor import Array
from pdl.vocabulary import Vocabulary

SCALES = ("none", "log", "standard")


@dataclass(frozen=True)
class Category:
    """Names to numbers, int64: of a vocabulary, or by hash into `hash` buckets (Weinberger et al., arXiv 0902.2206).

    The hash is crc32 begun with `seed`, mixed by SplitMix64, modulo `hash`, plus 1. An empty name is missing.
    """

    vocabulary: Vocabulary | None = None
    hash: int | None = None
    seed: int = 0

    @property
    def rows(self) -> int:
        """Rows that a table needs: one more than there are numbers."""
        return self.hash + 1 if self.hash is not None else self.vocabulary.size if self.vocabulary is not None else 1

    def numbers(self, names: Sequence[str]) -> Array:
        """int64, one for each name."""
        if self.hash is None:
            return np.zeros(len(names), np.int64) if self.vocabulary is None else self.vocabulary.numbers(names)
        codes = np.array([zlib.crc32(name.encode(), self.seed) for name in names], np.uint64)
        hashed = (mixed(codes) % np.uint64(self.hash)).astype(np.int64) + 1
        hashed[[i for i, name in enumerate(names) if not name]] = 0
        return hashed


@dataclass(frozen=True)
class Number:
    """Numbers to float32. Scale "log": sign(x) log(1 + |x|); then, with `std` above 0, (x - mean) / std. NaN becomes 0.

    With `edges` (ascending) instead to int64: 1 + how many edges are <= x, and 0 for NaN.
    """

    scale: str = "none"
    mean: float = 0.0
    std: float = 0.0
    edges: tuple[float, ...] | None = None

    @property
    def rows(self) -> int:
        """Rows that a table of the intervals needs."""
        return len(self.edges or ()) + 2

    def values(self, x: Array) -> Array:
        """float64 [n] -> float32 [n], or int64 [n] of the intervals."""
        missing = np.isnan(x)
        if self.edges is not None:
            return np.where(missing, 0, 1 + np.searchsorted(self.edges, x, side="right"))
        scaled = self.scaled(np.where(missing, 0.0, x))
        if self.std > 0:
            scaled = (scaled - self.mean) / self.std
        return np.where(missing, 0.0, scaled).astype(np.float32)

    def scaled(self, x: Array) -> Array:
        """The numbers before mean and deviation."""
        return np.sign(x) * np.log1p(np.abs(x)) if self.scale == "log" else x


@dataclass(frozen=True)
class Names:
    """Several names in one field, between `separator`s: the numbers of the last `length`, then zeros."""

    category: Category
    length: int
    separator: str = " "

    def numbers(self, texts: Sequence[str]) -> Array:
        """int64 [n, length]."""
        lists = [[name for name in text.split(self.separator) if name][-self.length :] for text in texts]
        counts = np.array([len(each) for each in lists], np.int64)
        return padded(self.category.numbers([name for each in lists for name in each]), counts, self.length)


Encoder = Category | Number | Names


@dataclass(frozen=True)
class Fields:
    """The fields of a row, in the order of the net's inputs.

    `encode` gives {"ids": int64 [n, W], "numbers": float32 [n, D]}: the numbers of all fields with tables side by side,
    and the scaled numbers of the others; what there is none of is absent.
    """

    encoders: Mapping[str, Encoder]
    columns: Mapping[str, str] = field(default_factory=dict)

    def column(self, name: str) -> str:
        """The column of the data that a field reads: that of its name, unless told otherwise."""
        return self.columns.get(name, name)

    def rows(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Array]:
        """The inputs for rows as people give them: {column: text or number}; what a row lacks is missing."""
        parts = {}
        for name, encoder in self.encoders.items():
            cells = [row.get(self.column(name)) for row in rows]
            if isinstance(encoder, Number):
                parts[name] = encoder.values(np.array([as_number(cell) for cell in cells], np.float64))
            else:
                parts[name] = encoder.numbers([as_text(cell, encoder) for cell in cells])
        return joined(parts, len(rows))


def as_row(item: Any) -> dict[str, Any]:
    """A row as people give it: a mapping, the same as JSON, or the text "column=value,column=value" (quoted as in csv
    where a value has commas). DataError for anything else."""
    if isinstance(item, Mapping):
        return dict(item)
    if not isinstance(item, str):
        raise DataError(f"a row is a mapping {{column: value}}, JSON or column=value,..., not {type(item).__name__}")
    if item.lstrip().startswith("{"):
        try:
            row = json.loads(item)
        except json.JSONDecodeError as error:
            raise DataError(f"the row {item[:60]!r} is not JSON: {error}") from None
        return dict(row)
    parts = [part.partition("=") for part in next(csv.reader([item], skipinitialspace=True), [])]
    bad = next((part for part in parts if part[1] != "=" or not part[0].strip()), None)
    if bad is not None or not parts:
        said = "" if bad is None else f": {bad[0]!r} is not column=value"
        raise DataError(f"the row {item[:60]!r} is no file and no row{said}; write column=value,column=value or JSON")
    return {name.strip(): value for name, _, value in parts}


def joined(parts: Mapping[str, Array], n: int) -> dict[str, Array]:
    """The parts of n rows side by side: whole numbers under "ids", others under "numbers"."""
    found = {}
    for name, kind, dtype in (("ids", "i", np.int64), ("numbers", "f", np.float32)):
        chosen = [part.reshape(n, -1) for part in parts.values() if part.dtype.kind == kind]
        if chosen:
            found[name] = np.concatenate(chosen, axis=1).astype(dtype, copy=False)
    return found


def padded(numbers: Array, counts: Array, length: int) -> Array:
    """Numbers in a row, of which counts[i] (at most `length`) belong to row i -> int64 [n, length], zeros behind."""
    out = np.zeros((len(counts), length), np.int64)
    out[np.arange(length) < counts[:, None]] = numbers
    return out


def as_number(cell: Any) -> float:
    """A cell as a number; NaN where it is missing or none."""
    if cell is None or cell == "":
        return math.nan
    try:
        return float(cell)
    except (TypeError, ValueError):
        return math.nan


def as_text(cell: Any, encoder: Category | Names) -> str:
    """A cell as a name, or as names between the encoder's separators."""
    if isinstance(cell, list | tuple) and isinstance(encoder, Names):
        return encoder.separator.join(map(str, cell))
    return "" if cell is None else str(cell)


def mixed(codes: Array) -> Array:
    """SplitMix64's output function on uint64 (Steele, Lea, Flood: OOPSLA 2014)."""
    z = codes + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    out: Array = z ^ (z >> np.uint64(31))
    return out


__all__ = ["Category", "Fields", "Names", "Number"]
