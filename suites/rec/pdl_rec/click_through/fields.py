"""What the columns of a click file mean: the fields and labels that a recipe declares, and what training data tells of
them."""

from __future__ import annotations

import fnmatch
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import numpy as np

from pdl.data.randomness import BatchRandom
from pdl.errors import ConfigError, DataError
from pdl.hashing import hash_buckets
from pdl.hints import Range
from pdl.runtime.fields import Category, Fields, Names, Number, joined, padded
from pdl.vocabulary import Vocabulary
from pdl_rec.data.columns import Columns, Text, length
from pdl_rec.models.fields import Schema

SAMPLE = 200_000  # numbers that quantiles are taken of
GROUP = "group"


@dataclass(frozen=True)
class FieldSpec:
    """A field as a recipe declares it.

    kind       category: one name, with a row of the table; number: a scaled number; sequence: several names
    column     of the data, where it is not named as the field
    min_count  names that training data has fewer times are unknown (category, sequence)
    hash       number names by a hash into so many buckets, instead of a vocabulary; `seed` begins the hash
    scale      of numbers: none, log (sign(x) log(1 + |x|)), standard (mean 0, deviation 1), log_standard (both)
    buckets    cut numbers into so many intervals with equally many of the training data, and treat these as names
    edges      or between these borders
    length     most names that are kept of a sequence, the last ones
    separator  between the names of a sequence
    like       the field whose vocabulary (and rows of the table) this one shares
    """

    kind: Literal["category", "number", "sequence"] = "category"
    column: str | None = None
    min_count: Annotated[int, Range(1)] = 1
    hash: Annotated[int, Range(1)] | None = None
    seed: Annotated[int, Range(0)] = 0
    scale: Literal["none", "log", "standard", "log_standard"] = "none"
    buckets: Annotated[int, Range(2)] | None = None
    edges: Sequence[float] | None = None
    length: Annotated[int, Range(1)] = 10
    separator: str = " "
    like: str | None = None

    @property
    def is_text(self) -> bool:
        """Whether the column is read as text."""
        return self.kind != "number"

    @property
    def cut(self) -> bool:
        """Whether numbers become intervals."""
        return self.buckets is not None or self.edges is not None


@dataclass(frozen=True)
class LabelSpec:
    """What counts as yes: a column that is at least a number, or equals a text; without a rule it holds 0 and 1."""

    column: str | None = None
    at_least: float | None = None
    equals: str | None = None


@dataclass(frozen=True)
class Learned:
    """What training data tells of the fields.

    vocabularies   of the fields that number names by one
    numbers        {field: {"mean", "std"} or {"edges"}}
    """

    vocabularies: dict[str, Vocabulary] = field(default_factory=dict)
    numbers: dict[str, dict[str, Any]] = field(default_factory=dict)


def expanded(declared: Mapping[str, Any], columns: Sequence[str]) -> dict[str, FieldSpec]:
    """The declared fields in order, patterns such as "C*" replaced by the columns that they fit."""
    found: dict[str, FieldSpec] = {}
    for name, given in declared.items():
        spec = given if isinstance(given, FieldSpec) else FieldSpec(**(given or {}))
        if not re.search(r"[*?\[]", name):
            found[name] = spec
            continue
        fitting = [each for each in columns if fnmatch.fnmatchcase(each, name)]
        if not fitting:
            raise ConfigError(f"task.fields: no column fits {name!r}; the data has {', '.join(columns[:40])}")
        found |= {each: spec for each in fitting if each not in declared}
    for name, spec in found.items():
        _judge(name, spec, found)
    return found


def _judge(name: str, spec: FieldSpec, fields: Mapping[str, FieldSpec]) -> None:
    """ConfigError for settings that contradict each other."""
    other = None if spec.like is None else fields.get(spec.like)
    lone = spec.like is not None and not (other and other.is_text and not other.like)
    wrong = [
        (spec.kind == "number" and spec.hash is not None, "numbers are not hashed; cut them into buckets first"),
        (spec.kind != "number" and spec.cut, "only numbers are cut into buckets; set kind: number"),
        (spec.cut and spec.scale != "none", "intervals do not depend on the scale; leave out scale"),
        (spec.buckets is not None and spec.edges is not None, "give buckets or edges, not both"),
        (lone, f"like={spec.like!r} has no names of its own"),
        (not re.fullmatch(r"[\w][\w.\- ]*", name), "names of fields are letters, digits, '_', '-', '.' and spaces"),
    ]  # fmt: skip
    for is_so, why in wrong:
        if is_so:
            raise ConfigError(f"task.fields.{name}: {why}")


