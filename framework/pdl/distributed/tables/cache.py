"""`HotRows`: rows that are used in nearly every step, kept where they are used."""

from __future__ import annotations

import numpy as np

from pdl.dtype import Array
from pdl.hashing import hash_buckets


class HotRows:
    """At most `size` rows of `columns`, each in the one place that its key hashes to; a newer one takes it over, so
    what is used often is mostly there."""

    def __init__(self, size: int, columns: int) -> None:
        self.keys, self.clocks = np.full(size, -1, np.int64), np.zeros(size, np.int64)
        self.rows = np.zeros((size, columns), np.float32)
        self.asked = self.had = 0

    def fill(self, keys: Array, out: Array, since: int) -> Array:
        """Put the rows that were pulled in step `since` or later into out [n, C]; bool [n]: which these are."""
        at = hash_buckets(keys, len(self.keys))
        there = (self.keys[at] == keys) & (self.clocks[at] >= since)
        out[there] = self.rows[at[there]]
        self.asked, self.had = self.asked + len(keys), self.had + int(there.sum())
        return np.asarray(there)

    def put(self, keys: Array, rows: Array, clock: int) -> None:
        """Keep rows that were pulled for step `clock`."""
        at = hash_buckets(keys, len(self.keys))
        self.keys[at], self.clocks[at] = keys, clock
        last = self.keys[at] == keys  # of several for one place the last
        self.rows[at[last]] = rows[last]


__all__ = ["HotRows"]
