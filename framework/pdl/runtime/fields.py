"""Rows of a table as numbers: encoders from the values of fields, text or numbers, to the inputs of a net.

Training and bundles use the same code. A field is one of

    category    a name -> its number: its place in a vocabulary, or a hash of it; 0 is missing or unknown
    number      a number -> float32, scaled; 0.0 is missing
    buckets     a number -> the number of its interval, from 1; 0 is missing
    sequence    several names -> their numbers, the last `length` of them, padded with zeros
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pdl.dtype import Array
from pdl.errors import DataError, UsageError
from pdl.hashing import hash_buckets
from pdl.runtime.tables import cells
from pdl.vocabulary import Vocabulary

SCALES = ("none", "log")
MAX_LENGTH = 1 << 16


@dataclass(frozen=True)
class Category:
    """Names to numbers, int64: of a vocabulary, or by hash into `hash` buckets (Weinberger et al., arXiv 0902.2206).

    The hash is that of `pdl.hashing`, plus 1. An empty name is missing.
    """

    vocabulary: Vocabulary | None = None
    hash: int | None = None
    seed: int = 0

    @property
    def rows(self) -> int:
        """Rows that a table needs: one more than there are numbers."""
        return self.hash + 1 if self.hash is not None else 1 + len(self.vocabulary or ())

    def encode(self, names: Sequence[str]) -> Array:
        """int64, one for each name."""
        if self.hash is None:
            return np.zeros(len(names), np.int64) if self.vocabulary is None else self.vocabulary.encode(names)
        hashed = hash_buckets(list(names), self.hash, seed=self.seed) + 1
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

    def encode(self, x: Array) -> Array:
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

    def encode(self, texts: Sequence[str]) -> Array:
        """int64 [n, length]."""
        lists = [[name for name in text.split(self.separator) if name][-self.length :] for text in texts]
        counts = np.array([len(each) for each in lists], np.int64)
        return padded(self.category.encode([name for each in lists for name in each]), counts, self.length)


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
        """The column of the data that a field reads: that of its name unless it names another."""
        return self.columns.get(name, name)

    def encode(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Array]:
        """The inputs for rows as people give them: {column: text or number}; what a row lacks is missing."""
        parts = {}
        for name, encoder in self.encoders.items():
            cells = [row.get(self.column(name)) for row in rows]
            if isinstance(encoder, Number):
                parts[name] = encoder.encode(np.array([as_number(cell) for cell in cells], np.float64))
            else:
                parts[name] = encoder.encode([as_text(cell, encoder) for cell in cells])
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
    parts = [part.partition("=") for part in cells(item, f"the row {item[:60]!r}", skipinitialspace=True)]
    bad = next((part for part in parts if part[1] != "=" or not part[0].strip()), None)
    if bad is not None or not parts:
        said = "" if bad is None else f": {bad[0]!r} is not column=value"
        raise DataError(f"the row {item[:60]!r} is no file and no row{said}; write column=value,column=value or JSON")
    return {name.strip(): value for name, _, value in parts}


def known_row(item: Any, columns: Sequence[str]) -> dict[str, Any]:
    """The same, of which some of these columns are known; DataError where none is."""
    row = as_row(item)
    if not any(name in row for name in columns):
        raise DataError(f"the row {str(item)[:60]!r} has none of the columns {', '.join(columns[:12])}")
    return row


def part_of(item: Any, part: str, parts: Sequence[str]) -> Any:
    """One part of an item whose parts have these names: a row as `as_row` takes it; or, where there is one part alone,
    also that part itself. DataError where the item says nothing of it."""
    is_json = isinstance(item, str) and item.lstrip().startswith("{")
    if len(parts) == 1 and not isinstance(item, Mapping) and not is_json:
        return item
    row = known_row(item, parts)
    if row.get(part) is None:
        raise DataError(f"the row {str(item)[:60]!r} says nothing of {part!r}; the model reads {', '.join(parts)}")
    return row[part]


def joined(parts: Mapping[str, Array], n: int) -> dict[str, Array]:
    """The parts of n rows side by side: whole numbers under "ids", others under "numbers"."""
    found = {}
    for name, kind, dtype in (("ids", "i", np.int64), ("numbers", "f", np.float32)):
        chosen = [part.reshape(n, -1) for part in parts.values() if part.dtype.kind == kind]
        if chosen:
            found[name] = np.concatenate(chosen, axis=1).astype(dtype, copy=False)
    return found


def padded(numbers: Array, counts: Array, length: int) -> Array:
    """Numbers in a row, of which counts[i] (at most `length`) belong to row i -> int64 [n, length], padded with
    zeros."""
    out = np.zeros((len(counts), length), np.int64)
    out[np.arange(length) < counts[:, None]] = numbers
    return out


def as_number(cell: Any) -> float:
    """A cell as a number; NaN where it is missing or none."""
    if isinstance(cell, list | tuple):
        cell = cell[0] if cell else None
    if cell is None or cell == "":
        return math.nan
    try:
        return float(cell)
    except (TypeError, ValueError):
        return math.nan


def as_text(cell: Any, encoder: Category | Names) -> str:
    """A cell as a name, or as names between the encoder's separators."""
    if isinstance(cell, list | tuple):
        return encoder.separator.join(map(str, cell)) if isinstance(encoder, Names) else str(cell[0]) if cell else ""
    return "" if cell is None else str(cell)


