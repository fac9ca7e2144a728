"""Gradients that are zero but in a few rows: those of lookup tables."""

from __future__ import annotations

import math
from typing import Any, NoReturn

import numpy as np

from pdl.dtype import DType, int64
from pdl.errors import ShapeError, UsageError
from pdl.kernels import rows as kernels
from pdl.kernels.copies import contiguous, copy
from pdl.ops.attributes import Int64
from pdl.ops.base import Arrays, Op, Spec, apply, not_differentiable
from pdl.ops.checks import check_floating
from pdl.ops.segment import as_index, as_rows, check_ids, segment_sum, segment_take
from pdl.ops.shape import concat, reshape
from pdl.tensor import Tensor, TensorLike


class EmbeddingGradRows(Op):
    """(rows int64 [n], values [n, C]) from index int [...] with n elements and g [..., C].

    rows: the numbers in index, each once and in order, then -1; values: the sums of their g, in the order of index,
    zeros behind them. Negative numbers and `padding_idx` name no row.
    """

    padding_idx: Int64 | None = None
    native = True

    def infer(self, index: Spec, g: Spec) -> tuple[Spec, Spec]:
        check_ids("embedding", "index", index)
        check_floating("embedding", g=g)
        if not g.shape or g.shape[:-1] != index.shape:
            raise ShapeError(f"embedding: a gradient {g.shape} does not fit index {index.shape}")
        n = math.prod(index.shape)
        return Spec((n,), int64), Spec((n, g.shape[-1]), g.dtype)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        left_out = -1 if self.padding_idx is None else self.padding_idx
        g = contiguous(ins[1]).reshape(outs[1].shape)
        kernels.combine(outs[0], outs[1], as_index(ins[0]), g, left_out=left_out)

    def vjp(self, g: Any, y: Any, index: Tensor, given: Tensor) -> Any:
        if g[1] is None:
            return None, None
        return None, lambda: reshape(segment_take(g[1], apply(Places(self.padding_idx), index, y[0])), given.shape)


class Places(Op):
    """Where each number of index lies in `rows`, int64 [n]; -1 for negative numbers and `padding_idx`."""

    padding_idx: Int64 | None = None
    vjp = not_differentiable("places are integers")

    def infer(self, index: Spec, rows: Spec) -> Spec:
        check_ids("embedding", "index", index)
        if rows != Spec((math.prod(index.shape),), int64):
            raise ShapeError(f"embedding: rows {rows.shape} {rows.dtype.name} do not fit index {index.shape}")
        return rows

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        index, rows = as_index(ins[0]), ins[1][: np.count_nonzero(ins[1] >= 0)]
        order = np.argsort(rows, kind="stable")
        found = order[np.searchsorted(rows, index, sorter=order) % max(len(rows), 1)] if len(rows) else 0
        outs[0][...] = np.where((index < 0) | (index == self.padding_idx), -1, found)


class AddRows(Op):
    """y = x [R, C] with values [n, C] added in the rows [n], in their order; negative rows are left out."""

    inplace = native = True

    def infer(self, x: Spec, rows: Spec, values: Spec) -> Spec:
        check_ids("add_rows", "rows", rows)
        if len(x.shape) != 2 or values != Spec((*rows.shape, x.shape[1]), x.dtype):
            raise ShapeError(
                f"add_rows: values {values.shape} {values.dtype.name} do not fit rows {rows.shape} of x {x.shape} "
                f"{x.dtype.name}"
            )
        return x

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        x, rows, values = ins
        if not np.may_share_memory(outs[0], x):  # else x is in its place
            copy(outs[0], x)
        kernels.add(outs[0], as_index(rows), as_rows(values), drop=True, name="add_rows")

    def vjp(self, g: Tensor, y: Tensor, x: Tensor, rows: Tensor, values: Tensor) -> Any:
        return g, None, lambda: segment_take(g, rows)


class SparseGrad(Tensor):
    """A gradient [R, C] that is zero but in some rows.

    rows     int64 [n]: each row once, in order (of rows that others have, in any), then -1 where there are fewer than n
    values   [n, C]: what stands in them, zeros behind them

    It can be added to another one (again sparse) or to a dense gradient (then dense), and scaled by a number; the
    optimisers take it as it is. `to_dense()` gives the whole; there is no `data`.
    """

    __slots__ = ("_size", "rows", "values")

    def __init__(self, shape: tuple[int, ...], rows: Tensor, values: Tensor) -> None:
        self._size, self.rows, self.values = (int(shape[0]), int(shape[1])), rows, values
        self._node, self._index, self._hooks, self.grad = None, 0, None, None
        self._requires_grad = values.requires_grad

    def _no_data(self) -> NoReturn:
        raise UsageError(
            f"this gradient {self.shape} is sparse and has no array; take .rows and .values, or .to_dense()"
        )

    _data: Any = property(_no_data)

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the table: [R, C]."""
        return self._size

    @property
    def dtype(self) -> DType:
        """The element type of the values."""
        return self.values.dtype

    @property
    def ndim(self) -> int:
        """2."""
        return 2

    @property
    def size(self) -> int:
        """Number of elements of the table."""
        return self._size[0] * self._size[1]

    def to_dense(self) -> Tensor:
        """The whole gradient [R, C]."""
        return segment_sum(self.values, self.rows, num_segments=self._size[0])

    def detach(self) -> SparseGrad:
        """The same values, outside the graph."""
        return SparseGrad(self._size, self.rows, self.values.detach())

    def __add__(self, other: TensorLike) -> Tensor:
        if not isinstance(other, Tensor) or other.shape != self.shape:
            return NotImplemented
        if not isinstance(other, SparseGrad):
            added: Tensor = apply(AddRows(), other, self.rows, self.values)
            return added
        index, values = concat([self.rows, other.rows]), concat([self.values, other.values])
        return SparseGrad(self._size, *apply(EmbeddingGradRows(), index, values))

    __radd__ = __add__

    def __mul__(self, other: TensorLike) -> Tensor:
        if not isinstance(other, int | float):
            return NotImplemented
        return SparseGrad(self._size, self.rows, self.values * other)

    __rmul__ = __mul__

    def __repr__(self) -> str:
        return f"SparseGrad({self._size[0]} x {self._size[1]}, {self.rows.shape[0]} rows, dtype={self.dtype.name})"


def embedding_grad_rows(index: Tensor, g: Tensor, *, padding_idx: int | None = None) -> tuple[Tensor, Tensor]:
    """The gradient of a table by its rows: rows int64 [n], each once and in order, then -1; values [n, C], the sums of
    g [..., C] over the places of index int [...] that name the row."""
    found: tuple[Tensor, Tensor] = apply(EmbeddingGradRows(padding_idx), index, g)
    return found


__all__ = ["SparseGrad", "embedding_grad_rows"]
