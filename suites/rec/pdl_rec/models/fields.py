"""The vectors of fields: one table for all of them, and what models of click-through rates have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np

import pdl
from pdl.errors import ConfigError
from pdl.hints import Range
from pdl.nn import BatchNorm1d, Dropout, Embedding, Linear, Module, Parameter, ReLU, Sequential, Table, init
from pdl.tensor import Tensor


@dataclass(frozen=True)
class Schema:
    """What a model has to know of the fields of its rows.

    tables   name -> rows of a table, row 0 being missing or unknown
    ids      field -> [table, length]: length 0 for one name, else that of a sequence (0 = none, behind the end); the
             columns of `ids` [N, W] in order
    numbers  the fields of `numbers` [N, D]
    """

    tables: Mapping[str, int] = field(default_factory=dict)
    ids: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    numbers: Sequence[str] = ()

    @classmethod
    def of(cls, given: Schema | Mapping[str, Any] | None, owner: str) -> Schema:
        """The schema of a constructor's argument; ConfigError where it is missing."""
        if given is None:
            raise ConfigError(f"{owner}: fields is missing; ClickThrough fills it in from the data")
        return given if isinstance(given, Schema) else cls(**given)

    @property
    def width(self) -> int:
        """Columns of ids."""
        return sum(max(1, length) for _, length in self.ids.values())

    @property
    def count(self) -> int:
        """Fields, so vectors of a row."""
        return len(self.ids) + len(self.numbers)

    @property
    def rows(self) -> int:
        """Rows of all tables together."""
        return sum(self.tables.values())

    def plain(self) -> dict[str, Any]:
        """As config values."""
        return {
            "tables": dict(self.tables),
            "ids": {k: list(v) for k, v in self.ids.items()},
            "numbers": list(self.numbers),
        }

    def names(self) -> Schema:
        """Without the numbers."""
        return Schema(self.tables, self.ids)

    def part(self, fields: Sequence[str] | None) -> Part:
        """Some of the fields; None: all."""
        return Part(self, fields)

    def place(self, name: str) -> slice:
        """The columns of a field in ids."""
        at = 0
        for each, (_, length) in self.ids.items():
            if each == name:
                return slice(at, at + max(1, length))
            at += max(1, length)
        raise ConfigError(f"there is no field {name!r} with a table; fields are {', '.join(self.ids)}")

    def offsets(self) -> np.ndarray:
        """int64 [W]: where in one table for all fields the rows of each column of ids begin."""
        begins = dict(zip(self.tables, np.cumsum([0, *self.tables.values()]), strict=False))
        return np.concatenate(
            [np.full(max(1, n), begins[table], np.int64) for table, n in self.ids.values()] or [np.empty(0, np.int64)]
        )


