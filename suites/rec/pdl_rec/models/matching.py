"""What the models that match users and items have in common: a query (the user and their features) and a
catalogue become scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar, NamedTuple, TypeAlias

import numpy as np

import pdl
from pdl.errors import ConfigError, UsageError
from pdl.nn import Buffer, Embedding, Module, ModuleDict
from pdl.tensor import Tensor

Query: TypeAlias = Mapping[str, Tensor]
"""Features of the N users, by name, as far as the model reads them: "user" int64 [N], their numbers; "history"
int64 [N, T], numbers of items, zeros behind the last; "example_age" float [N, 1]; and of every field of users int64
[N, L], numbers of its words."""

Fields: TypeAlias = Mapping[str, Sequence[int]]
"""Fields of users or items: name -> (rows, width): numbers run from 1 to rows - 1 (0 is none), `width` of them for
each."""


class Compared(NamedTuple):
    """Scores of one item that fits each query, float [N], and of K that do not, [N, K]; and, where the model has
    vectors, the mean squared length of users', plus that of fitting items', plus that of the others' (0-d)."""

    fitting: Tensor
    others: Tensor
    squares: Tensor | None = None


class MatchingModel(Module):
    """Base of the models that say how well each item fits a query.

    Users and items have numbers from 1 on; 0 is whoever or whatever is unknown. Scores of item 0 mean nothing, and it
    is never recommended. Tables have one row more than there are names.
    """

    num_items: int
    reads: ClassVar[tuple[str, ...]] = ("user",)
    """Which of "user", "history" and "example_age" the model reads."""
    user_fields: Fields = MappingProxyType({})
    item_fields: Fields = MappingProxyType({})

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of all that its queries must hold."""
        return (*self.reads, *self.user_fields)

    def score(self, query: Query, items: Tensor) -> Tensor:
        """Scores of items of each query's own: int64 [N, K] -> [N, K]."""
        raise NotImplementedError(f"{type(self).__name__} must define score")

    def compare(self, query: Query, items: Tensor, others: Tensor | None) -> Compared:
        """The items that fit, int64 [N], against others: [N, K] for each query, [K] for all of them, or None: the
        batch's own items (K = N)."""
        n = items.shape[0]
        if others is None:
            others = items
        if others.ndim == 1:
            others = pdl.broadcast_to(pdl.expand_dims(others, axis=0), (n, others.shape[0]))
        scores = self.score(query, pdl.concat([pdl.expand_dims(items, axis=1), others], axis=1))
        return Compared(scores[:, 0], scores[:, 1:])

    def forward(self, query: Query) -> Tensor:
        """Scores of all items: [N, num_items + 1]."""
        raise NotImplementedError(f"{type(self).__name__} must define forward")


class TwoTower(MatchingModel):
    """Base of the models whose score is the product of a query's vector and an item's, so that the best of millions of
    items are found by their vectors alone. A model of cosines gives vectors of length 1 and multiplies by `scale`."""

    scale: float = 1.0

    def user_vectors(self, query: Query) -> Tensor:
        """The vector of each query: [N, C]."""
        raise NotImplementedError(f"{type(self).__name__} must define user_vectors")

    def item_vectors(self, items: Tensor | None = None) -> Tensor:
        """The vectors of these items, int64 [...] -> [..., C]; without them of all: [num_items + 1, C]."""
        raise NotImplementedError(f"{type(self).__name__} must define item_vectors")

    def score(self, query: Query, items: Tensor) -> Tensor:
        return _own(self.user_vectors(query), self.item_vectors(items)) * self.scale

    def compare(self, query: Query, items: Tensor, others: Tensor | None) -> Compared:
        users, fitting = self.user_vectors(query), self.item_vectors(items)
        rest = fitting if others is None else self.item_vectors(others)
        products = pdl.matmul(users, pdl.swapaxes(rest, 0, 1)) if rest.ndim == 2 else _own(users, rest)
        squares = _mean_square(users) + _mean_square(fitting)
        if others is not None:
            squares = squares + _mean_square(rest)
        return Compared((users * fitting).sum(axis=-1) * self.scale, products * self.scale, squares)

    def forward(self, query: Query) -> Tensor:
        return pdl.matmul(self.user_vectors(query), pdl.swapaxes(self.item_vectors(), 0, 1)) * self.scale


def _own(users: Tensor, items: Tensor) -> Tensor:
    """Dot products of each user [N, C] with K items of theirs [N, K, C] -> [N, K]."""
    return (pdl.expand_dims(users, axis=1) * items).sum(axis=-1)


def _mean_square(x: Tensor) -> Tensor:
    """Mean over vectors [..., C] of the square of their length."""
    return pdl.square(x).sum(axis=-1).mean()


