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

from pdl.compressed import from_coo, rows_of, transpose
from pdl.dtype import Array, float32, float64
from pdl.errors import ShapeError, UsageError
from pdl.ops.base import apply
from pdl.ops.cast import as_tensors, astype
from pdl.ops.shape import reshape
from pdl.ops.spmm import SDDMM, EdgeSoftmax, InverseSizes, SpMM, SpMMExtremum, TakeEnds
from pdl.tensor import Tensor, as_tensor, is_grad_enabled

Reduce = Literal["sum", "mean", "max", "min"]


@dataclass(frozen=True)
class CSR:
    """The pattern of a sparse matrix [rows, columns] with E nonzeros, by rows and by columns.

    indptr     int64 [rows + 1]; the nonzeros of row i are those from indptr[i] up to indptr[i + 1]
    indices    int32 [E], the column of each
    row        int32 [E], the row of each, ascending
    t_indptr   int64 [columns + 1], t_indices int32 [E]: the same of the transposed matrix
    t_edges    int32 [E], the place among the E that each nonzero of the transposed matrix has here

    A tree of arrays (or tensors): it may be part of batches and of the inputs of compiled steps. Make one with
    `from_coo`.
    """

    indptr: Any
    indices: Any
    row: Any
    t_indptr: Any
    t_indices: Any
    t_edges: Any

    @staticmethod
    def from_coo(row: Array, column: Array, shape: tuple[int, int]) -> tuple[CSR, Array]:
        """The pattern with a nonzero for each pair (row[e], column[e]), repeated pairs too, and the order of the given
        pairs in it, int [E]: values v of the pairs become `v[order]`. Within a row the given order is kept."""
        indptr, indices, order = from_coo(row, column, shape)
        return CSR.from_rows(indptr, indices, shape[1]), order

    @staticmethod
    def from_rows(indptr: Array, indices: Array, columns: int) -> CSR:
        """The pattern whose rows are given."""
        indptr, indices = np.asarray(indptr, np.int64), np.asarray(indices, np.int32)
        if len(indices) >= 2**31:
            raise ShapeError(f"CSR: {len(indices)} nonzeros; one pattern holds less than 2**31, work on parts")
        return CSR(indptr, indices, rows_of(indptr), *transpose(indptr, indices, columns))

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns)."""
        return self.indptr.shape[0] - 1, self.t_indptr.shape[0] - 1

    @property
    def nonzeros(self) -> int:
        """E."""
        return self.indices.shape[0]  # type: ignore[no-any-return]


def spmm(a: CSR, x: Any, value: Any = None, *, reduce: Reduce = "sum") -> Tensor:
    """y[i] = reduce over the nonzeros e of row i of value[e] x[indices[e]].

    x [columns, ...] -> [rows, ...]; value [E], or [E, H] for x [columns, H, ...], one number for each of H heads; ones
    without it. Rows without nonzeros are 0. Gradients go to x and value; that of max and min to the first of equals.
    Sums run in the order of the nonzeros, so they are the same bits for any number of threads.
    """
    if reduce not in ("sum", "mean", "max", "min"):
        raise UsageError(f"spmm: reduce {reduce!r} is none of sum, mean, max, min")
    x = as_tensor(x)
    if value is not None:
        x, value = as_tensors(x, _narrowed(as_tensor(value)))
    pattern = pattern_of(a, x, value)
    if reduce in ("max", "min"):
        made: Tensor = apply(SpMMExtremum(reduce == "max"), x, value, *pattern)[0]
        return made
    y: Tensor = apply(SpMM(), x, value, *pattern)
    if reduce == "sum":
        return y
    share = apply(InverseSizes(float64 if y.dtype == float64 else float32), pattern[0], pattern[1])
    return y * reshape(astype(share, y.dtype), (y.shape[0],) + (1,) * (y.ndim - 1))


def sddmm(a: CSR, q: Any, k: Any) -> Tensor:
    """s[e] = <q[row[e]], k[indices[e]]> over the last axis: q [rows, ..., C], k [columns, ..., C] -> [E, ...]."""
    q, k = as_tensors(q, k)
    if q.ndim < 2:
        raise ShapeError(f"sddmm: q {q.shape} must have at least two dimensions, [rows, ..., C]")
    made: Tensor = apply(SDDMM(q.ndim - 2), q, k, *pattern_of(a, q, k))
    return made


def at_rows(a: CSR, x: Any) -> Tensor:
    """y[e] = x[row[e]]: what belongs to the rows, for every nonzero, x [rows, ...] -> [E, ...].

    The gradient of a row is a sum over its nonzeros, which `CSR` has side by side: faster than that of `pdl.take`.
    """
    x = as_tensor(x)
    made: Tensor = apply(TakeEnds(), x, *pattern_of(a, x))
    return made


def at_columns(a: CSR, x: Any) -> Tensor:
    """y[e] = x[indices[e]]: what belongs to the columns, for every nonzero, x [columns, ...] -> [E, ...]."""
    x = as_tensor(x)
    made: Tensor = apply(TakeEnds(True), x, *pattern_of(a, x))
    return made


def edge_softmax(a: CSR, score: Any) -> Tensor:
    """y[e] = exp(score[e]) / (sum of exp(score) over the nonzeros of e's row), per column: [E, ...] -> [E, ...].

    The row's maximum is subtracted first, so nothing overflows.
    """
    made: Tensor = apply(EdgeSoftmax(), as_tensor(score), *pattern_of(a)[:3])
    return made


def pattern_of(a: CSR, *operands: Tensor | None) -> tuple[Tensor | None, ...]:
    """The arrays of a pattern as the ops read them; those of the transposed one only where a gradient is wanted."""
    flows = is_grad_enabled() and any(x is not None and x.requires_grad for x in operands)
    transposed = (a.t_indptr, a.t_indices, a.t_edges) if flows else (None, None, None)
    return tuple(None if x is None else as_tensor(x) for x in (a.indptr, a.indices, a.row, *transposed))


def _narrowed(value: Tensor) -> Tensor:
    """value without axes of size 1 at its end."""
    shape = value.shape
    while len(shape) > 1 and type(shape[-1]) is int and shape[-1] == 1:
        shape = shape[:-1]
    return value if shape == value.shape else reshape(value, shape)


__all__ = ["CSR", "at_columns", "at_rows", "edge_softmax", "sddmm", "spmm"]
