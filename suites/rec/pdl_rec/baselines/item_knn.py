"""Item-kNN: what occurs in the same sessions as the last item."""

from __future__ import annotations

import numpy as np

from pdl_rec.baselines.base import Array, Baseline, Rules, both_ways, distinct, pairs, recency
from pdl_rec.data.sessions import Sessions


class ItemKNN(Baseline):
    """score = n_ab / sqrt((n_a + damping) (n_b + damping)) for the session's last item a and another item b: n_a, n_b
    and n_ab are the sessions of training that hold a, b and both. The `neighbours` most similar items of a score,
    itself does not (the regularised cosine of Hidasi et al., arXiv 1511.06939; damping 20 and 100 neighbours theirs).
    """

    def __init__(self, neighbours: int = 100, damping: float = 20.0) -> None:
        self.neighbours, self.damping = neighbours, damping

    def fit(self, sessions: Sessions, num_items: int) -> ItemKNN:
        self.num_items = num_items
        lists = distinct(sessions, num_items)
        found = pairs(np.repeat(np.arange(len(lists)), lists.lengths), lists.values)
        norm = 1.0 / np.sqrt(np.bincount(lists.values, minlength=num_items + 1) + max(self.damping, 1e-12))
        ways = (both_ways(first, second) for _, first, second in found)
        weighed = ((a, b, norm[a] * norm[b]) for a, b in ways)
        self.rules = Rules(weighed, recency(sessions, num_items), keep=self.neighbours)
        return self

    def scores(self, items: Array) -> Array:
        return self.rules.scores(items)
