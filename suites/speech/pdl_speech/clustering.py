"""Vectors in groups, where nobody says how many there are."""

from __future__ import annotations

import numpy as np

from pdl.dtype import Array


def agglomerated(similarity: Array, *, least: float = -1.0, count: int | None = None) -> Array:
    """The groups int64 [N] of similarities float [N, N], symmetric, by average linkage (Sokal and Michener, 1958): of
    all groups the two with the largest mean similarity become one, as long as that is at least `least`, or there are
    more than `count`. Groups are numbered by their first members."""
    s = np.array(similarity, np.float64)
    np.fill_diagonal(s, -np.inf)
    group, size = np.arange(len(s)), np.ones(len(s))
    best = s.argmax(axis=1) if len(s) > 1 else np.zeros(len(s), np.int64)
    value = s[np.arange(len(s)), best]
    for left in range(len(s), 1, -1):
        i = int(value.argmax())
        j = int(best[i])
        if left <= count if count is not None else value[i] < least:
            break
        joined = (size[i] * s[i] + size[j] * s[j]) / (size[i] + size[j])
        s[i], s[:, i] = joined, joined
        s[i, i] = s[j] = s[:, j] = value[j] = -np.inf
        group[group == j], size[i] = i, size[i] + size[j]
        # the mean is not above the larger of both, so that no other group has a nearer one now
        stale = np.flatnonzero(((best == i) | (best == j)) & (value > -np.inf))
        stale = np.union1d(stale, [i])
        best[stale] = s[stale].argmax(axis=1)
        value[stale] = s[stale, best[stale]]
    return numbered(group)


def numbered(group: Array) -> Array:
    """Groups [N] by any numbers, as 0, 1, ... by their first members."""
    _, first, inverse = np.unique(group, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse]
