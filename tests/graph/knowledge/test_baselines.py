"""Answers by counting, against a loop over the facts."""

from __future__ import annotations

import numpy as np

from pdl_graph.knowledge.baselines import Counting, baselines
from pdl_graph.knowledge.loader import RankedQueries
from pdl_graph.knowledge.queries import KnownAnswers

RNG = np.random.default_rng(0)
ENTITIES, RELATIONS = 12, 3
FACTS = np.unique(RNG.integers([1, 1, 1], [ENTITIES + 1, RELATIONS + 1, ENTITIES + 1], (120, 3)), axis=0).astype(
    np.int32
)
RNG.shuffle(FACTS)
TRAIN, TEST = FACTS[:80], FACTS[80:]
BOTH_WAYS = [(h, (0, r), t) for h, r, t in TRAIN.tolist()] + [(t, (1, r), h) for h, r, t in TRAIN.tolist()]


def confidence(first: tuple[int, int], second: tuple[int, int]) -> float:
    pairs = {(x, y) for x, q, y in BOTH_WAYS if q == first}
    return len(pairs & {(x, y) for x, q, y in BOTH_WAYS if q == second}) / len(pairs) if first != second else 0.0


def test_frequencies_and_rules_are_those_of_a_loop() -> None:
    counting = Counting(TRAIN, ENTITIES, RELATIONS)
    entity, relation, inverse = np.array([1, 5, 9]), np.array([1, 2, 3]), np.array([0, 1, 0])
    which = inverse * (RELATIONS + 1) + relation
    scores = counting.frequency[which]
    plain = scores.copy()
    counting.add_rules(scores, entity, which)
    most = max(sum(q == p and y == z for _, q, y in BOTH_WAYS) for _, p, z in BOTH_WAYS)
    for row in range(3):
        requested = (int(inverse[row]), int(relation[row]))
        for x in range(1, ENTITIES + 1):
            often = sum(q == requested and y == x for _, q, y in BOTH_WAYS) / (1 + most)
            np.testing.assert_allclose(plain[row, x], often, rtol=1e-6)
            rules = sum(confidence(q, requested) for e, q, y in BOTH_WAYS if e == entity[row] and y == x)
            np.testing.assert_allclose(scores[row, x], often + rules, rtol=1e-5)


def test_a_symmetric_relation_is_a_rule() -> None:
    """Every fact stands in training the other way round; frequency knows nothing of it."""
    there = np.stack([np.arange(1, 11), np.ones(10), np.arange(11, 21)], axis=1).astype(np.int32)
    train = np.concatenate([there, there[:7, ::-1]])
    requested = RankedQueries(there[7:, ::-1].copy(), KnownAnswers([train], 20, 1))
    found = baselines(train, requested, 20, 1, cutoffs=(1,), ties="conservative")
    assert found["rules"]["hits@1"] == 1.0
    assert found["frequency"]["hits@1"] == 0.0
    assert list(found["rules"]) == ["mrr", "mr", "hits@1"]
