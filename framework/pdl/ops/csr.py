"""Sparse matrices by rows (CSR) and what graph nets compute with them: products with dense matrices, dot products at
the nonzeros, softmax over each row.

The pattern is a `CSR`; the values of its nonzeros are a tensor of their own [E] or [E, H], in the order of the rows, so
gradients flow through them. As an adjacency a row is a node that receives and its columns are the nodes that send:
`spmm(a, x)` is what message passing sums up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from pdl import graphs
from pdl.errors import ShapeError
from pdl.ops.reduce import sum as sum_
from pdl.ops.segment import segment_max, segment_mean, segment_min, segment_softmax, segment_sum, segment_take
from pdl.ops.shape import expand_dims
from pdl.tensor import Array, Tensor, as_tensor

Reduce = Literal["sum", "mean", "max", "min"]
_SEGMENTS = {"sum": segment_sum, "mean": segment_mean, "max": segment_max, "min": segment_min}


@dataclass(frozen=True)
class CSR:
    """The pattern of a sparse matrix [rows, columns] with E nonzeros, by rows and by columns.

    indptr     int64 [rows + 1]; the nonzeros of row i are those from indptr[i] up to indptr[i + 1]
    indices    int32 [E], the column of each
    row        int32 [E], the row of each, ascending
    t_indptr   int64 [columns + 1], t_indices int32 [E]: the same of the transposed matrix
    t_edges    int32 [E], the place among the E that each nonzero of the transposed matrix has here

    A tree of arrays (or tensors): it may stand in batches and go through compiled steps. Make one with `from_edges`.
    """

    indptr: Any
    indices: Any
    row: Any
    t_indptr: Any
    t_indices: Any
    t_edges: Any

    @staticmethod
    def from_edges(row: Array, column: Array, shape: tuple[int, int]) -> tuple[CSR, Array]:
        """The pattern with a nonzero for each pair (row[e], column[e]), repeated pairs too, and the order of the given
        pairs in it, int [E]: values v of the pairs become `v[order]`. Within a row the given order is kept."""
        indptr, indices, order = graphs.from_edges(row, column, shape)
        return CSR.from_rows(indptr, indices, shape[1]), order

    @staticmethod
    def from_rows(indptr: Array, indices: Array, columns: int) -> CSR:
        """The pattern whose rows are given."""
        indptr, indices = np.asarray(indptr, np.int64), np.asarray(indices, np.int32)
        if len(indices) >= 2**31:
            raise ShapeError(f"CSR: {len(indices)} nonzeros; one pattern holds less than 2**31, work on parts")
        return CSR(indptr, indices, graphs.rows_of(indptr), *graphs.transpose(indptr, indices, columns))

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns)."""
        return self.indptr.shape[0] - 1, self.t_indptr.shape[0] - 1

    @property
    def nonzeros(self) -> int:
        """E."""
        return int(self.indices.shape[0])


def spmm(a: CSR, x: Any, value: Any = None, *, reduce: Reduce = "sum") -> Tensor:
    """y[i] = reduce over the nonzeros e of row i of value[e] x[indices[e]].

    x [columns, ...] -> [rows, ...]; value [E], or [E, H] for x [columns, H, C], one number for each of H heads; ones
    without it. Rows without nonzeros are 0. Gradients go to x and value.
    """
    message = segment_take(as_tensor(x), as_tensor(a.indices))
    if value is not None:
        value = as_tensor(value)
        for _ in range(message.ndim - value.ndim):
            value = expand_dims(value, axis=-1)
        message = message * value
    return _SEGMENTS[reduce](message, as_tensor(a.row), num_segments=a.shape[0])


def sddmm(a: CSR, q: Any, k: Any) -> Tensor:
    """s[e] = <q[row[e]], k[indices[e]]> over the last axis: q [rows, ..., C], k [columns, ..., C] -> [E, ...]."""
    q, k = segment_take(as_tensor(q), as_tensor(a.row)), segment_take(as_tensor(k), as_tensor(a.indices))
    return sum_(q * k, axis=-1)


def edge_softmax(a: CSR, score: Any) -> Tensor:
    """y[e] = exp(score[e]) / (sum of exp(score) over the nonzeros of e's row), per column: [E, ...] -> [E, ...]."""
    return segment_softmax(as_tensor(score), as_tensor(a.row), num_segments=a.shape[0])


__all__ = ["CSR", "edge_softmax", "sddmm", "spmm"]