# -- encoders as plain values ------------------------------------------------------------------------------------------
def to_plain(encoder: Encoder, column: str, vocabulary: str | None) -> dict[str, Any]:
    """An encoder as plain values, its vocabulary by name."""
    if isinstance(encoder, Number):
        about = {"scale": encoder.scale, "mean": encoder.mean, "std": encoder.std}
        return {
            "column": column,
            "kind": "number",
            **({"edges": list(encoder.edges)} if encoder.edges is not None else about),
        }
    category = encoder.category if isinstance(encoder, Names) else encoder
    by = {"vocabulary": vocabulary} if category.hash is None else {"hash": category.hash, "seed": category.seed}
    if isinstance(encoder, Names):
        return {"column": column, "kind": "names", **by, "length": encoder.length, "separator": encoder.separator}
    return {"column": column, "kind": "category", **by}


_KEYS = {
    "category": {"vocabulary": str, "hash": int, "seed": int},
    "names": {"vocabulary": str, "hash": int, "seed": int, "length": int, "separator": str},
    "number": {"scale": str, "mean": float, "std": float, "edges": list},
}


def from_plain(name: str, spec: Any, vocabularies: Mapping[str, Vocabulary]) -> Encoder:
    """The encoder of the field `name` from `to_plain`; UsageError for what that never gives."""
    kind = spec.get("kind") if isinstance(spec, Mapping) else None
    if kind not in _KEYS or not isinstance(spec.get("column"), str):
        raise UsageError(f"fields: {name!r:.60} must have a column and be a category, names or a number")
    given = {key: value for key, value in spec.items() if key not in ("column", "kind")}
    for key, value in given.items():
        wanted = _KEYS[kind].get(key)
        if wanted is None or not isinstance(value, (int, float) if wanted is float else wanted) or value is True:
            raise UsageError(f"fields: {name!r:.60}: {key}={value!r:.60} is none of the settings of a {kind}")
    if kind == "number":
        return _number(name, given)
    if (
        given.get("hash", 1) < 1
        or not 0 <= given.get("seed", 0) < 1 << 63
        or ("hash" in given) == ("vocabulary" in given)
    ):
        raise UsageError(f"fields: {name!r:.60}: give a vocabulary, or a hash of at least 1")
    vocabulary = vocabularies[given["vocabulary"]] if "vocabulary" in given else None
    category = Category(vocabulary, given.get("hash"), given.get("seed", 0))
    if kind == "category":
        return category
    length, separator = given.get("length", 0), given.get("separator", "")
    if not 1 <= length <= MAX_LENGTH or not separator:
        raise UsageError(f"fields: {name!r:.60}: length from 1 to {MAX_LENGTH} and a separator are needed")
    return Names(category, length, separator)


def _number(name: str, given: Mapping[str, Any]) -> Number:
    edges = given.get("edges")
    if edges is not None and not all(type(e) in (int, float) for e in edges):
        raise UsageError(f"fields: {name!r:.60}: edges must be numbers")
    if given.get("scale", "none") not in SCALES or (edges is not None and sorted(edges) != list(edges)):
        raise UsageError(f"fields: {name!r:.60}: scale is none of {', '.join(SCALES)}, or edges do not rise")
    about = {key: value for key, value in given.items() if key != "edges"}
    return Number(**about, edges=None if edges is None else tuple(map(float, edges)))
