"""Runs of consecutive integers, as rows of sparse matrices are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pdl.dtype import Array


def ranges(starts: Array, counts: Array) -> Array:
    """starts[0], starts[0] + 1, ..., counts[0] of them, then those of the next: int64."""
    ends = np.cumsum(counts)
    at: Array = np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - (ends - counts), counts)
    return at


def offsets(counts: Array | Sequence[int]) -> Array:
    """Where each of some runs of these lengths begins, and where the last one ends: int64 [n + 1]."""
    found = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=found[1:])
    return found
