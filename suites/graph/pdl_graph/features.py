"""Features of nodes that are mostly zeros: made, normalised, cut, compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from pdl.data.faults import fault
from pdl.ops import CSR
from pdl_graph.batch import SparseFeatures
from pdl_graph.ranges import offsets, ranges

Array = np.ndarray


def sparse_features(x: Array) -> SparseFeatures:
    """Dense features [N, F] by their nonzeros."""
    rows, columns = np.nonzero(x)
    indptr = np.searchsorted(rows, np.arange(len(x) + 1))
    return SparseFeatures(
        CSR.from_rows(indptr, columns, x.shape[1]), np.ascontiguousarray(x[rows, columns], np.float32)
    )


def identity_features(n: int) -> SparseFeatures:
    """The rows of the identity matrix, for nodes that have no features: a weight matrix then has a row for each."""
    return SparseFeatures(CSR.from_rows(np.arange(n + 1), np.arange(n), n), np.ones(n, np.float32))


def features_from_csr(
    indptr: Any, indices: Any, value: Any, width: int, *, path: str | Path | None = None
) -> SparseFeatures:
    """Features [N, width] from their nonzeros by rows: `indptr` [N + 1], `indices` and `value` [E].

    DataFault, naming `path`, where they do not fit together.
    """
    indptr, indices, value = np.asarray(indptr), np.asarray(indices), np.asarray(value)
    advice = "write the matrix again, by rows (scipy.sparse.csr_matrix)"
    if indptr.ndim != 1 or not len(indptr) or indptr[0] != 0 or (np.diff(indptr) < 0).any():
        raise fault(path, "the rows of the features do not begin one behind another (indptr)", advice)
    if not indptr[-1] == len(indices) == len(value):
        what = f"features with {indptr[-1]} entries by rows, {len(indices)} columns and {len(value)} values"
        raise fault(path, what, advice)
    if len(indices) and (indices.min() < 0 or indices.max() >= width):
        raise fault(path, f"feature {indices.max()} of {width}: a column outside of the matrix", advice)
    return SparseFeatures(CSR.from_rows(indptr, indices, width), np.ascontiguousarray(value, np.float32))


def normalize_rows(x: Any) -> Any:
    """Each row divided by its sum; rows that sum up to 0 stay as they are. Dense or sparse."""
    if isinstance(x, SparseFeatures):
        total = np.bincount(x.pattern.row, x.value, minlength=x.shape[0])
        scale = 1 / np.where(total == 0, 1, total)
        return SparseFeatures(x.pattern, (x.value * scale[x.pattern.row]).astype(np.float32))
    total = np.asarray(x).sum(1, keepdims=True, dtype=np.float64)
    return (x / np.where(total == 0, 1, total)).astype(np.float32)


def take_rows(x: Any, rows: Array) -> Any:
    """Features of some nodes, in the order of `rows`; None stays None."""
    if not isinstance(x, SparseFeatures):
        return None if x is None else x[rows]
    counts = np.diff(x.pattern.indptr)[rows]
    at = ranges(x.pattern.indptr[:-1][rows], counts)
    return SparseFeatures(CSR.from_rows(offsets(counts), x.pattern.indices[at], x.shape[1]), x.value[at])


def stack_rows(parts: list[Any]) -> Any:
    """Features of several graphs, one under another. DataFault where some lack them or their widths differ."""
    if all(part is None for part in parts):
        return None
    widths = {None if part is None else tuple(part.shape[1:]) for part in parts}
    if len(widths) > 1:
        found = " and ".join("none" if w is None else str(w[0] if len(w) == 1 else w) for w in sorted(widths, key=str))
        raise fault(None, f"graphs of one batch have {found} features", "give all graphs the same features")
    if not any(isinstance(part, SparseFeatures) for part in parts):
        return np.concatenate(parts)
    rows = [part if isinstance(part, SparseFeatures) else sparse_features(part) for part in parts]
    counts = np.concatenate([np.diff(part.pattern.indptr) for part in rows])
    indices = np.concatenate([part.pattern.indices for part in rows])
    pattern = CSR.from_rows(np.concatenate([[0], np.cumsum(counts)]), indices, rows[0].shape[1])
    return SparseFeatures(pattern, np.concatenate([part.value for part in rows]))


def dense(x: Any) -> Array | None:
    """Features as an array [N, F]; None stays None."""
    if not isinstance(x, SparseFeatures):
        return x
    out = np.zeros(x.shape, np.float32)
    np.add.at(out, (x.pattern.row, x.pattern.indices), x.value)
    return out
