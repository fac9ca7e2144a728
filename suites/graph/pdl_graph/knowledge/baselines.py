"""What can be answered by counting: the entities that a relation has most often, and rules of one step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pdl.ranking import Ties
from pdl_graph.knowledge.loader import RankedQueries
from pdl_graph.knowledge.metrics import Ranks, measure, names
from pdl_graph.knowledge.queries import queries
from pdl_graph.ranges import ranges

Array = np.ndarray
AT_ONCE = 256  # queries


def baselines(
    train: Array, ranked: RankedQueries, num_entities: int, num_relations: int, *, cutoffs: Sequence[int], ties: Ties
) -> dict[str, dict[str, float]]:
    """Metrics of both methods by filtered ranking, from facts of training int32 [T, 3]:

    frequency  an entity scores as often as it is the tail (or head) of the relation
    rules      q(x, y) -> r(x, y), q any other relation or an inverse one, r's own inverse too: an entity scores the sum
               of the confidences of the rules that give it (the share of q's pairs that have r, too; a "one-step" case
               of Galarraga et al., "AMIE", WWW 2013), then by frequency. Symmetric and inverse relations are such rules
    """
    counting = Counting(train, num_entities, num_relations)
    ranks = {"frequency": Ranks(ties), "rules": Ranks(ties)}
    for begin in range(0, len(ranked), AT_ONCE):
        batch = ranked.get_batch(np.arange(begin, min(begin + AT_ONCE, len(ranked))))
        which = batch["inverse"] * (num_relations + 1) + batch["relation"]
        unknown = (batch["entity"] == 0) | (batch["relation"] == 0)
        scores = counting.frequency[which]
        for name, add in (("frequency", False), ("rules", True)):
            if add:
                counting.add_rules(scores, batch["entity"], which)
            scores[:, 0] = -np.inf
            scores[unknown] = -np.inf
            ranks[name].update(scores, batch["answer"], batch["excluded"], batch["index"])
    found = {name: each.compute() for name, each in ranks.items()}
    return {name: {each: measure(value, each) for each in names(cutoffs)} for name, value in found.items()}


class Counting:
    """Counts of training facts, as queries in both directions: relation r + inverse * (num_relations + 1) leads from an
    entity to an answer.

    frequency  float32 [directed relations, num_entities + 1], below 1
    confidence float32 [directed relations, directed relations]: of the pairs with the first the share that has the
               second
    """

    def __init__(self, train: Array, num_entities: int, num_relations: int) -> None:
        wide, many = num_entities + 1, 2 * (num_relations + 1)
        entity, relation, inverse, answer = queries(train[(train > 0).all(axis=1)])
        which = inverse * (num_relations + 1) + relation
        counts = np.bincount(which * wide + answer, minlength=many * wide).reshape(many, wide)
        self.frequency = (counts / (1.0 + counts.max(initial=0))).astype(np.float32)
        order = np.lexsort((which, answer, entity))
        self.entity, self.answer, self.which = entity[order], answer[order], which[order]
        self.start = np.searchsorted(self.entity, np.arange(wide + 1))
        self.confidence = self._confidence(many, wide)

    def _confidence(self, many: int, wide: int) -> Array:
        """By all pairs of relations that two entities have in common."""
        _, pair, lengths = np.unique(self.entity * wide + self.answer, return_inverse=True, return_counts=True)
        begin = np.cumsum(lengths) - lengths
        times = lengths[pair]
        first = np.repeat(self.which, times)
        second = self.which[ranges(begin[pair], times)]
        both = np.bincount(first * many + second, minlength=many * many).reshape(many, many).astype(np.float32)
        np.fill_diagonal(both, 0)
        return both / np.maximum(np.bincount(self.which, minlength=many), 1).astype(np.float32)[:, None]

    def add_rules(self, scores: Array, entity: Array, which: Array) -> None:
        """Add to scores [N, num_entities + 1] what the facts at each entity say of the query."""
        first, last = self.start[entity], self.start[entity + 1]
        lengths = last - first
        rows = np.repeat(np.arange(len(entity)), lengths)
        at = ranges(first, lengths)
        np.add.at(scores, (rows, self.answer[at]), self.confidence[self.which[at], which[rows]])
