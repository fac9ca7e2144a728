"""Vectors in groups, where nobody says how many there are."""

from __future__ import annotations

import numpy as np

from pdl.dtype import Array


def agglomerated(
    similarity: Array, *, least: float = -1.0, most: float | None = None, count: int | None = None
) -> Array:
    """The groups int64 [N] of similarities float [N, N], symmetric, by average linkage (Sokal and Michener, 1958): of
    all groups the two with the largest mean similarity become one, as long as that is at least a threshold, or there
    are more than `count`. With `most` the threshold is from `least` to `most`, where the number of groups stays the
    same for longest (Fred and Jain, IEEE TPAMI 27(6), 2005). Groups are numbered by their first members."""
    merges = _merges(similarity)
    values = np.array([value for *_, value in merges])  # they do not grow
    if count is None and most is not None:
        edges = np.clip(np.concatenate([[np.inf], values, [-np.inf]]), least, most)
        joined = int(len(values) - np.diff(edges)[::-1].argmin())  # the fewest groups of those that stay as long
    else:
        joined = int((values >= least).sum()) if count is None else max(0, len(similarity) - count)
    group = np.arange(len(similarity))
    for i, j, _ in merges[:joined]:
        group[group == j] = i
    return numbered(group)


def _merges(similarity: Array) -> list[tuple[int, int, float]]:
    """Which groups, told by members, become one, and how similar they are, until there is one."""
    s = np.array(similarity, np.float64)
    np.fill_diagonal(s, -np.inf)
    size, made = np.ones(len(s)), list[tuple[int, int, float]]()
    best = s.argmax(axis=1) if len(s) else np.zeros(0, np.int64)
    value = s[np.arange(len(s)), best]
    for _ in range(len(s) - 1):
        i = int(value.argmax())
        j = int(best[i])
        made.append((i, j, float(value[i])))
        joined = (size[i] * s[i] + size[j] * s[j]) / (size[i] + size[j])
        s[i], s[:, i] = joined, joined
        s[i, i] = s[j] = s[:, j] = value[j] = -np.inf
        size[i] += size[j]
        # the mean is not above the larger of both, so that no other group has a nearer one now
        stale = np.union1d(np.flatnonzero(((best == i) | (best == j)) & (value > -np.inf)), [i])
        best[stale] = s[stale].argmax(axis=1)
        value[stale] = s[stale, best[stale]]
    return made


def numbered(group: Array) -> Array:
    """Groups [N] by any numbers, as 0, 1, ... by their first members."""
    _, first, inverse = np.unique(group, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse]
