"""Popularity: what everyone clicks."""

from __future__ import annotations

import numpy as np

from pdl_rec.baselines.base import Array, Baseline, known
from pdl_rec.data.sessions import Sessions


class Popularity(Baseline):
    """score = how often the item occurs in training, whatever the session."""

    def fit(self, sessions: Sessions, num_items: int) -> Popularity:
        self.num_items = num_items
        self.counts = np.bincount(known(sessions, num_items)[1], minlength=num_items + 1).astype(np.float32)
        return self

    def scores(self, items: Array) -> Array:
        return np.repeat(self.counts[None], len(items), axis=0)