class Encoding:
    """Columns to the arrays of a batch: ids, numbers, label, and the group of each row for metrics within groups."""

    def __init__(
        self,
        fields: Mapping[str, FieldSpec],
        labels: Mapping[str, LabelSpec],
        learned: Learned,
        group: str | None = None,
    ) -> None:
        self.specs, self.labels, self.group = dict(fields), dict(labels), group
        self.fields = Fields(
            {name: _encoder(name, spec, self.specs, learned) for name, spec in self.specs.items()},
            {name: spec.column for name, spec in self.specs.items() if spec.column is not None},
        )

    @property
    def text(self) -> list[str]:
        """Columns that are read as text."""
        named = [self.fields.column(name) for name, spec in self.specs.items() if spec.is_text]
        named += [spec.column or name for name, spec in self.labels.items() if spec.equals is not None]
        return list(dict.fromkeys([*named, *([self.group] if self.group else [])]))

    @property
    def numeric(self) -> list[str]:
        """Columns that are read as numbers."""
        named = [self.fields.column(name) for name, spec in self.specs.items() if not spec.is_text]
        named += [spec.column or name for name, spec in self.labels.items() if spec.equals is None]
        text = set(self.text)
        return [name for name in dict.fromkeys(named) if name not in text]

    @property
    def schema(self) -> Schema:
        """What the model has to know of the fields."""
        tables: dict[str, int] = {}
        ids: dict[str, list[Any]] = {}
        numbers = []
        for name, encoder in self.fields.encoders.items():
            if isinstance(encoder, Number) and encoder.edges is None:
                numbers.append(name)
                continue
            table = self.specs[name].like or name
            rows = encoder.category.rows if isinstance(encoder, Names) else encoder.rows
            tables[table] = rows
            ids[name] = [table, encoder.length if isinstance(encoder, Names) else 0]
        return Schema(tables, ids, numbers)

    def __call__(self, columns: Columns) -> dict[str, np.ndarray]:
        """{"ids" int64 [n, W], "numbers" float32 [n, D], "label" float32 [n, L], "group" int64 [n]}; what there is none
        of is absent."""
        label = [self._label(name, spec, columns[spec.column or name]) for name, spec in self.labels.items()]
        grouped = {} if self.group is None else {GROUP: _groups(columns[self.group])}
        return {**self.inputs(columns), "label": np.stack(label, axis=1), **grouped}

    @property
    def inputs_from(self) -> list[str]:
        """Columns that the fields are read from."""
        return list(dict.fromkeys(self.fields.column(name) for name in self.specs))

    def inputs(self, columns: Columns) -> dict[str, np.ndarray]:
        """What the model takes of the rows: ids and numbers."""
        parts = {name: encode(each, columns[self.fields.column(name)]) for name, each in self.fields.encoders.items()}
        return joined(parts, length(columns))

    def _label(self, name: str, spec: LabelSpec, column: Text | np.ndarray) -> np.ndarray:
        if spec.equals is not None:
            assert isinstance(column, Text)
            return np.append(np.array(column.values, object) == spec.equals, False)[column.first().codes].astype(
                np.float32
            )
        values = column.numbers() if isinstance(column, Text) else column
        if spec.at_least is not None:
            values = np.where(np.isnan(values), values, values >= spec.at_least)
        bad = np.flatnonzero((values != 0) & (values != 1))
        if len(bad):
            is_what = "is missing" if np.isnan(values[bad[0]]) else f"is {values[bad[0]]:g}"
            raise DataError(
                f"the label {name!r} {is_what} in row {bad[0]} of {len(values)}; labels are 0 and 1: give "
                f"task.labels.{name} a rule (at_least, equals), or correct the data"
            )
        return values.astype(np.float32)


def encode(encoder: Category | Number | Names, column: Text | np.ndarray) -> np.ndarray:
    """One column through its encoder; the different values of text go through it once."""
    if isinstance(encoder, Number):
        return encoder.encode(column.numbers() if isinstance(column, Text) else column)
    assert isinstance(column, Text)
    if isinstance(encoder, Category):
        return np.append(encoder.encode(column.values), 0)[column.first().codes]
    if column.offsets is None:
        return np.concatenate([encoder.encode(column.values), np.zeros((1, encoder.length), np.int64)])[column.codes]
    counts = np.minimum(np.diff(column.offsets), encoder.length)
    last = Text(column.codes, column.values, column.offsets)
    places = np.repeat(last.offsets[1:] - np.cumsum(counts), counts) + np.arange(counts.sum())  # type: ignore[index]
    return padded(encoder.category.encode(column.values)[column.codes[places]], counts, encoder.length)


