"""Tables of learned rows."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pdl import ops
from pdl.errors import UsageError
from pdl.hints import Range
from pdl.nn import init
from pdl.nn.module import Module, Parameter, Table
from pdl.tensor import Tensor


class Embedding(Module):
    """Rows by number: index int [...] -> [..., embedding_dim]. The row `padding_idx` is 0 and stays so.

    Initial values N(0, 1), as PyTorch's. With `sparse` the gradient holds the rows in use alone, and optimisers change
    these alone (see `pdl.optim.Optimizer`): for large tables.
    """

    shown: ClassVar[tuple[str, ...]] = ("num_embeddings", "embedding_dim", "padding_idx", "sparse")

    def __init__(
        self,
        num_embeddings: Annotated[int, Range(1)],
        embedding_dim: Annotated[int, Range(1)],
        *,
        padding_idx: int | None = None,
        sparse: bool = False,
    ) -> None:
        if padding_idx is not None and not 0 <= padding_idx < num_embeddings:
            raise UsageError(
                f"{type(self).__name__}: padding_idx {padding_idx} is not a row of a table with {num_embeddings}"
            )
        self.num_embeddings, self.embedding_dim, self.padding_idx = num_embeddings, embedding_dim, padding_idx
        self.sparse = sparse
        zeros = ops.zeros((num_embeddings, embedding_dim))
        self.weight = Table(zeros, padding=padding_idx) if sparse else Parameter(zeros)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new initial values."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            self.weight.data[self.padding_idx] = 0

    def forward(self, index: Tensor) -> Tensor:
        """index [...] -> [..., embedding_dim]."""
        return ops.embedding(self.weight, index, padding_idx=self.padding_idx, sparse=self.sparse)


class EmbeddingBag(Embedding):
    """Sum, mean or maximum of the rows of each bag: index [bags, entries], or [entries] with offsets [bags] -> [bags,
    embedding_dim].

    mode  sum, mean or max
    """

    shown: ClassVar[tuple[str, ...]] = ("num_embeddings", "embedding_dim", "mode", "padding_idx", "sparse")

    def __init__(
        self,
        num_embeddings: Annotated[int, Range(1)],
        embedding_dim: Annotated[int, Range(1)],
        *,
        mode: Literal["sum", "mean", "max"] = "mean",
        padding_idx: int | None = None,
        sparse: bool = False,
    ) -> None:
        super().__init__(num_embeddings, embedding_dim, padding_idx=padding_idx, sparse=sparse)
        self.mode = mode

    def forward(self, index: Tensor, offsets: Tensor | None = None, weights: Tensor | None = None) -> Tensor:
        """Bag b holds index[b], or index[offsets[b]:offsets[b + 1]]; `weights` multiply the rows (mode sum)."""
        return ops.embedding_bag(
            self.weight,
            index,
            offsets,
            mode=self.mode,
            padding_idx=self.padding_idx,
            weights=weights,
            sparse=self.sparse,
        )
