"""VS-kNN: what the most similar sessions hold, the last clicks counting most."""

from __future__ import annotations

import numpy as np

from pdl.ranking import Lists, top_k
from pdl_rec.baselines.base import Array, Baseline, distinct, ranges
from pdl_rec.data.sessions import Sessions

_CANDIDATES = 1 << 22  # pairs of a click and a session that holds its item, at most, in memory


class VSKNN(Baseline):
    """Vector multiplication session-based kNN (V-SKNN in Ludewig and Jannach, arXiv 1803.09587).

    For a session of L clicks, click i of an item (its last, i from 1) weighs w = i / L. Of the training sessions that
    share an item with it the `sample_size` newest, by their last click, are looked at. The similarity of session s is
    the sum of w over the items it shares, divided by sqrt(distinct items of one * of the other); the k most similar are
    its neighbours, the newer first of equal ones. score(item) = sum over the neighbours that hold the item of
    similarity * max(0, 1 - 0.1 d), where d is how many clicks ago the newest shared item was.
    """

    def __init__(self, k: int = 200, sample_size: int = 1000) -> None:
        self.k, self.sample_size = k, sample_size

    def fit(self, sessions: Sessions, num_items: int) -> VSKNN:
        """Number the sessions from the newest to the oldest; without times, the last of the file is the newest."""
        self.num_items = num_items
        filled = sessions.take(np.flatnonzero(sessions.lengths > 0))
        ends = filled.offsets[1:] - 1 if filled.times is None else filled.times[filled.offsets[1:] - 1]
        self.held = distinct(filled, num_items).take(np.lexsort((-np.arange(len(filled)), -ends)))
        rows = np.repeat(np.arange(len(self.held)), self.held.lengths)
        self.holders = Lists.of_pairs(self.held.values, rows, num_items + 1)
        return self

    def scores(self, items: Array) -> Array:
        step = max(1, _CANDIDATES // (self.sample_size * max(1, items.shape[1])))
        parts = [self._scores(items[begin : begin + step]) for begin in range(0, len(items), step)]
        return np.concatenate([np.zeros((0, self.num_items + 1), np.float32), *parts])

    def _scores(self, items: Array) -> Array:
        row, session, similarity = self._neighbours(items)
        counts = self.held.lengths[session]
        held = self.held.values[ranges(self.held.start[session], counts)]
        flat = np.repeat(row, counts) * (self.num_items + 1) + held
        size = len(items) * (self.num_items + 1)
        total = np.bincount(flat, weights=np.repeat(similarity, counts), minlength=size)
        return total.reshape(len(items), -1).astype(np.float32)

    def _neighbours(self, items: Array) -> tuple[Array, Array, Array]:
        """(row, training session, similarity times decay) of all neighbours."""
        row, session, shared, ago, distinct_items = self._candidates(items)
        shared = shared / np.sqrt(self.held.lengths[session] * distinct_items[row])
        # a row's candidates side by side, the newest first, so that top_k prefers these among equals
        place = np.arange(len(row)) - np.searchsorted(row, np.arange(len(items)))[row]
        side = np.full((len(items), self.sample_size), -np.inf)
        side[row, place] = shared
        at = np.zeros(side.shape, np.int64)
        at[row, place] = np.arange(len(row))
        best = top_k(side, self.k, first=0)[1]
        rows, _ = np.nonzero(best >= 0)
        found = at[rows, best[best >= 0]]
        return rows, session[found], shared[found] * np.maximum(0.0, 1.0 - 0.1 * ago[found])

    def _candidates(self, items: Array) -> tuple[Array, Array, Array, Array, Array]:
        """The newest sessions that share an item, by row and from the newest: row, session, sum of w, d; and each row's
        number of distinct items."""
        row, item, weight, ago = last_clicks(items)
        counts = np.minimum(self.holders.lengths[item], self.sample_size)
        session = self.holders.values[ranges(self.holders.start[item], counts)]
        key = np.repeat(row, counts) * len(self.held) + session
        order = np.argsort(key, kind="stable")
        key = key[order]
        begin = np.flatnonzero(np.append(len(key) > 0, key[1:] != key[:-1]))
        if len(begin) == 0:
            return key, key, key.astype(float), key, np.zeros(len(items))
        shared = np.add.reduceat(np.repeat(weight, counts)[order], begin)
        least = np.minimum.reduceat(np.repeat(ago, counts)[order], begin)
        rows, sessions = key[begin] // len(self.held), key[begin] % len(self.held)
        newest = np.arange(len(rows)) - np.searchsorted(rows, np.arange(len(items)))[rows] < self.sample_size
        return rows[newest], sessions[newest], shared[newest], least[newest], np.bincount(row, minlength=len(items))


def last_clicks(items: Array) -> tuple[Array, Array, Array, Array]:
    """The last click of each distinct item of sessions [N, T], by row: row, item, i / L, L - i."""
    rows, places = np.nonzero(items)
    item, length = items[rows, places], (items > 0).sum(axis=1)[rows]
    back = np.arange(len(rows))[::-1]
    kept = np.sort(back[np.unique((rows * (int(items.max(initial=0)) + 1) + item)[back], return_index=True)[1]])
    rows, places, length = rows[kept], places[kept], length[kept]
    return rows, item[kept], (places + 1) / length, length - places - 1
