"""Filtered ranking against NumPy without lists or kernels: a table of all facts, and one row a query."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pdl
from pdl.ranking import Lists, Ties
from pdl.train import assemble
from pdl_graph import KnowledgeGraph
from pdl_graph.data.triples import triples_of, write_stand_in
from pdl_graph.knowledge.loader import RankedQueries
from pdl_graph.knowledge.metrics import Measure, Ranks, measure, names
from pdl_graph.knowledge.queries import KnownAnswers, queries, without
from tests.graph.recipes import recipe_of

E, R = 12, 3
TIES: dict[Ties, float] = {"average": 0.5, "conservative": 1.0, "optimistic": 0.0}


def random_facts(count: int, seed: int) -> np.ndarray:
    """Facts with repetitions, so that most queries have several answers."""
    rng = np.random.default_rng(seed)
    return np.stack([rng.integers(1, E + 1, count), rng.integers(1, R + 1, count), rng.integers(1, E + 1, count)], 1)


def table(facts: np.ndarray) -> np.ndarray:
    """bool [E + 1, R + 1, E + 1]: whether a fact is stated."""
    stated = np.zeros((E + 1, R + 1, E + 1), bool)
    stated[tuple(facts.T)] = True
    return stated


def rank(scores: np.ndarray, answer: int, known: np.ndarray, level: float) -> float:
    """Of the answer among entities from 1 on that are not known: scores [E + 1], known bool [E + 1]."""
    rivals = [x for x in range(1, len(scores)) if x != answer and not known[x]]
    above = sum(scores[x] > scores[answer] for x in rivals)
    return float(1 + above + level * sum(scores[x] == scores[answer] for x in rivals))


@pytest.mark.parametrize("ties", TIES)
def test_ranks_are_those_of_brute_force(ties: Ties) -> None:
    parts = [random_facts(40, seed) for seed in range(3)]
    stated, test = table(np.concatenate(parts)), parts[2]
    data = RankedQueries(test, KnownAnswers(parts, E, R))
    rng = np.random.default_rng(9)
    scores = rng.integers(0, 4, (len(data), E + 1)).astype(np.float32)  # many tie
    scores[:, 0] = -np.inf
    found = Ranks(ties)
    mrr, hits = Measure(found, "mrr"), Measure(found, "hits@2")
    assert math.isnan(mrr.compute())
    for rows in np.array_split(rng.permutation(len(data)), 7):  # in any order
        batch = data.get_batch(rows)
        found.update(scores[rows], batch["answer"], batch["excluded"], batch["index"])
    expected = []
    for row, (entity, relation, inverse, answer) in enumerate(zip(*queries(test), strict=True)):
        known = stated[:, relation, entity] if inverse else stated[entity, relation]
        expected.append(rank(scores[row], answer, known, TIES[ties]))
    np.testing.assert_array_equal(found.compute(), expected)
    assert len(set(expected)) > 5
    assert mrr.compute() == pytest.approx(np.mean([1 / x for x in expected]))
    assert hits.compute() == pytest.approx(np.mean([x <= 2 for x in expected]))


def test_known_answers_of_a_question() -> None:
    facts = random_facts(60, 0)
    stated, known = table(facts), KnownAnswers([facts[:30], facts[30:]], E, R)
    entity, relation, inverse = (each.ravel() for each in np.meshgrid(range(1, E + 1), range(1, R + 1), (0, 1)))
    lists = known.of(entity, relation, inverse)
    for row in range(len(entity)):
        e, r = entity[row], relation[row]
        expected = np.flatnonzero(stated[:, r, e] if inverse[row] else stated[e, r])
        own = lists.values[lists.start[row] : lists.start[row + 1]]
        assert sorted(set(own.tolist())) == expected.tolist()
    assert 0 < (lists.lengths == 0).sum() < len(entity)


def test_a_value_is_left_out_of_each_list() -> None:
    lists = Lists(np.array([0, 3, 3, 5]), np.array([4, 7, 9, 7, 8]))
    found = without(lists, np.array([7, 7, 4]))
    assert (found.start.tolist(), found.values.tolist()) == ([0, 2, 2, 4], [4, 9, 7, 8])


def test_measures_by_hand() -> None:
    found = np.array([1.0, 2.5, 4.0, np.inf])
    assert names((1, 10)) == ("mrr", "mr", "hits@1", "hits@10")
    assert measure(found, "mrr") == pytest.approx((1 + 0.4 + 0.25) / 4)
    assert measure(found, "mr") == pytest.approx(2.5)
    assert [measure(found, f"hits@{k}") for k in (1, 3, 10)] == [0.25, 0.5, 0.75]


def scores_of(kind: str, model: Any, h: np.ndarray, r: np.ndarray, t: np.ndarray) -> np.ndarray:
    """The papers' scores of facts, rows of vectors in float64."""
    half = h.shape[-1] // 2
    a, b = h[..., :half] + 1j * h[..., half:], t[..., :half] + 1j * t[..., half:]
    if kind == "TransE":
        return model.margin - np.abs(h + r - t).sum(-1)
    if kind == "DistMult":
        return (h * r * t).sum(-1)
    if kind == "ComplEx":
        return (a * (r[..., :half] + 1j * r[..., half:]) * b.conj()).sum(-1).real
    return model.margin - np.abs(a * np.exp(1j * r * model.angle) - b).sum(-1)


