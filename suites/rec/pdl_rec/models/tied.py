"""Models with one table of items for inputs and outputs (tied weights)."""

from __future__ import annotations

from typing import Annotated

import pdl
from pdl import nn
from pdl.errors import ConfigError
from pdl.hints import Range
from pdl.tensor import Tensor
from pdl_rec.models.base import SequenceModel

Width = Annotated[int, Range(1)]
Rate = Annotated[float, Range(0, below=1)]
Scale = Annotated[float, Range(above=0)] | None


class TiedModel(SequenceModel):
    """Items [n + 1, C] in a table that serves both ends.

    dropout   share of the values of looked-up items that are dropped in training
    cosine    where given, items and sessions are vectors of length 1, and scores are `cosine` times their cosine
              (16 in Gupta et al., NISER, arXiv 1909.04276): items that are clicked often get no longer vectors,
              and with them higher scores, than those that are new. Without it scores are plain products.
    sparse    whether the table gets gradients of rows: for losses over a sample of items
    """

    def __init__(
        self,
        width: Width,
        *,
        dropout: Rate = 0.0,
        cosine: Scale = None,
        sparse: bool = False,
        num_items: Width | None = None,
    ) -> None:
        if num_items is None:
            raise ConfigError(f"{type(self).__name__} needs num_items, which the task takes from the data")
        self.num_items, self.width, self.cosine = num_items, width, cosine
        self.items = nn.Embedding(num_items + 1, width, padding_idx=0, sparse=sparse)
        self.drop = nn.Dropout(dropout)

    def vectors(self, items: Tensor) -> Tensor:
        """Vectors of items int64 [N, T] -> [N, T, C], 0 where there is none."""
        found = self.items(items)
        return (unit(found) if self.cosine else found) * present(items)

    def look(self, items: Tensor) -> Tensor:
        """`vectors`, some values dropped in training."""
        return self.drop(self.vectors(items))  # type: ignore[no-any-return]

    def finish(self, session: Tensor) -> Tensor:
        """A session's vector [..., C] as it is multiplied with the items' vectors."""
        return unit(session) * self.cosine if self.cosine else session

    def item_table(self) -> tuple[Tensor, Tensor | None]:
        """The table itself, or with `cosine` its rows at length 1."""
        return (unit(self.items.weight) if self.cosine else self.items.weight), None

    def item_rows(self, items: Tensor) -> tuple[Tensor, Tensor | None]:
        """Rows of that table: int64 [J] -> [J, C]."""
        rows = pdl.embedding(self.items.weight, items, sparse=self.items.sparse)
        return (unit(rows) if self.cosine else rows), None


def unit(x: Tensor) -> Tensor:
    """x / |x| along the last axis; 0 stays 0."""
    return x * pdl.rsqrt(pdl.sum(x * x, axis=-1, keepdims=True) + 1e-12)


def present(items: Tensor) -> Tensor:
    """1.0 where there is an item, else 0.0: int64 [N, T] -> float32 [N, T, 1]."""
    return pdl.expand_dims(pdl.astype(pdl.not_equal(items, 0), pdl.float32), axis=2)


def places(items: Tensor) -> Tensor:
    """1, 2, ... along each session: int64 [N, T] -> [N, T]."""
    return pdl.cumsum(items * 0 + 1, axis=1)


def lengths(items: Tensor) -> Tensor:
    """Up to and with the last item, at least 1: int64 [N, T] -> int64 [N]."""
    known = pdl.astype(pdl.not_equal(items, 0), pdl.int64)
    return pdl.maximum(pdl.max(places(items) * known, axis=1), 1)


def last(x: Tensor, items: Tensor) -> Tensor:
    """x [N, T, C] at the last item of each session int64 [N, T] -> [N, C]."""
    chosen = pdl.equal(places(items), pdl.expand_dims(lengths(items), axis=1))
    return pdl.sum(x * pdl.expand_dims(pdl.astype(chosen, x.dtype), axis=2), axis=1)