def _encoder(name: str, spec: FieldSpec, specs: Mapping[str, FieldSpec], learned: Learned) -> Category | Number | Names:
    if spec.kind == "number":
        found = learned.numbers.get(name, {})
        edges = spec.edges if spec.edges is not None else found.get("edges")
        scale = "log" if spec.scale.startswith("log") else "none"
        cut = tuple(map(float, edges or ())) if spec.cut else None
        return Number(scale, found.get("mean", 0.0), found.get("std", 0.0), cut)
    owner = specs[spec.like] if spec.like else spec
    vocabulary = None if owner.hash is not None else learned.vocabularies.get(spec.like or name)
    category = Category(vocabulary, owner.hash, owner.seed)
    return Names(category, spec.length, spec.separator) if spec.kind == "sequence" else category


def _groups(column: Text | np.ndarray) -> np.ndarray:
    """A number for each group, the same in every block: a hash of its name."""
    assert isinstance(column, Text)
    return np.append(hash_buckets(list(column.values), 1 << 62), -1)[column.first().codes]


# -- what training data tells ------------------------------------------------------------------------------------------
def learn(fields: Mapping[str, FieldSpec], blocks: Callable[[list[str], list[str]], Any], known: Learned) -> Learned:
    """One pass over the training data: vocabularies by descending count, means and deviations, quantiles; what is
    `known` is kept. Nothing is read where nothing is to be learned."""
    names = [
        n for n, s in fields.items() if s.is_text and s.hash is None and s.like is None and n not in known.vocabularies
    ]
    numbers = [n for n, s in fields.items() if n not in known.numbers and (s.scale.endswith("standard") or s.buckets)]
    if not names and not numbers:
        return known
    shared = {name: [n for n, s in fields.items() if n == name or s.like == name] for name in names}
    counts: dict[str, Counter[str]] = {name: Counter() for name in names}
    moments = {name: _Moments(fields[name]) for name in numbers}
    column = {name: spec.column or name for name, spec in fields.items()}
    text = list(dict.fromkeys(column[n] for each in shared.values() for n in each))
    rows = 0
    for block in blocks(text, [column[n] for n in numbers]):
        for name, readers in shared.items():
            for reader in readers:
                _count(counts[name], block[column[reader]], fields[reader])
        for name, moment in moments.items():
            values = block[column[name]]
            moment.see(values.numbers() if isinstance(values, Text) else values, rows)
        rows += length(block)
    made = {name: _vocabulary(counts[name], fields[name].min_count) for name in names}
    statistics = {name: moment.statistics() for name, moment in moments.items()}
    return Learned({**known.vocabularies, **made}, {**known.numbers, **statistics})


def _count(counts: Counter[str], column: Text, spec: FieldSpec) -> None:
    seen = np.bincount(column.codes[column.codes >= 0], minlength=len(column.values))
    for value, count in zip(column.values, seen.tolist(), strict=True):
        split = spec.kind == "sequence" and column.offsets is None
        for name in value.split(spec.separator) if split else (value,):
            if count and name:
                counts[name] += count


def _vocabulary(counts: Counter[str], least: int) -> Vocabulary:
    kept = [(-count, name) for name, count in counts.items() if count >= least]
    return Vocabulary(name for _, name in sorted(kept))


class _Moments:
    """Mean and deviation of a stream of numbers, or quantiles of a sample of it (the rows with the smallest hashes)."""

    def __init__(self, spec: FieldSpec) -> None:
        self.spec, self.scale = spec, Number("log" if spec.scale.startswith("log") else "none")
        self.n, self.sum, self.squares = 0, 0.0, 0.0
        self.keys, self.sample = np.empty(0), np.empty(0)

    def see(self, values: np.ndarray, first: int) -> None:
        there = ~np.isnan(values)
        kept = self.scale.scaled(values[there])
        self.n, self.sum, self.squares = self.n + len(kept), self.sum + kept.sum(), self.squares + np.square(kept).sum()
        if self.spec.buckets:
            keys = BatchRandom(0, 0, first + np.flatnonzero(there)).fork("sample").uniform()
            self.keys, self.sample = np.append(self.keys, keys), np.append(self.sample, kept)
            if len(self.keys) > SAMPLE:
                least = np.argpartition(self.keys, SAMPLE)[:SAMPLE]
                self.keys, self.sample = self.keys[least], self.sample[least]

    def statistics(self) -> dict[str, Any]:
        if self.spec.buckets:
            shares = np.arange(1, self.spec.buckets) / self.spec.buckets
            edges = np.unique(np.quantile(self.sample, shares)) if len(self.sample) else np.empty(0)
            return {"edges": [float(edge) for edge in edges]}
        mean = float(self.sum / max(1, self.n))
        return {"mean": mean, "std": max(0.0, float(self.squares / max(1, self.n)) - mean * mean) ** 0.5 or 1.0}