class Bags(Module):
    """Fields of several words each become one vector: of every field the mean of its words' vectors, side by side.
    Words have `dim` numbers; a field without words is zeros."""

    def __init__(self, fields: Fields, dim: int) -> None:
        for name, shape in fields.items():
            if len(shape) != 2:
                raise ConfigError(f"model: field {name!r} is {list(shape)}; expected [rows, width]")
        self.names = tuple(fields)
        made = {name: Embedding(fields[name][0], dim, padding_idx=0) for name in fields}
        for table in made.values():
            table.weight.data *= 0.1  # N(0, 0.1): sums of a few of them stay where tanh and relu are steep
        self.tables = ModuleDict(made)
        self.width = dim * len(self.names)

    def forward(self, values: Mapping[str, Tensor]) -> Tensor:
        """{name: int64 [..., L]} -> [..., width]."""
        return pdl.concat([mean_rows(self.tables[name], values[name]) for name in self.names], axis=-1)


class ItemFields(Module):
    """Features of each item, as buffers of the model: for every field the numbers of its words, int64 [num_items +
    1, L]. All zeros until `fill`."""

    def __init__(self, num_items: int, fields: Fields) -> None:
        self.names = tuple(fields)
        for name in self.names:
            self.register_buffer(f"of_{name}", np.zeros((num_items + 1, fields[name][1]), np.int64))

    def fill(self, values: Mapping[str, np.ndarray]) -> None:
        """Take over {name: int64 [num_items + 1, L]}."""
        for name in self.names:
            table: Buffer = getattr(self, f"of_{name}")
            if name not in values or values[name].shape != table.shape:
                given = f"shape {values[name].shape}" if name in values else "nothing"
                raise UsageError(f"items' field {name!r}: {given} is given; the model takes {table.shape}")
            table.data[...] = values[name]

    def forward(self, items: Tensor | None = None) -> dict[str, Tensor]:
        """{name: int64 [..., L]} of these items [...], or of all."""
        tables = {name: getattr(self, f"of_{name}") for name in self.names}
        return tables if items is None else {name: pdl.take(table, items, axis=0) for name, table in tables.items()}


class FieldTowers(TwoTower):
    """Base of the models that know users and items by fields alone, each side through a tower that maps {field: int64
    [..., L]} to vectors [..., C]. `history`: the items that a user had before are one field more."""

    reads: ClassVar[tuple[str, ...]] = ()
    user_tower: Module
    item_tower: Module

    def __init__(
        self, num_items: int | None, user_fields: Fields | None, item_fields: Fields | None, history: bool
    ) -> None:
        self.num_items = inferred(type(self).__name__, num_items=num_items)
        self.user_fields, self.item_fields = dict(user_fields or {}), dict(item_fields or {})
        self.history = history
        self.fields = ItemFields(self.num_items, self.item_fields)

    def of_users(self) -> Fields:
        """The fields that the tower of users reads."""
        return {**self.user_fields, **({"history": (self.num_items + 1, 1)} if self.history else {})}

    @property
    def inputs(self) -> tuple[str, ...]:
        return (*(("history",) if self.history else ()), *self.user_fields)

    def fill(self, values: Mapping[str, np.ndarray]) -> None:
        """Set the features of the items: {field: int64 [num_items + 1, L]}."""
        self.fields.fill(values)

    def user_vectors(self, query: Query) -> Tensor:
        made: Tensor = self.user_tower(query)
        return made

    def item_vectors(self, items: Tensor | None = None) -> Tensor:
        made: Tensor = self.item_tower(self.fields(items))
        return made


def inferred(model: str, **number: int | None) -> int:
    """The one number given by name; ConfigError where neither the recipe nor the data gives it."""
    ((name, value),) = number.items()
    if value is None:
        raise ConfigError(f"{model} needs {name}, which the task takes from the data")
    return value


def mean_rows(table: Module, index: Tensor) -> Tensor:
    """Mean of the rows of each bag, zeros left out: int [..., L] -> [..., C]; an empty bag gives zeros."""
    rows = table(index)
    there = pdl.astype(pdl.not_equal(index, 0), rows.dtype)
    total = (rows * pdl.expand_dims(there, axis=-1)).sum(axis=-2)
    return total / pdl.maximum(there.sum(axis=-1, keepdims=True), 1.0)


def unit(x: Tensor) -> Tensor:
    """Rows scaled to length 1: x / max(|x|, 1e-6)."""
    return x * pdl.rsqrt(pdl.maximum(pdl.square(x).sum(axis=-1, keepdims=True), 1e-12))
