"""What the baselines have in common: `fit` on sessions, `scores` of all items for the beginnings of others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from pdl.errors import UsageError
from pdl.ranking import Lists
from pdl_rec.data.sessions import Sessions

Array = np.ndarray[Any, Any]

_PAIRS = 1 << 22  # that are in memory before they are summed


class Baseline:
    """A simple method, fitted in seconds, that a model has to beat. Items have the numbers 1 to `num_items`."""

    num_items: int

    def fit(self, sessions: Sessions, num_items: int) -> Baseline:
        """Learn from sessions; returns itself."""
        raise NotImplementedError(f"{type(self).__name__} must define fit")

    def scores(self, items: Array) -> Array:
        """Of every item: sessions int64 [N, T], in order, zeros behind the end -> float32 [N, num_items + 1].

        0 where the method has nothing to say of an item, more where it has.
        """
        raise NotImplementedError(f"{type(self).__name__} must define scores")


def known(sessions: Sessions, num_items: int) -> tuple[Array, Array]:
    """(session, item) of every event with an item, int64 [events] each. UsageError for items beyond `num_items`."""
    if len(sessions.items) and sessions.items.max() > num_items:
        raise UsageError(f"baselines: item {sessions.items.max()} in the sessions is beyond num_items={num_items}")
    some = sessions.items > 0
    return sessions.rows()[some], sessions.items[some]


def recency(sessions: Sessions, num_items: int) -> Array:
    """When each item was last seen: int64 [num_items + 1], a place in the order of time (of the file without times), -1
    for never."""
    times = np.arange(len(sessions.items)) if sessions.times is None else sessions.times
    order = np.argsort(times, kind="stable")
    last = np.full(num_items + 1, -1, np.int64)
    np.maximum.at(last, sessions.items[order], np.arange(len(order)))
    return last


def pairs(rows: Array, values: Array, most: int | None = None) -> Iterator[tuple[int, Array, Array]]:
    """(d, earlier, later) of all pairs that stand d = 1, 2, ... `most` apart in the same row; `rows` ascending."""
    at = np.arange(len(rows))
    for d in range(1, len(rows) if most is None else most + 1):
        at = at[at >= d]
        at = at[rows[at - d] == rows[at]]
        if not len(at):
            return
        yield d, values[at - d], values[at]


def both_ways(first: Array, second: Array) -> tuple[Array, Array]:
    """The pairs, and the pairs turned round."""
    return np.concatenate([first, second]), np.concatenate([second, first])


def summed(keys: list[Array], weights: list[Array]) -> tuple[list[Array], list[Array]]:
    """Each key once, with the sum of its weights."""
    if not keys:
        return [np.zeros(0, np.int64)], [np.zeros(0)]
    held, place = np.unique(np.concatenate(keys), return_inverse=True)
    return [held], [np.bincount(place.reshape(-1), weights=np.concatenate(weights), minlength=len(held))]


class Rules:
    """Weights from an item to others, summed over (last item, other, weight) arrays, which score sessions by their last
    item.

    Of equal weights the item seen last in training is the better: float32 scores differ by units in the last place.
    """

    def __init__(self, found: Iterable[tuple[Array, Array, Array]], newest: Array, *, keep: int | None = None) -> None:
        size = len(newest)
        keys: list[Array] = []
        weights: list[Array] = []
        for last, following, weight in found:
            keys.append(last * size + following)
            weights.append(weight)
            if sum(map(len, keys)) > _PAIRS:
                keys, weights = summed(keys, weights)
        (held,), (exact,) = summed(keys, weights)
        total = exact.astype(np.float32)
        order = np.lexsort((-newest[held % size], -total, held // size))
        held, total = held[order], total[order]
        row = held // size
        new = np.ones(len(held), bool)  # where another weight begins
        new[1:] = (row[1:] != row[:-1]) | (total[1:] != total[:-1])
        at = np.arange(len(held))
        total = (total.view(np.int32) - (at - np.flatnonzero(new)[np.cumsum(new) - 1])).astype(np.int32)
        self.start = np.searchsorted(row, np.arange(size + 1))
        if keep is not None:
            some = at - self.start[row] < keep
            held, total, row = held[some], total[some], row[some]
            self.start = np.searchsorted(row, np.arange(size + 1))
        self.following, self.weights = held % size, total.view(np.float32)

    def scores(self, items: Array) -> Array:
        """float32 [N, items]; 0 for sessions without an item."""
        out = np.zeros((len(items), len(self.start) - 1), np.float32)
        lengths = (items > 0).sum(axis=1)
        last = np.where(lengths > 0, items[np.arange(len(items)), np.maximum(lengths, 1) - 1], 0)
        counts = self.start[last + 1] - self.start[last]
        at = ranges(self.start[last], counts)
        out[np.repeat(np.arange(len(items)), counts), self.following[at]] = self.weights[at]
        return out


def ranges(starts: Array, counts: Array) -> Array:
    """start, start + 1, ..., `count` of them, for each start, one behind another."""
    ends = np.cumsum(counts)
    return np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - (ends - counts), counts)


def distinct(sessions: Sessions, num_items: int) -> Lists:
    """Each session's items once."""
    return Lists.of_pairs(*known(sessions, num_items), len(sessions))
