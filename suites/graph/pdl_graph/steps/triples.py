"""The input step for models of knowledge graphs: a query about a fact in, the numbers of its names out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pdl.dtype import Array
from pdl.errors import DataError
from pdl.runtime import tables
from pdl.runtime.fields import as_row
from pdl.runtime.steps import Input, InputStep, Resources, Sample
from pdl.runtime.steps.arguments import one_of, text
from pdl.suites import suggest

PARTS = ("entity", "relation", "inverse")
COLUMNS = ("head", "relation", "tail")
ASKED = "?"


class TripleQuery(InputStep):
    """A query about a fact (head, relation, tail), of which one end is missing -> one of its numbers, int64 []:

        part      (head, relation, ?)   (?, relation, tail)
        entity    of the head           of the tail             in the vocabulary `entities`
        relation  of the relation       of the relation         in the vocabulary `relations`
        inverse   0                     1

    An item is a row as `pdl.runtime.fields.as_row` takes it: {"head": "a", "relation": "r"} or {"relation": "r",
    "tail": "b"}; the missing entity is left out, empty or "?". Other columns are not read. DataError for
    anything else, and for unknown names: it has the nearest known one.
    """

    name = "triple_query"
    takes, metavar = "row", "head=...,relation=..."
    about = "a query: head=...,relation=... or relation=...,tail=..., or JSON"

    def __init__(self, part: str, entities: str = "entities", relations: str = "relations") -> None:
        self.part = one_of("part", part, PARTS)
        self.entities, self.relations = text("entities", entities), text("relations", relations)

    def bind(self, resources: Resources) -> None:
        for name in (self.entities, self.relations):
            resources.check_vocabulary(name, self.name)
        self._known = resources.vocabularies

    def parse(self, item: Any, sample: Sample) -> Array:
        head, relation, tail = query_of(item)
        inverse = head is None
        found = {
            "entity": self._number("entity", self.entities, str(tail if inverse else head)),
            "relation": self._number("relation", self.relations, relation),
            "inverse": int(inverse),
        }
        return np.array(found[self.part], np.int64)

    def _number(self, kind: str, vocabulary: str, name: str) -> int:
        known = self._known[vocabulary]
        number = int(known.encode([name])[0])
        if not number:
            near = suggest(name, known)
            raise DataError(f"{kind} {name!r} is not among the {len(known):,} that the model knows{near}")
        return number

    def title(self, item: Any) -> str:
        """`head,relation,?` or `?,relation,tail`, as a line of csv."""
        return tables.csv_line([ASKED if each is None else each for each in query_of(item)])

    def file(self, path: str | Path) -> Iterator[Input]:
        """The queries of a table *.csv or *.tsv with a header, or of lines of JSON (any other file, and "-"); one
        that is none has the number of its line for a name."""
        found = tables.rows(path) if tables.is_table(path) else tables.json_lines(path)
        for line, row in found:
            try:
                yield Input(self.title(row), row)
            except DataError:
                yield Input(line, row)

    def random(self, shape: tuple[int, ...], rng: np.random.Generator, sizes: Mapping[str, int]) -> Array:
        if self.part == "inverse":
            return rng.integers(0, 2, shape)
        known = self._known[self.entities if self.part == "entity" else self.relations]
        return rng.integers(1, max(2, len(known) + 1), shape)


def query_of(item: Any) -> tuple[str | None, str, str | None]:
    """(head, relation, tail) of a query, the missing one of which is None; DataError for anything else."""
    row = as_row(item)
    head, relation, tail = (_name(row, column) for column in COLUMNS)
    shown = f"the query {str(item)[:80]!r}"
    if relation is None:
        raise DataError(f"{shown} names no relation{_typo(row)}; write head=...,relation=... or relation=...,tail=...")
    if head is not None and tail is not None:
        raise DataError(f"{shown} names both head and tail, so nothing is asked; leave one of them out")
    if head is None and tail is None:
        raise DataError(f"{shown} names neither head nor tail{_typo(row)}; give the one that is known")
    return head, relation, tail


def _typo(row: Mapping[str, Any]) -> str:
    """`, but 'haed'; did you mean 'head'?` where a column is close to one that is missing."""
    missing = [column for column in COLUMNS if column not in row]
    found = ((name, suggest(name, missing)) for name in map(str, row) if name not in COLUMNS)
    return next((f", but {name!r}{near}" for name, near in found if near), "")


def _name(row: Mapping[str, Any], column: str) -> str | None:
    """A cell as a name; None for one that is missing or asks."""
    cell = row.get(column)
    if cell is not None and type(cell) not in (str, int):
        kind = type(cell).__name__
        raise DataError(f"the {column} {str(cell)[:60]!r} of a query is no name: expected a text, not {kind}")
    name = "" if cell is None else str(cell).strip()
    return None if name in ("", ASKED) else name
