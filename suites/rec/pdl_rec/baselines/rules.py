"""Sequential and association rules: what follows, or goes with, the last item of a session.

As SR and AR in Ludewig and Jannach (arXiv 1803.09587), but that rules are not pruned and that an item may follow
itself. Of equal rules the one to the item that training saw last comes first.
"""

from __future__ import annotations

import numpy as np

from pdl_rec.baselines.base import Array, Baseline, Rules, both_ways, known, pairs, recency
from pdl_rec.data.sessions import Sessions


class SequentialRules(Baseline):
    """score = sum of 1 / d over the places in training where the item stands d <= `steps` events behind the session's
    last item."""

    def __init__(self, steps: int = 10) -> None:
        self.steps = steps

    def fit(self, sessions: Sessions, num_items: int) -> SequentialRules:
        self.num_items = num_items
        found = pairs(*known(sessions, num_items), self.steps)
        weighed = ((first, second, np.full(len(first), 1.0 / d)) for d, first, second in found)
        self.rules = Rules(weighed, recency(sessions, num_items))
        return self

    def scores(self, items: Array) -> Array:
        return self.rules.scores(items)


class AssociationRules(Baseline):
    """score = how often the item stands before or behind the session's last item in a session of training: each pair of
    their events counts."""

    def fit(self, sessions: Sessions, num_items: int) -> AssociationRules:
        self.num_items = num_items
        found = (both_ways(first, second) for _, first, second in pairs(*known(sessions, num_items)))
        self.rules = Rules(((a, b, np.ones(len(a))) for a, b in found), recency(sessions, num_items))
        return self

    def scores(self, items: Array) -> Array:
        return self.rules.scores(items)
