"""Lookup tables: rows by number, and bags of rows."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np

from pdl.dtype import Array, int64
from pdl.errors import ShapeError, UsageError
from pdl.kernels import rows as kernels
from pdl.kernels.copies import contiguous
from pdl.ops.attributes import Length
from pdl.ops.base import Arrays, Op, Spec, apply, not_differentiable
from pdl.ops.checks import check_floating
from pdl.ops.create import arange
from pdl.ops.elementwise import where
from pdl.ops.logic import equal
from pdl.ops.segment import as_index, check_ids, segment_max, segment_mean, segment_sum
from pdl.ops.shape import reshape
from pdl.ops.sparse import EmbeddingGradRows, SparseGrad, embedding_grad_rows
from pdl.tensor import Tensor


class Embedding(Op):
    """y[...] = table[index[...]]; rows equal to `padding_idx` get no gradient.

    With `sparse` the gradient of a table that is a leaf is a `SparseGrad`.
    """

    padding_idx: Length | None = None
    sparse: bool = False
    native_bf16 = native = True

    def infer(self, table: Spec, index: Spec) -> Spec:
        check_floating("embedding", table=table)
        check_ids("embedding", "index", index)
        if len(table.shape) != 2:
            raise ShapeError(
                f"embedding: table {table.shape} has {len(table.shape)} dimensions; expected [rows, columns]"
            )
        if self.padding_idx is not None and not 0 <= self.padding_idx < table.shape[0]:
            raise ShapeError(f"embedding: padding_idx {self.padding_idx} is outside the {table.shape[0]} rows of table")
        return Spec((*index.shape, table.shape[1]), table.dtype)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        table = contiguous(ins[0])
        kernels.take(outs[0].reshape(ins[1].size, table.shape[1]), table, as_index(ins[1]), name="embedding")

    def vjp(self, g: Tensor, y: Tensor, table: Tensor, index: Tensor) -> Any:
        return lambda: self._gradient(g, table, index), None

    def _gradient(self, g: Tensor, table: Tensor, index: Tensor) -> Tensor:
        if self.sparse and table.is_leaf:
            return SparseGrad(table.shape, *embedding_grad_rows(index, g, padding_idx=self.padding_idx))
        kept = index if self.padding_idx is None else _without(index, self.padding_idx)
        flat = reshape(g, (index.size, table.shape[1]))
        return segment_sum(flat, reshape(kept, (index.size,)), num_segments=table.shape[0])


class Source:
    """Whoever has the rows of a table."""

    def read(self, index: Array, out: Array, padding: int | None) -> None:
        """out[i] = row index[i], int64 [n] -> [n, C]; 0 for negative numbers and `padding`."""
        raise NotImplementedError(f"{type(self).__name__} must define read")

    def combine(self, rows: Array, values: Array, index: Array, g: Array, padding: int | None) -> None:
        """`rows` and `values` of `EmbeddingGradRows`, from index and g [n, C]; rows may be in another order."""
        kernels.combine(rows, values, index, g, left_out=-1 if padding is None else padding)


class Served:
    """What ops over the rows of a source have in common: it is kept beside the attributes. A program that is read from
    a file has none."""

    source: ClassVar[Source | None] = None

    def over(self, source: Source) -> Self:
        """This op, which is new, with rows of a source."""
        self.__dict__["source"] = source
        return self

    def __eq__(self, other: object) -> bool:
        return super().__eq__(other) and self.source is getattr(other, "source", None)

    __hash__ = Op.__hash__


class ServedEmbedding(Served, Embedding):
    """`Embedding` whose rows come from another process: the array of the table is not read. Without a source it is an
    `Embedding`."""

    native_bf16 = native = False
    recorded = True

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        if self.source is None:
            return super().cpu(outs, ins)
        index = as_index(ins[1])
        self.source.read(index, outs[0].reshape(index.size, -1), self.padding_idx)

    def _gradient(self, g: Tensor, table: Tensor, index: Tensor) -> Tensor:
        if self.source is None or not table.is_leaf:
            return super()._gradient(g, table, index)
        return SparseGrad(table.shape, *apply(ServedGradRows(self.padding_idx).over(self.source), index, g))


class ServedGradRows(Served, EmbeddingGradRows):
    """`EmbeddingGradRows`, in the order in which the source of the table takes gradients."""

    native = False

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        if self.source is None:
            return super().cpu(outs, ins)
        g = contiguous(ins[1]).reshape(outs[1].shape)
        self.source.combine(outs[0], outs[1], as_index(ins[0]), g, self.padding_idx)


class BagNumbers(Op):
    """The bag of each of `length` entries, int64, from the bags' first positions offsets [B]."""

    length: Length
    vjp = not_differentiable("bag numbers are integers")

    def infer(self, offsets: Spec) -> Spec:
        check_ids("embedding_bag", "offsets", offsets)
        if len(offsets.shape) != 1:
            raise ShapeError(f"embedding_bag: offsets {offsets.shape} must have one dimension")
        return Spec((self.length,), int64)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        ends = np.append(as_index(ins[0]), self.length)
        if ends[0] != 0 or (ends[1:] < ends[:-1]).any():  # compared: a difference may overflow
            raise ShapeError(
                f"embedding_bag: offsets must start at 0 and not fall or exceed the {self.length} entries of index"
            )
        outs[0][...] = np.repeat(np.arange(len(ends) - 1), np.diff(ends))


