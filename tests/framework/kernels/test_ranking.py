"""Ranks, the highest of many and areas under curves, against NumPy and SciPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pdl import ranking, threads
from pdl.errors import DataError, ShapeError, UsageError
from pdl.ranking import Lists

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(3)
SHAPES = [(1, 1), (3, 2), (5, 17), (40, 100), (9, 1000), (70, 1500)]


def scores_of(rows: int, columns: int, dtype: str, kind: str) -> Array:
    """Scores in all their oddity: many ties, or some NaN and infinities."""
    values = RNG.standard_normal((rows, columns))
    if kind == "ties":
        values = np.round(values)
    if kind == "odd":
        values[RNG.random(values.shape) < 0.2] = np.nan
        values[RNG.random(values.shape) < 0.2] = -np.inf
        values[RNG.random(values.shape) < 0.1] = np.inf
    return values.astype(dtype)


def lists_of(rows: int, columns: int, share: float) -> Lists:
    at = np.nonzero(RNG.random((rows, columns)) < share)
    return Lists.of_pairs(at[0], at[1], rows)


def ranked_mask(shape: tuple[int, ...], first: int, lists: Lists | None) -> Array:
    mask = np.ones(shape, bool)
    mask[:, :first] = False
    for r in range(shape[0] if lists is not None else 0):
        mask[r, lists[r]] = False  # type: ignore[index]
    return mask


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", ["plain", "ties", "odd"])
@pytest.mark.parametrize(("first", "share"), [(0, 0.0), (1, 0.3)])
def test_ranks(shape: tuple[int, int], dtype: str, kind: str, first: int, share: float) -> None:
    scores, lists = scores_of(*shape, dtype, kind), lists_of(*shape, share) if share else None
    targets = RNG.integers(0, shape[1], shape[0])
    mask = ranked_mask(shape, first, lists)
    own = np.take_along_axis(scores, targets[:, None], axis=1)
    fit = (np.take_along_axis(mask, targets[:, None], axis=1) & (own > -np.inf))[:, 0]
    above = (mask & (scores > own)).sum(1)
    level = (mask & (scores == own)).sum(1) - 1
    for ties, share_of in {"conservative": 1.0, "average": 0.5, "optimistic": 0.0}.items():
        found = ranking.ranks(scores, targets, ties=ties, first=first, excluded=lists)  # type: ignore[arg-type]
        np.testing.assert_array_equal(found, np.where(fit, 1 + above + share_of * level, np.inf))


def test_a_model_that_says_nothing_earns_nothing() -> None:
    targets = np.arange(1, 6)
    assert (ranking.ranks(np.zeros((5, 100), np.float32), targets) == 99).all()
    assert (ranking.ranks(np.full((5, 100), np.nan, np.float32), targets) == np.inf).all()


def highest(scores: Array, mask: Array, k: int, none: int) -> tuple[Array, Array]:
    """By a stable sort of what is ranked."""
    values = np.where(mask & ~np.isnan(scores), scores, -np.inf)
    values = np.concatenate([values, np.full((len(values), k), -np.inf, values.dtype)], axis=1)
    order = np.argsort(-values, axis=1, kind="stable")[:, :k]
    found = np.take_along_axis(values, order, axis=1)
    return found, np.where(np.isneginf(found), none, order)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", ["plain", "ties", "odd"])
@pytest.mark.parametrize(("first", "share"), [(0, 0.0), (1, 0.3)])
def test_top_k(shape: tuple[int, int], dtype: str, kind: str, first: int, share: float) -> None:
    scores, lists = scores_of(*shape, dtype, kind), lists_of(*shape, share) if share else None
    mask = ranked_mask(shape, first, lists)
    for k in (0, 1, 3, 20, shape[1] + 2):
        values, indices = ranking.top_k(scores, k, first=first, excluded=lists)
        want = highest(scores, mask, k, first - 1)
        np.testing.assert_array_equal(values, want[0])
        np.testing.assert_array_equal(indices, want[1])


@pytest.mark.parametrize("order", ["rising", "falling"])
def test_top_k_of_sorted_scores(order: str) -> None:
    scores = np.arange(5000, dtype=np.float32)[None] * (1 if order == "rising" else -1)
    want = 4999 - np.arange(300) if order == "rising" else 1 + np.arange(300)
    np.testing.assert_array_equal(ranking.top_k(scores, 300)[1][0], want)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("rows", "columns", "inputs"), [(1, 40, 3), (3, 9000, 16), (300, 700, 33), (130, 5001, 8), (20, 300, 700)]
)
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_top_products(dtype: str, rows: int, columns: int, inputs: int, biased: bool, count: int) -> None:
    # small whole numbers: products are exact, whatever the order of their terms, and ties are many
    queries, table = (RNG.integers(-4, 5, (n, inputs)).astype(dtype) for n in (rows, columns))
    bias = RNG.integers(-4, 5, columns).astype(dtype) if biased else None
    lists = lists_of(rows, columns, 0.1)
    scores = queries @ table.T + (0 if bias is None else bias)
    with threads.limit(count):
        values, indices = ranking.top_products(queries, table, 25, bias=bias, excluded=lists)
    want = highest(scores, ranked_mask(scores.shape, 1, lists), 25, 0)
    np.testing.assert_array_equal(values, want[0])
    np.testing.assert_array_equal(indices, want[1])


def test_many_rows_come_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    queries, table = RNG.standard_normal((300, 5)), RNG.standard_normal((50, 5))
    lists = lists_of(300, 50, 0.2)
    whole = ranking.top_products(queries, table, 7, excluded=lists)
    monkeypatch.setattr(ranking, "_AT_ONCE", 1)
    for a, b in zip(ranking.top_products(queries, table, 7, excluded=lists), whole, strict=True):
        np.testing.assert_array_equal(a, b)


@given(st.lists(st.lists(st.integers(0, 9), max_size=6), min_size=1, max_size=6))
def test_lists_hold_each_number_once_and_in_order(rows: list[list[int]]) -> None:
    pairs = [(r, v) for r, row in enumerate(rows) for v in row]
    lists = Lists.of_pairs(np.array([p[0] for p in pairs]), np.array([p[1] for p in pairs]), len(rows))
    assert [list(lists[r]) for r in range(len(lists))] == [sorted(set(row)) for row in rows]
    turned = lists.take(np.arange(len(rows))[::-1])
    assert [list(turned[r]) for r in range(len(rows))] == [sorted(set(row)) for row in rows[::-1]]
    padded = np.array([row + [0] * (6 - len(row)) for row in rows], np.int64)
    zeros = Lists.of_rows(padded)
    assert [list(zeros[r]) for r in range(len(rows))] == [sorted(set(row) - {0}) for row in rows]


def area(labels: Array, scores: Array) -> float:
    """Mann and Whitney's U over the number of pairs."""
    return float(
        stats.mannwhitneyu(scores[labels == 1], scores[labels == 0]).statistic / (labels.sum() * (1 - labels).sum())
    )


