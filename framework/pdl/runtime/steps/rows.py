"""The input step for rows of a table: a row in, the numbers of its fields out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from pdl import watch
from pdl.dtype import Array
from pdl.errors import DataError
from pdl.runtime import tables
from pdl.runtime.fields import Category, Encoder, Fields, Number, as_number, from_plain, known_row
from pdl.runtime.sample import Sample
from pdl.runtime.steps.arguments import check, flag, one_of, texts
from pdl.runtime.steps.base import Resources
from pdl.runtime.steps.inputs import Input, InputStep
from pdl.suites import suggest
from pdl.vocabulary import Vocabulary

ROW = "COLUMN=VALUE,..."
ABSENT = ("", "none", "nan", "na", "null", "?")  # texts for what is not known, lower case
CLOSED, NOTES = 1_000, 20  # names of a vocabulary that is complete; warnings of one pipeline
ABOUT_ROW = "a row: column=value,column=value or JSON"


class RowInput(InputStep):
    """A row of a table -> the part "ids" (int64 [W]) or "numbers" (float32 [D]) of its fields.

    An item is a row as `pdl.runtime.fields.as_row` takes it; columns that it lacks are missing. A name that a
    vocabulary of at most `CLOSED` names lacks, and a text where a number is read, count as missing, too; a warning says
    so, once for each (`pdl.watch.note`). `fields` are those of the part, in order: {name: {"column", "kind": "category"
    | "names" | "number", and the arguments of that class}}, vocabularies by name. `known` are the columns of all parts,
    of which a row must have one; with `complete`, all of this part's, and numbers where these are asked for. `columns`
    and `separator` are those of files without a header.
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
        self._noted: set[tuple[str, str]] = set()
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
        if not array.all():
            self._note_nonsense(row)
        return array

    def _note_nonsense(self, row: Mapping[str, Any]) -> None:
        """Warn of the values that say nothing to the model, of each once."""
        for name, encoder in self.fields.encoders.items():
            column = self.fields.column(name)
            text = str(row.get(column, "")).strip()
            what = "" if text.lower() in ABSENT else _nonsense(encoder, text)
            key = column, text[:40]
            if what and key not in self._noted and len(self._noted) < NOTES:
                self._noted.add(key)
                watch.note(f"column {column!r}: {text[:40]!r} {what}")

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


def _nonsense(encoder: Encoder, text: str) -> str:
    """What is wrong with a value, or nothing. Open vocabularies are expected to lack names."""
    if isinstance(encoder, Number):
        return "is no number, and counts as missing" if math.isnan(as_number(text)) else ""
    if not isinstance(encoder, Category) or encoder.vocabulary is None or len(encoder.vocabulary) > CLOSED:
        return ""
    if encoder.encode([text])[0]:
        return ""
    known = encoder.vocabulary.names
    return f"is none of the {len(known)} names that the model knows, and counts as missing{suggest(text, known)}"


STEPS = (RowInput,)