@pytest.mark.parametrize("reciprocal", [False, True])
@pytest.mark.parametrize("kind", ["TransE", "DistMult", "ComplEx", "RotatE"])
def test_an_evaluation_is_that_of_the_formulas(kind: str, reciprocal: bool, tmp_path: Path) -> None:
    """All of it, from files to mrr, beside scores by the papers' formulas and ranks by brute force."""
    write_stand_in(tmp_path)
    source = {s: {"_target_": "pdl_graph.data.Triples", "path": str(tmp_path), "split": s}
              for s in ("train", "val", "test")}  # fmt: skip
    model = {"_target_": f"pdl_graph.{kind}", "dim": 8, "reciprocal": reciprocal}
    pdl.seed(1)
    task = KnowledgeGraph()
    parts = assemble(task, recipe_of({"data": {**source, "batch_size": 9}, "model": model}), training=False)
    net: Any = parts.model
    for table_ in (net.entities.weight.data, net.relations.weight.data):
        table_[...] = np.random.default_rng(table_.shape[1]).standard_normal(table_.shape) * 0.3
    measures = task.metrics()
    for batch in parts.loaders["test"]:
        task.update_metrics(measures, task.evaluate(net, batch), batch)

    entity, relation = net.entities.weight.data.astype(np.float64), net.relations.weight.data.astype(np.float64)
    facts = {split: triples_of(data)[1] for split, data in parts.datasets.items()}
    stated = {tuple(row) for each in facts.values() for row in each.tolist()}
    expected = []
    for inverse in (0, 1):
        for h, r, t in facts["test"].tolist():
            requested, answer = (t, h) if inverse else (h, t)
            shift = net.num_relations if reciprocal and inverse else 0
            fixed, every = np.broadcast_to(entity[requested], entity.shape), entity
            swapped = inverse and not reciprocal  # reciprocal relations ask for heads as if they were tails
            ends = (every, fixed) if swapped else (fixed, every)
            scores = scores_of(kind, net, ends[0], relation[r + shift], ends[1])
            known = np.array([((x, r, t) if inverse else (h, r, x)) in stated for x in range(len(entity))])
            expected.append(rank(scores, answer, known, 0.5))
    np.testing.assert_array_equal(measures["ranks"].compute(), expected)
    assert measures["mrr"].compute() == pytest.approx(np.mean([1 / x for x in expected]))
