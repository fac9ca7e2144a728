"""Sequence semantic retrieval, as Baidu calls it: one tower reads the session, another the item; both end in one
space. After Song, Elkahky & He, Multi-rate deep learning for temporal recommendation, SIGIR 2016, and Huang
et al., Learning deep structured semantic models for web search using clickthrough data, CIKM 2013.

Items that training never saw get vectors by what is known of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import numpy as np

import pdl
from pdl import nn
from pdl.dtype import Array
from pdl.errors import ConfigError, UsageError
from pdl.hints import Range
from pdl.nn import init
from pdl.tensor import Tensor
from pdl_rec.models.base import SequenceModel
from pdl_rec.models.tied import Rate, Scale, Width, last, lengths, unit

Fields = Mapping[str, Sequence[Annotated[int, Range(0)]]] | None


class SSR(SequenceModel):
    """Scores are `cosine` times the cosine of session and item (without `cosine`: their product).

        v_i = W_2 tanh(W_1 [id_i, field_i1, ...] + b_1) + b_2        the item tower
        s   = W_3 GRU(v of the session's items) + b_3                 the session tower

    fields   what is known of items: {name: [names, places]} for one whose values are up to `places` numbers from 1 to
             `names` (their vectors are averaged), {name: [0, places]} for one of `places` numbers that mean
             themselves. `describe` gives the values; the task does both
    ids      whether every item has a vector of its own, too; without fields it must
    drop_id  share of items whose own vector is dropped in training, so that the tower learns to do without it (Volkovs,
             Yu & Poutanen, DropoutNet, NeurIPS 2017)
    """

    def __init__(
        self,
        width: Width = 64,
        *,
        hidden: Width = 64,
        fields: Fields = None,
        ids: bool = True,
        drop_id: Rate = 0.0,
        dropout: Rate = 0.0,
        cosine: Scale = 16.0,
        num_items: Width | None = None,
    ) -> None:
        if num_items is None:
            raise ConfigError("SSR needs num_items, which the task takes from the data")
        if not (fields or ids):
            raise ConfigError("SSR: without fields and with ids=false there is nothing to know items by")
        self.num_items, self.cosine = num_items, cosine
        self.tower = ItemTower(num_items if ids else None, fields or {}, hidden, width, drop_id)
        self.about = Columns(num_items + 1, fields or {})
        self.drop = nn.Dropout(dropout)
        self.gru, self.project = nn.GRU(width, hidden), nn.Linear(hidden, width)

    def describe(self, fields: Mapping[str, Array]) -> None:
        """Features of the items: {name: [num_items + 1, places]}, row i that of item i, row 0 zeros."""
        self.about.fill(fields)

    def encode(self, items: Tensor) -> Tensor:
        """int64 [N, T] -> [N, width]."""
        return self._finish(last(self._read(items), items))

    def encode_steps(self, items: Tensor) -> Tensor:
        """int64 [N, T] -> [N, T, width]."""
        return self._finish(self._read(items))

    def item_table(self) -> tuple[Tensor, Tensor | None]:
        """The item tower over all items: [num_items + 1, width]."""
        everything = pdl.arange(self.num_items + 1)
        return self._scored(self.tower(everything, self.about.all())), None

    def item_rows(self, items: Tensor) -> tuple[Tensor, Tensor | None]:
        """The item tower over these items: int64 [J] -> [J, width]."""
        return self._scored(self.tower(items, self.about.of(items))), None

    def vectors(self, fields: Mapping[str, Array]) -> Tensor:
        """Vectors of J items that training did not have, by their fields {name: [J, places]}: [J, width], to be
        multiplied with sessions as rows of `item_table` are."""
        columns = {name: pdl.tensor(np.asarray(fields[name], kept.dtype)) for name, kept in self.about.all().items()}
        return self._scored(self.tower(None, columns))

    def _read(self, items: Tensor) -> Tensor:
        n, steps = items.shape
        flat = pdl.reshape(items, (n * steps,))
        found = self._scored(self.tower(flat, self.about.of(flat)))
        known = pdl.expand_dims(pdl.astype(pdl.not_equal(flat, 0), found.dtype), axis=1)
        x = pdl.reshape(self.drop(found * known), (n, steps, found.shape[1]))
        return self.gru(x, lengths=lengths(items))[0]  # type: ignore[no-any-return]

    def _finish(self, state: Tensor) -> Tensor:
        made: Tensor = self.project(state)
        return unit(made) * self.cosine if self.cosine else made

    def _scored(self, vectors: Tensor) -> Tensor:
        return unit(vectors) if self.cosine else vectors


class Columns(nn.Module):
    """Features of each item, as buffers stored with the weights: [rows, places] for each field."""

    def __init__(self, rows: int, fields: Mapping[str, Sequence[int]]) -> None:
        self._kinds = {name: tuple(kind) for name, kind in fields.items()}
        for name, (names, places) in self._kinds.items():
            dtype = pdl.int64 if names else pdl.float32
            self.register_buffer(f"of_{name}", pdl.zeros((rows, places), dtype=dtype))

    def fill(self, fields: Mapping[str, Array]) -> None:
        """Put values in; UsageError where their shape or range is another."""
        for name, kept in self.all().items():
            if name not in fields:
                raise UsageError(f"SSR was built with the field {name!r}; there are {', '.join(fields) or 'none'}")
            given, names = np.asarray(fields[name]), self._kinds[name][0]
            if given.shape != kept.shape:
                raise UsageError(f"field {name!r} has values of shape {given.shape}, the model has {kept.shape}")
            if names and not 0 <= given.min() <= given.max() <= names:
                raise UsageError(f"field {name!r} has numbers {given.min()}..{given.max()}, its names 1..{names}")
            kept.data[...] = given

    def all(self) -> dict[str, Tensor]:
        """[rows, places] of every field."""
        return {name: getattr(self, f"of_{name}") for name in self._kinds}

    def of(self, items: Tensor) -> dict[str, Tensor]:
        """The rows of these items: int64 [J] -> {name: [J, places]}."""
        return {name: pdl.take(column, items, axis=0) for name, column in self.all().items()}


class ItemTower(nn.Module):
    """Vectors of items, from their own and from those of their fields side by side, through two linear layers."""

    def __init__(
        self, num_items: int | None, fields: Mapping[str, Sequence[int]], hidden: int, width: int, drop_id: float
    ) -> None:
        self.hidden, self.drop_id = hidden, drop_id
        self.own = None if num_items is None else _table(num_items, hidden)
        self._kinds = {name: tuple(kind) for name, kind in fields.items()}
        inputs = 0 if self.own is None else hidden
        for name, (names, places) in self._kinds.items():
            if names:
                setattr(self, f"names_{name}", _table(names, hidden))
            inputs += hidden if names else places
        self.first, self.second = nn.Linear(inputs, hidden), nn.Linear(hidden, width)

    def forward(self, items: Tensor | None, columns: Mapping[str, Tensor]) -> Tensor:
        """items int64 [J], or None: unknown ones; columns {name: [J, places]} -> [J, width]."""
        parts = [self._field(name, column) for name, column in columns.items()]
        if self.own is not None:
            count = len(parts[0]) if items is None else items.shape[0]
            parts.append(pdl.zeros((count, self.hidden)) if items is None else self._own(items))
        return self.second(pdl.tanh(self.first(pdl.concat(parts, axis=1))))  # type: ignore[no-any-return]

    def _own(self, items: Tensor) -> Tensor:
        assert self.own is not None
        found: Tensor = self.own(items)
        if not (self.training and self.drop_id):
            return found
        return found * pdl.expand_dims(pdl.dropout_mask(items.shape, rate=self.drop_id) * (1 - self.drop_id), axis=1)

    def _field(self, name: str, column: Tensor) -> Tensor:
        """[J, places] -> [J, hidden], or [J, places] for numbers."""
        if not self._kinds[name][0]:
            return column
        found = pdl.sum(getattr(self, f"names_{name}")(column), axis=1)
        counts = pdl.sum(pdl.astype(pdl.not_equal(column, 0), found.dtype), axis=1, keepdims=True)
        return found / pdl.maximum(counts, 1.0)


def _table(names: int, width: int) -> nn.Embedding:
    table = nn.Embedding(names + 1, width, padding_idx=0)
    init.normal_(table.weight, std=0.1)
    table.weight.data[0] = 0
    return table


TASK = "next item"
VARIANTS = {"ssr": {"_target_": "pdl_rec.SSR"}}