class Part:
    """Some fields of rows: their schema, and their columns of ids and numbers."""

    def __init__(self, whole: Schema, fields: Sequence[str] | None) -> None:
        known = [*whole.ids, *whole.numbers]
        self.all = fields is None
        chosen = known if fields is None else list(fields)
        for name in chosen:
            if name not in known:
                raise ConfigError(f"there is no field {name!r}; fields are {', '.join(known)}")
        ids = {name: whole.ids[name] for name in whole.ids if name in chosen}
        used = {table for table, _ in ids.values()}
        tables = {name: rows for name, rows in whole.tables.items() if name in used}
        self.schema = Schema(tables, ids, [name for name in whole.numbers if name in chosen])
        self.columns = [i for name in ids for i in range(*whole.place(name).indices(whole.width))]
        self.numbers = [i for i, name in enumerate(whole.numbers) if name in chosen]

    def of(self, ids: Tensor | None, numbers: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
        """The part of a row."""
        if self.all:
            return ids, numbers
        return (
            pdl.take(ids, pdl.as_tensor(np.array(self.columns)), axis=1) if ids is not None and self.columns else None,
            pdl.take(numbers, pdl.as_tensor(np.array(self.numbers)), axis=1)
            if numbers is not None and self.numbers
            else None,
        )


class FieldVectors(Module):
    """Rows as vectors, one a field: ids [N, W], numbers [N, D] -> [N, fields, dim].

    A name's vector is its row of the one table; a sequence's the mean over its names; a number's is its value times the
    field's vector (Rendle, ICDM 2010: x_i v_i). Initial values N(0, std).

    sparse   gradients of the table as rows: a large table then costs what is used of it
    """

    def __init__(self, schema: Schema, dim: int, *, std: float = 0.01, sparse: bool = False) -> None:
        self.schema, self.dim = schema, dim
        self.table = Embedding(max(1, schema.rows), dim, sparse=sparse)
        init.normal_(self.table.weight, std=std)
        if isinstance(self.table.weight, Table):
            self.table.weight.family = schema
        self.offsets = schema.offsets()
        self.numbers = Parameter(pdl.zeros((len(schema.numbers), dim))) if schema.numbers else None
        if self.numbers is not None:
            init.normal_(self.numbers, std=std)
        self.plain = all(length == 0 for _, length in schema.ids.values())

    def rows(self, ids: Tensor) -> Tensor:
        """The vectors of all names: ids [N, W] -> [N, W, dim]."""
        return self.table(ids + pdl.as_tensor(self.offsets))

    def forward(self, ids: Tensor | None, numbers: Tensor | None = None) -> Tensor:
        parts = [] if ids is None else [self.pooled(ids)]
        if self.numbers is not None and numbers is not None:
            parts.append(self.of_numbers(numbers))
        return parts[0] if len(parts) == 1 else pdl.concat(parts, axis=1)

    def of_numbers(self, numbers: Tensor) -> Tensor:
        """The vectors of numbers [N, D] -> [N, D, dim]."""
        assert self.numbers is not None
        return numbers.expand_dims(axis=2) * self.numbers

    def pooled(self, ids: Tensor) -> Tensor:
        """The vectors of the fields with tables [N, len(ids), dim]."""
        rows = self.rows(ids)
        if self.plain:
            return rows
        parts = []
        for name, (_, length) in self.schema.ids.items():
            place = self.schema.place(name)
            part = rows[:, place]
            parts.append(mean_of(part, ids[:, place]) if length else part)
        return pdl.concat(parts, axis=1)


def mean_of(vectors: Tensor, ids: Tensor) -> Tensor:
    """The mean over the names of a sequence: [N, T, dim] with zeros in ids [N, T] behind the end -> [N, 1, dim]; 0 for
    an empty one."""
    there = (ids > 0).astype(vectors.dtype)
    weights = there / pdl.maximum(there.sum(axis=1, keepdims=True), 1.0)
    return (vectors * weights.expand_dims(axis=2)).sum(axis=1, keepdims=True)


class ClickModel(Module):
    """Base of the models that give each row the logits of its labels.

    `forward(ids, numbers)` takes ids int64 [N, W] and numbers float32 [N, D], the one that the schema has none of being
    left out, and gives logits [N] (of several labels [N, labels]).
    """

    schema: Schema

    def read(self, *inputs: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """(ids, numbers) of the values that are not missing."""
        left = list(inputs)
        ids = left.pop(0) if self.schema.ids else None
        return ids, left.pop(0) if self.schema.numbers and left else None


class RowModel(ClickModel):
    """Base of the models that read a row end to end: the vectors of its names, and its numbers as they are.

    fields   the schema of the rows; ClickThrough fills it in
    dim      length of the vectors;  std: deviation of their initial values
    sparse   gradients of the table as rows
    """

    def __init__(
        self,
        *,
        fields: Mapping[str, Any] | None = None,
        dim: Annotated[int, Range(1)] = 16,
        std: Annotated[float, Range(0)] = 0.01,
        sparse: bool = False,
    ) -> None:
        self.schema = Schema.of(fields, type(self).__name__)
        self.vectors = FieldVectors(self.schema.names(), dim, std=std, sparse=sparse)
        self.width = len(self.schema.ids) * dim + len(self.schema.numbers)

    def row(self, *inputs: Tensor) -> Tensor:
        """The vectors and numbers of each row, side by side [N, width]."""
        ids, numbers = self.read(*inputs)
        return beside(None if ids is None else self.vectors(ids), numbers)


def beside(vectors: Tensor | None, numbers: Tensor | None) -> Tensor:
    """Vectors [N, fields, dim] end to end, and the numbers [N, D] behind them: [N, fields dim + D]."""
    parts = [] if vectors is None else [vectors.flatten(start=1)]
    parts += [] if numbers is None else [numbers]
    return parts[0] if len(parts) == 1 else pdl.concat(parts, axis=1)


class FirstOrder(Module):
    """The linear part: bias + sum_i w_i x_i over all fields -> [N]. Weights of names begin at 0."""

    def __init__(self, schema: Schema, *, sparse: bool = False) -> None:
        self.vectors = FieldVectors(schema, 1, std=0.0, sparse=sparse)
        self.bias = Parameter(pdl.zeros((1,)))

    def forward(self, ids: Tensor | None, numbers: Tensor | None) -> Tensor:
        return self.vectors(ids, numbers).sum(axis=(1, 2)) + self.bias


def mlp(
    inputs: int, hidden: Sequence[int], outputs: int | None = 1, *, dropout: float = 0.0, norm: bool = False
) -> Sequential:
    """Linear, (norm,) ReLU, (dropout) for each of `hidden`, then Linear to `outputs` (None: without)."""
    layers: list[Module] = []
    for units in hidden:
        layers.append(Linear(inputs, units))
        layers += [BatchNorm1d(units)] if norm else []
        layers.append(ReLU())
        layers += [Dropout(dropout)] if dropout else []
        inputs = units
    if outputs is not None:
        layers.append(Linear(inputs, outputs))
    return Sequential(*layers)
