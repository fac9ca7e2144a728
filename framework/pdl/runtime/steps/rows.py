"""The input step for rows of a table: a row in, the numbers of its fields out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from pdl.dtype import Array
from pdl.errors import DataError
from pdl.runtime import tables
from pdl.runtime.fields import Fields, Number, as_number, from_plain, known_row
from pdl.runtime.sample import Sample
from pdl.runtime.steps.arguments import check, flag, one_of, texts
from pdl.runtime.steps.base import Resources
from pdl.runtime.steps.inputs import Input, InputStep
from pdl.vocabulary import Vocabulary

ROW = "COLUMN=VALUE,..."
ABOUT_ROW = "a row: column=value,column=value or JSON"


class RowInput(InputStep):
    """A row of a table -> the part "ids" (int64 [W]) or "numbers" (float32 [D]) of its fields.

    An item is a row as `pdl.runtime.fields.as_row` takes it; columns that it lacks are missing. `fields` are those of
    the part, in order: {name: {"column", "kind": "category" | "names" | "number", and the arguments of that class}},
    vocabularies by name. `known` are the columns of all parts, of which a row must have one; with `complete`, all of
    this part's, and numbers where these are asked for. `columns` and `separator` are those of files without a header.
    """

    name = "fields"
    takes, metavar, about = "row", ROW, ABOUT_ROW

    def __init__(
        self,
        part: str,
        fields: Mapping[str, Mapping[str, Any]],
        known: Sequence[str] = (),
        columns: Sequence[str] | None = None,
        separator: str | None = None,
        complete: bool = False,
    ) -> None:
        check(isinstance(fields, Mapping) and len(fields) > 0, "fields must be a mapping with at least one field")
        good = separator is None or (isinstance(separator, str) and len(separator) == 1)
        check(good, f"separator={separator!r:.60} must be one character")
        self.part, self.specs, self.separator = one_of("part", part, ("ids", "numbers")), dict(fields), separator
        self.columns = None if columns is None else texts("columns", columns)
        self.known, self.complete = texts("known", known), flag("complete", complete)
        for name, spec in self.specs.items():
            from_plain(name, spec, {spec.get("vocabulary", ""): Vocabulary([])} if isinstance(spec, Mapping) else {})

    def bind(self, resources: Resources) -> None:
        for spec in self.specs.values():
            if spec.get("vocabulary"):
                resources.check_vocabulary(spec["vocabulary"], self.name)
        self._vocabularies = resources.vocabularies

    @cached_property
    def fields(self) -> Fields:
        """The encoders; vocabularies are parsed at their first use."""
        encoders = {name: from_plain(name, spec, self._vocabularies) for name, spec in self.specs.items()}
        return Fields(encoders, {name: spec["column"] for name, spec in self.specs.items()})

    def parse(self, item: Any, sample: Sample) -> Array:
        row = known_row(item, self.known or list(self.fields.columns.values()))
        if self.complete:
            self._check_complete(item, row)
        array: Array = self.fields.encode([row])[self.part][0]
        return array

    def _check_complete(self, item: Any, row: Mapping[str, Any]) -> None:
        for name, encoder in self.fields.encoders.items():
            column = self.fields.column(name)
            cell = row.get(column)
            given = cell not in (None, "")
            if given and (not isinstance(encoder, Number) or math.isfinite(as_number(cell))):
                continue
            what = f"{cell!r:.40}, which is no number," if given else "nothing"
            reads = ", ".join(map(self.fields.column, self.fields.encoders))
            raise DataError(f"the row {str(item)[:60]!r} says {what} of {column!r}; the model reads {reads}")

    def file(self, path: str | Path) -> Iterator[Input]:
        """See `pdl.runtime.tables.rows`."""
        return (Input(line, row) for line, row in tables.rows(path, self.columns, self.separator))

    def random(self, shape: tuple[int, ...], rng: np.random.Generator, sizes: Mapping[str, int]) -> Array:
        if self.part == "numbers":
            return rng.standard_normal(shape).astype(np.float32)
        return rng.integers(0, 2, shape)


STEPS = (RowInput,)