def _without(index: Tensor, padding_idx: int) -> Tensor:
    """`index` with -1 in place of `padding_idx`: the number that belongs to no row."""
    return where(equal(index, padding_idx), -1, index)


def embedding(table: Tensor, index: Tensor, *, padding_idx: int | None = None, sparse: bool = False) -> Tensor:
    """Rows of a table by number.    table [R, C], index int [...] in [0, R) -> [..., C]

    The gradient adds each row's shares in the order of `index` (the same bits for any number of threads); the row
    `padding_idx` receives none. With `sparse` it holds only the rows in use (`SparseGrad`), if table is a leaf: a large
    table then costs only its rows in use, in memory and in the optimiser's step. Raises ShapeError for a number outside
    the table.
    """
    served = getattr(table, "served", None)
    op = Embedding(padding_idx, sparse) if served is None else ServedEmbedding(padding_idx, True).over(served)
    return apply(op, table, index)


def embedding_bag(
    table: Tensor,
    index: Tensor,
    offsets: Tensor | None = None,
    *,
    mode: str = "mean",
    padding_idx: int | None = None,
    weights: Tensor | None = None,
    sparse: bool = False,
) -> Tensor:
    """Reduce bags of table rows.    table [R, C], index [B, L], or [n] with offsets [B] -> [B, C]

    Bag b holds index[b], or index[offsets[b]:offsets[b + 1]]. `mode` is sum, mean or max. Entries equal to
    `padding_idx` are left out, an empty bag is 0. `weights`, like index, multiply the rows (mode sum
    only). `sparse` as in `embedding`.
    """
    bags = {"sum": segment_sum, "mean": segment_mean, "max": segment_max}
    if mode not in bags:
        raise UsageError(f"embedding_bag: mode {mode!r} must be one of {', '.join(bags)}")
    if weights is not None and mode != "sum":
        raise UsageError(f"embedding_bag: weights go with mode 'sum', not {mode!r}")
    if (offsets is None) != (index.ndim == 2) or index.ndim > 2:
        raise ShapeError(f"embedding_bag: index {index.shape} must be [bags, entries], or [entries] with offsets")
    flat = reshape(index, (index.size,))
    if offsets is None:
        offsets = arange(index.shape[0], dtype=int64) * index.shape[1]
    numbers = apply(BagNumbers(flat.size), offsets)
    if padding_idx is not None:
        numbers = where(equal(flat, padding_idx), -1, numbers)
    picked = embedding(table, flat, padding_idx=padding_idx, sparse=sparse)
    if weights is not None:
        picked = picked * reshape(weights, (flat.size, 1))
    return bags[mode](picked, numbers, num_segments=offsets.shape[0])


__all__ = ["embedding", "embedding_bag"]