def test_auc_is_that_of_scipy() -> None:
    for decimals in (1, 6):
        scores, labels = np.round(RNG.random(400), decimals), RNG.integers(0, 2, 400)
        groups = RNG.integers(0, 30, 400)
        assert ranking.auc(scores, labels) == pytest.approx(area(labels, scores), abs=1e-12)
        members = [groups == g for g in np.unique(groups) if len(set(labels[groups == g])) == 2]
        areas = [area(labels[m], scores[m]) for m in members]
        for weight, weights in {
            "samples": [m.sum() for m in members],
            "clicks": [labels[m].sum() for m in members],
            "none": [1] * len(members),
        }.items():
            found = ranking.grouped_auc(scores, labels, groups, weight=weight)  # type: ignore[arg-type]
            assert found == pytest.approx(np.average(areas, weights=weights), abs=1e-12)
    chances = RNG.random(50)
    assert ranking.log_loss(chances, labels[:50]) == pytest.approx(
        -np.log(np.where(labels[:50] == 1, chances, 1 - chances)).mean(), abs=1e-12
    )


@given(st.lists(st.tuples(st.integers(-5, 5), st.booleans()), max_size=40))
def test_auc_counts_pairs(pairs: list[tuple[int, bool]]) -> None:
    ones, zeros = ([s for s, label in pairs if label is wanted] for wanted in (True, False))
    found = ranking.auc(np.array([p[0] for p in pairs], float), np.array([p[1] for p in pairs], bool))
    if not ones or not zeros:
        assert np.isnan(found)
        return
    wins = sum((a > b) + (a == b) / 2 for a in ones for b in zeros)
    assert found == pytest.approx(wins / (len(ones) * len(zeros)))


@given(st.lists(st.tuples(st.integers(-5, 5), st.booleans()), max_size=40))
def test_average_precision_is_the_area_under_the_steps(pairs: list[tuple[int, bool]]) -> None:
    scores, labels = np.array([p[0] for p in pairs], float), np.array([p[1] for p in pairs], bool)
    found = ranking.average_precision(scores, labels)
    if not labels.any():
        assert np.isnan(found)
        return
    shares = [labels[scores >= score].mean() for score in scores[labels]]
    assert found == pytest.approx(np.mean(shares))


def test_faults_are_told() -> None:
    scores, targets = np.zeros((2, 4), np.float32), np.array([1, 2])
    with pytest.raises(ShapeError, match="target 4 of row 1 is outside the 4 columns"):
        ranking.ranks(scores, np.array([0, 4]))
    with pytest.raises(UsageError, match="ties='worst'"):
        ranking.ranks(scores, targets, ties="worst")  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match="ascending order"):
        ranking.ranks(scores, targets, excluded=Lists(np.array([0, 2, 2]), np.array([3, 1])))
    with pytest.raises(ShapeError, match="first=9"):
        ranking.top_k(scores, 1, first=9)
    with pytest.raises(ShapeError, match="do not fit"):
        ranking.top_products(scores, np.zeros((3, 5), np.float32), 1)
    with pytest.raises(DataError, match="score at 1 is NaN"):
        ranking.auc(np.array([0.0, np.nan]), targets)
    with pytest.raises(DataError, match="label at 1 is 2"):
        ranking.auc(np.array([0.0, 1.0]), targets)
    with pytest.raises(DataError, match="outside"):
        ranking.log_loss(np.array([0.0, 1.5]), np.array([0, 1]))
