"""Compressed sparse rows: the pattern of a sparse matrix from pairs of numbers, and transposed. NumPy in, NumPy out.

The entries of row i are indices[indptr[i]:indptr[i + 1]], with indptr int64 [rows + 1] and indices int32 [E];
`pdl.ops.CSR` is such a pattern that tensors are multiplied by.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pdl.dtype import Array
from pdl.errors import ShapeError, UsageError
from pdl.kernels import graph as kernels


def integers(ids: Array) -> Array:
    """Ids as int32 where they are, else as int64."""
    ids = np.asarray(ids)
    if ids.dtype.kind not in "iu":
        raise UsageError(f"ids are whole numbers, not {ids.dtype}")
    return np.ascontiguousarray(ids, np.int32 if ids.dtype == np.int32 else np.int64)


def int32s(ids: Array) -> Array:
    """Ids as int32; UsageError for those that do not fit."""
    ids = np.asarray(ids)
    if ids.size and ids.dtype.kind not in "iu":
        raise UsageError(f"ids are whole numbers, not {ids.dtype}")
    if ids.size and not -(2**31) <= int(ids.min()) <= int(ids.max()) < 2**31:
        raise UsageError(f"ids are below 2**31; there are {ids.min()} to {ids.max()}")
    return np.ascontiguousarray(ids, np.int32)


def group(ids: Array, n: int) -> tuple[Array, Array]:
    """(indptr int64 [n + 1], order [E]): order[indptr[v]:indptr[v + 1]] are the places of v in `ids`, as they come.

    ids int [E] in [0, n); the order is int32 where that suffices, else int64. Time is linear: a parallel counting sort.
    """
    return _group(integers(ids), n)


def _group(ids: Array, n: int, before: Array | None = None) -> tuple[Array, Array]:
    """`group`, where places with the same id keep the order `before`, a permutation: the kernel trusts it."""
    indptr, order = np.empty(n + 1, np.int64), np.empty(len(ids), _place(len(ids)))
    bad = kernels.group(order, indptr, ids, before=before)
    if bad >= 0:
        raise UsageError(f"id {ids[bad]} at place {bad} is outside [0, {n})")
    return indptr, order


def from_coo(
    row: Array, column: Array, shape: tuple[int, int], *, ascending: bool = False
) -> tuple[Array, Array, Array]:
    """(indptr, indices, order) of the rows with an entry for each pair (row[e], column[e]), repeated pairs too.

    order [E]   the place of each entry among the pairs: values v of the pairs become v[order]
    ascending   entries of a row by column; otherwise, and among equal pairs, in the order given
    """
    row, column = integers(row), integers(column)
    if row.shape != column.shape or row.ndim != 1:
        raise ShapeError(f"pairs need two columns of one length, got {row.shape} and {column.shape}")
    indptr, order = _group(row, shape[0], _group(column, shape[1])[1] if ascending else None)
    indices = column[order].astype(np.int32, copy=False)
    if not ascending and len(column) and not 0 <= int(column.min()) <= int(column.max()) < shape[1]:
        bad = int(((column < 0) | (column >= shape[1])).argmax())
        raise UsageError(f"id {column[bad]} at place {bad} is outside [0, {shape[1]})")
    return indptr, indices, order


def rows_of(indptr: Array) -> Array:
    """The row that each entry is in, int32 [E]."""
    indptr = np.ascontiguousarray(indptr, np.int64)
    row = np.empty(int(indptr[-1]), np.int32)
    kernels.expand(row, indptr)
    return row


def transpose(indptr: Array, indices: Array, columns: int) -> tuple[Array, Array, Array]:
    """(t_indptr int64 [columns + 1], t_indices int32 [E], t_edges [E]): the same entries by column, ascending by row,
    and the place that each has in `indices`."""
    indices = int32s(indices)
    t_indptr, t_edges = np.empty(columns + 1, np.int64), np.empty(len(indices), _place(len(indices)))
    t_indices = np.empty(len(indices), np.int32)
    bad = kernels.group(t_edges, t_indptr, indices, carried=t_indices, carry=rows_of(indptr))
    if bad >= 0:
        raise UsageError(f"id {indices[bad]} at place {bad} is outside [0, {columns})")
    return t_indptr, t_indices, t_edges


def _place(count: int) -> Any:
    return np.int32 if count < 2**31 else np.int64
