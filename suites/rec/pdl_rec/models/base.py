"""What models of sequences have in common: a session becomes a vector, and its products with the items' vectors are
their scores."""

from __future__ import annotations

import pdl
from pdl.nn import Module
from pdl.tensor import Tensor


class SequenceModel(Module):
    """Base of the models that say which item comes next.

    Items have the numbers 1 to `num_items`; 0 is no item: it fills sequences up at their end, its score means nothing,
    and it is never recommended. Tables of items have `num_items + 1` rows.
    """

    num_items: int

    def encode(self, items: Tensor) -> Tensor:
        """The vector of each session: items int64 [N, T], in order of time, zeros behind the last -> [N, C]."""
        raise NotImplementedError(f"{type(self).__name__} must define encode")

    def encode_steps(self, items: Tensor) -> Tensor:
        """The vector of the session as it was after each of its items: int64 [N, T] -> [N, T, C]; what stands behind
        the end means nothing. Only models that read from left to right have it."""
        raise NotImplementedError(f"{type(self).__name__} reads whole sessions only; train it on pairs")

    def advance(self, items: Tensor, reset: Tensor, places: Tensor | None = None) -> Tensor:
        """Read one item of each session, int64 [B], after forgetting the session before where `reset`, bool [B], and
        carry the states on to the next call -> [B, C]. `places` int64 [B] are those that the sessions have among all;
        None: these are all. Only models for session-parallel training have it."""
        raise NotImplementedError(f"{type(self).__name__} carries no state from step to step")

    def item_table(self) -> tuple[Tensor, Tensor | None]:
        """The items' vectors [num_items + 1, C], and a number for each [num_items + 1] to add to its score, if any."""
        raise NotImplementedError(f"{type(self).__name__} must define item_table")

    def item_rows(self, items: Tensor) -> tuple[Tensor, Tensor | None]:
        """The vectors [J, C], and the numbers to add [J] if any, of items int64 [J]. Losses over a sample of items
        ask for no more than they need; tables get sparse gradients."""
        table, bias = self.item_table()
        vectors = pdl.embedding(table, items, sparse=True)
        return vectors, None if bias is None else pdl.take(bias, items)

    def forward(self, items: Tensor) -> Tensor:
        """Scores of all items: int64 [N, T] -> [N, num_items + 1]."""
        table, bias = self.item_table()
        scores = pdl.matmul(self.encode(items), pdl.matrix_transpose(table))
        return scores if bias is None else scores + bias
