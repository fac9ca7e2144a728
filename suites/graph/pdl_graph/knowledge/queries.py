"""Queries of facts, and which answers to them are known: what training must not call wrong, and what evaluation does
not rank."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pdl.ranking import Lists


class KnownAnswers:
    """The answers that facts int32 [T, 3] give to queries (entity, relation, inverse), see
    `pdl_graph.models.knowledge.Query`."""

    def __init__(self, facts: Sequence[np.ndarray], num_entities: int, num_relations: int) -> None:
        self._rows, self._wide = num_relations + 1, num_entities + 1
        entity, relation, inverse, answer = queries(np.concatenate(list(facts)))
        self._keys, places = np.unique(self._key(entity, relation, inverse), return_inverse=True)
        self.answers = Lists.of_pairs(places, answer, len(self._keys) + 1)  # the last list is empty: no such query

    def _key(self, entity: np.ndarray, relation: np.ndarray, inverse: np.ndarray) -> np.ndarray:
        return (inverse.astype(np.int64) * self._rows + relation) * self._wide + entity

    def of(self, entity: np.ndarray, relation: np.ndarray, inverse: np.ndarray) -> Lists:
        """The answers to each query, ascending."""
        keys = self._key(entity, relation, inverse)
        at = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return self.answers.take(np.where(self._keys[at] == keys, at, len(self._keys)))


def queries(facts: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(entity, relation, inverse, answer), int64 [2 T] each: every fact as a query for its tail, then for its head."""
    head, relation, tail = facts.astype(np.int64).T
    inverse = np.repeat(np.arange(2), len(facts))
    return np.concatenate([head, tail]), np.tile(relation, 2), inverse, np.concatenate([tail, head])


def without(lists: Lists, values: np.ndarray) -> Lists:
    """The lists without values[i] in list i."""
    rows = np.repeat(np.arange(len(lists)), lists.lengths)
    kept = lists.values != values[rows]
    lengths = np.bincount(rows[kept], minlength=len(lists))
    return Lists(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64), lists.values[kept])
