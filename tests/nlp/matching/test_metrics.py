"""Measures and losses of rankings beside what they are defined as."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pdl
from pdl_nlp.matching.losses import ranking_loss
from pdl_nlp.matching.metrics import ranking_metrics


def measured(*batches: tuple[Any, Any, Any]) -> dict[str, Any]:
    metrics, start = ranking_metrics(mistakes=2), 0
    for scores, relevance, query in batches:
        index = np.arange(start, start + len(scores))
        for metric in metrics.values():
            metric.update(np.array(scores), np.array(relevance), np.array(query), index)
        start += len(scores)
    return {name: metric.compute() for name, metric in metrics.items()}


def test_by_hand() -> None:
    """Query 0: relevant at 2 and 3 of 3; query 1: relevant first; query 2 has none; -1 fills."""
    found = measured(
        ([0.9, 0.5], [0.0, 1.0], [0, 1]), ([0.4, 0.3, 0.1, 0.7, 9.0], [2.0, 1.0, 0.0, 0.0, 1.0], [0, 0, 1, 2, -1])
    )
    assert found["mrr"] == pytest.approx((1 / 2 + 1) / 2)
    assert found["map"] == pytest.approx(((1 / 2 + 2 / 3) / 2 + 1) / 2)
    assert found["p@1"] == pytest.approx(1 / 2)
    log = np.log2
    ideal = 3 / log(2) + 1 / log(3)
    assert found["ndcg@3"] == pytest.approx(((3 / log(3) + 1 / log(4)) / ideal + 1) / 2)
    (wrong,) = found["mistakes"]
    assert (wrong.rank, wrong.first, wrong.relevant) == (2, 0, 2)


def test_equal_scores_gain_nothing() -> None:
    found = measured(([0.5, 0.5, 0.5], [1.0, 0.0, 0.0], [0, 0, 0]))
    assert found["mrr"] == pytest.approx(1 / 3)
    assert found["p@1"] == 0


def test_nothing_seen_is_not_a_number() -> None:
    found = measured(([1.0], [0.0], [0]))
    assert np.isnan(found["mrr"])
    assert np.isnan(ranking_metrics()["map"].compute())


def test_measures_beside_those_of_one_query_at_a_time() -> None:
    rng = np.random.default_rng(3)
    query = rng.integers(0, 12, 150)
    scores, relevance = rng.standard_normal(150).round(1), rng.integers(0, 3, 150).astype(float)
    order = rng.permutation(150)
    found = measured(*((scores[part], relevance[part], query[part]) for part in np.split(order, 5)))
    mrr, average, ndcg = [], [], []
    for one in range(12):
        y = sorted(
            zip(scores[query == one], relevance[query == one], strict=True), key=lambda each: (-each[0], each[1])
        )
        gains = [2**rel - 1 for _, rel in y]
        hits = [k for k, (_, rel) in enumerate(y, 1) if rel > 0]
        mrr.append(1 / hits[0])
        average.append(np.mean([n / k for n, k in enumerate(hits, 1)]))
        dcg, best = (sum(g / np.log2(1 + k) for k, g in enumerate(each[:10], 1))
                     for each in (gains, sorted(gains, reverse=True)))  # fmt: skip
        ndcg.append(dcg / best)
    assert found["mrr"] == pytest.approx(np.mean(mrr))
    assert found["map"] == pytest.approx(np.mean(average))
    assert found["ndcg@10"] == pytest.approx(np.mean(ndcg))


SCORES, RELEVANCE = np.array([0.3, -1.2, 2.0, 0.7, 5.0]), np.array([2.0, 0.0, 0.0, 1.0, 1.0])
QUERY = np.array([4, 4, 7, 7, -1])


def value(kind: Any, scores: Any = SCORES, **settings: float) -> float:
    s, y = (pdl.tensor(each) for each in (scores, RELEVANCE))
    return float(ranking_loss(kind, s, y, pdl.as_tensor(QUERY), **settings).item())


def test_losses_by_hand() -> None:
    s = SCORES
    log_p = [s[:2] - np.log(np.exp(s[:2]).sum()), s[2:4] - np.log(np.exp(s[2:4]).sum())]
    assert value("softmax") == pytest.approx(-(log_p[0][0] + log_p[1][1]) / 2)
    y = [np.exp(each) / np.exp(each).sum() for each in (RELEVANCE[:2], RELEVANCE[2:4])]
    assert value("listnet") == pytest.approx(-sum(float(a @ b) for a, b in zip(y, log_p, strict=True)) / 2)
    pairs = [max(0, 0.5 - s[0] + s[1]), max(0, 0.5 - s[3] + s[2])]
    assert value("hinge", margin=0.5) == pytest.approx(np.mean(pairs))
    p = 1 / (1 + np.exp(-s[:4]))
    assert value("binary") == pytest.approx(-np.log(np.where(RELEVANCE[:4] > 0, p, 1 - p)).mean())


@pytest.mark.parametrize("kind", ["binary", "hinge", "softmax", "listnet"])
def test_rows_without_a_query_count_for_nothing(kind: Any) -> None:
    other = SCORES.copy()
    other[4] = -30
    assert value(kind, other) == pytest.approx(value(kind))
    scores = pdl.tensor(SCORES, requires_grad=True)
    ranking_loss(kind, scores, pdl.tensor(RELEVANCE), pdl.as_tensor(QUERY)).backward()
    assert scores.grad is not None
    assert scores.grad.numpy()[4] == 0
    assert np.abs(scores.grad.numpy()[:4]).max() > 0
