"""Metrics of rankings against their definitions, one row at a time."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pdl.errors import ConfigError, UsageError
from pdl.ranking import Lists
from pdl_rec.metrics import Ranking

RNG = np.random.default_rng(5)
NAMES = ("recall", "precision", "hr", "mrr", "ndcg")
CUTOFFS = (1, 3, 10, 50)


def by_hand(order: list[int], relevant: set[int], k: int) -> dict[str, float]:
    hits = [i for i, item in enumerate(order[:k]) if item in relevant]
    ideal = sum(1 / math.log2(2 + i) for i in range(min(len(relevant), k)))
    return {
        "recall": len(hits) / len(relevant),
        "precision": len(hits) / k,
        "hr": float(bool(hits)),
        "mrr": 1 / (1 + hits[0]) if hits else 0.0,
        "ndcg": sum(1 / math.log2(2 + i) for i in hits) / ideal,
    }


def ordered(scores: np.ndarray, out: set[int], last: set[int]) -> list[int]:
    """Items by score; of equal ones those in `last` come last."""
    items = [i for i in range(1, len(scores)) if i not in out and scores[i] > -np.inf]
    return sorted(items, key=lambda i: (-scores[i], i in last))


@pytest.mark.parametrize("decimals", [0, 8])
@pytest.mark.parametrize("self_recommendation", [True, False])
@pytest.mark.parametrize("single", [True, False])
def test_metrics_are_their_definitions(decimals: int, self_recommendation: bool, single: bool) -> None:
    scores = np.round(RNG.standard_normal((40, 31)), decimals).astype(np.float32)
    seen = RNG.integers(0, 31, (40, 4))
    relevant = [set(RNG.integers(1, 31, 1 if single else r % 6).tolist()) for r in range(40)]
    out = [set() if self_recommendation else set(row.tolist()) for row in seen]
    ranking = Ranking(CUTOFFS, names=NAMES, self_recommendation=self_recommendation)
    pairs = np.array([(r, i) for r, row in enumerate(relevant) for i in row])
    for part in (slice(0, 25), slice(25, 40)):
        lists = Lists.of_pairs(pairs[:, 0], pairs[:, 1], 40).take(np.arange(40)[part])
        ranking.update(scores[part], lists.values if single else lists, seen[part])
    rows = [r for r in range(40) if relevant[r]]
    assert ranking.rows == len(rows)
    orders = {r: ordered(scores[r], out[r], relevant[r]) for r in rows}
    for k in CUTOFFS:
        each = [by_hand(orders[r], relevant[r], k) for r in rows]
        for name in NAMES:
            assert ranking.compute()[f"{name}@{k}"] == pytest.approx(np.mean([one[name] for one in each])), name


def test_views_share_one_accumulator() -> None:
    ranking = Ranking((2, 5), names=("recall", "mrr"))
    views, scores, targets = ranking.metrics(), RNG.random((30, 12)), RNG.integers(0, 12, 30)
    for view in views.values():
        view.update(scores, targets)
    assert ranking.rows == 30
    assert {name: view.compute() for name, view in views.items()} == ranking.compute()
    columns, rows = ranking.table()
    assert columns == ["k", "recall", "mrr"]
    assert rows[1] == [5, views["recall@5"].compute(), views["mrr@5"].compute()]


def test_one_score_for_all_earns_nothing() -> None:
    flat, targets = np.zeros((6, 100), np.float32), np.arange(1, 7)
    for given in (targets, Lists.of_rows(targets[:, None])):
        ranking = Ranking((20,))
        ranking.update(flat, given)
        assert set(ranking.compute().values()) == {0.0}
        lucky = Ranking((20,), ties="optimistic")
        lucky.update(flat, given)
        assert lucky.compute()["recall@20"] == 1.0


def test_sampled_ranks_estimate_the_full_ones_and_depend_on_no_batches() -> None:
    scores, targets = RNG.standard_normal((4000, 60)), RNG.integers(0, 60, 4000)
    seen = RNG.integers(0, 60, (4000, 3))
    for options in ({}, {"self_recommendation": False}):
        whole, parts, full = (Ranking((10,), sampled=s, **options) for s in (29, 29, None))
        whole.update(scores, targets, seen)
        for begin in range(0, 4000, 700):
            parts.update(scores[begin : begin + 700], targets[begin : begin + 700], seen[begin : begin + 700])
        assert parts.compute() == whole.compute()
        full.update(scores, targets, seen)
        ranks = full.ranks(scores, targets, Lists.of_rows(seen) if options else None)
        share = np.isfinite(ranks).mean() * 10 / 30  # a random target is among the best 10 of 30 this often
        assert whole.compute()["recall@10"] == pytest.approx(share, abs=0.03)


def test_the_protocol_is_told() -> None:
    messages = Ranking(self_recommendation=False, ties="average").protocol(18312, "events in order")
    assert messages == (
        "full ranking over 18,312 items, a target shares the mean rank of its ties, items seen before are not "
        "recommended again, events in order"
    )
    assert Ranking(sampled=100).protocol(5000).startswith("ranking among 100 sampled of 5,000 items")


def test_faults_are_told() -> None:
    with pytest.raises(ConfigError, match="cutoffs"):
        Ranking((0, 5))
    with pytest.raises(ConfigError, match="ties='worst'"):
        Ranking(ties="worst")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="needs the items"):
        Ranking(self_recommendation=False).update(np.zeros((1, 3)), np.array([1]))
    with pytest.raises(UsageError, match="sets of relevant items"):
        Ranking(ties="average").update(np.zeros((1, 3)), Lists.of_rows(np.array([[1]])))
