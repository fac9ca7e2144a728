"""Negatives: their frequencies, what they leave out, and that they depend on nothing but seed, epoch, step and row."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdl import threads
from pdl.data.negatives import Negatives, in_batch
from pdl.errors import ShapeError, UsageError
from pdl.kernels import sampling
from pdl.ranking import Lists

COUNTS = np.array([0, 5, 0, 120, 33, 1, 1000, 7])


def surprise(items: np.ndarray, chances: np.ndarray) -> float:
    """Pearson's chi-squared of the items' frequencies over its degrees of freedom: 1 is expected, give or take."""
    expected = chances * items.size
    seen = np.bincount(items.ravel(), minlength=len(chances))
    assert not seen[chances == 0].any()
    known = chances > 0
    return float(((seen - expected)[known] ** 2 / expected[known]).sum() / (known.sum() - 1))


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
def test_frequencies_are_the_chances(alpha: float) -> None:
    draws = Negatives(7, counts=COUNTS, alpha=alpha, seed=4)
    weights = np.where(COUNTS > 0, COUNTS.astype(float) ** alpha, 0.0) if alpha else np.array([0] + [1] * 7)
    np.testing.assert_allclose(draws.chances, weights / weights.sum(), rtol=1e-12)
    np.testing.assert_allclose(np.exp(draws.log_chances), draws.chances, rtol=1e-12)
    assert surprise(draws.shared(200_000, epoch=0, step=0), draws.chances) < 3
    steps = np.concatenate([draws.shared(20, epoch=1, step=s) for s in range(5000)])
    assert surprise(steps, draws.chances) < 3


@pytest.mark.parametrize("counts", [None, COUNTS])
def test_what_is_left_out_changes_no_odds(counts: np.ndarray | None) -> None:
    draws = Negatives(7, counts=counts, seed=1)
    positives = Lists.of_rows(np.array([[6, 3, 0], [1, 0, 0], [0, 0, 0]]))
    items = draws.rows(3, 60_000, epoch=0, step=0, positives=positives)
    for r in range(3):
        chances = draws.chances.copy()
        chances[positives[r]] = 0
        assert surprise(items[r], chances / chances.sum()) < 3


def test_rows_choose_their_list() -> None:
    draws, seen = Negatives(3), Lists.of_rows(np.array([[1, 2], [2, 3], [1, 3]]))
    items = draws.rows(4, 5, epoch=0, step=0, positives=seen, lists=np.array([2, 0, 1, 0]))
    np.testing.assert_array_equal(items, np.repeat([[2], [3], [1], [3]], 5, axis=1))


def test_rare_items_are_found_where_all_others_are_excluded() -> None:
    counts = np.array([0, 10**9, 10**9, 1, 2])
    draws = Negatives(4, counts=counts, seed=3)
    items = draws.rows(1, 30_000, epoch=0, step=0, positives=Lists.of_rows(np.array([[1, 2]])))
    assert surprise(items, np.array([0, 0, 0, 1 / 3, 2 / 3])) < 4


@pytest.mark.parametrize("counts", [None, COUNTS])
def test_a_draw_depends_on_its_numbers_alone(counts: np.ndarray | None) -> None:
    draws, seen = Negatives(7, counts=counts, seed=2), Lists.of_rows(np.arange(1, 7).repeat(100)[:, None])
    with threads.limit(1):
        want = draws.rows(600, 40, epoch=2, step=9, positives=seen)
    for count in (2, 3):
        with threads.limit(count):
            np.testing.assert_array_equal(draws.rows(600, 40, epoch=2, step=9, positives=seen), want)
    some = np.array([599, 3, 77])
    found = draws.rows(some, 40, epoch=2, step=9, positives=seen.take(some))
    np.testing.assert_array_equal(found, want[some])
    np.testing.assert_array_equal(draws.rows(600, 10, epoch=2, step=9, positives=seen), want[:, :10])
    others = [Negatives(7, counts=counts, seed=5).rows(600, 40, epoch=2, step=9, positives=seen)]
    others += [draws.rows(600, 40, epoch=e, step=s, positives=seen) for e, s in ((2, 10), (3, 9))]
    assert all((other != want).mean() > 0.1 for other in others)


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=300).filter(any))
def test_alias_tables_hold_the_weights(values: list[float]) -> None:
    weights = np.array(values) / np.sum(values)
    keep, other = np.empty(len(weights)), np.empty(len(weights), np.int64)
    sampling.alias(keep, other, weights)
    held = (keep + np.bincount(other, weights=1 - keep, minlength=len(weights))) / len(weights)
    np.testing.assert_allclose(held, weights, atol=1e-13)
    assert ((keep >= 0) & (keep <= 1)).all()


def test_targets_are_no_negatives_of_their_equals() -> None:
    mask = in_batch(np.array([4, 7, 4]))
    np.testing.assert_array_equal(mask, [[True, True, False], [True, True, True], [False, True, True]])


def test_faults_are_told() -> None:
    with pytest.raises(ShapeError, match=r"counts \(3,\)"):
        Negatives(7, counts=np.ones(3))
    with pytest.raises(UsageError, match="not all 0"):
        Negatives(2, counts=np.zeros(3))
    full = Lists.of_rows(np.array([[1, 0], [1, 2]]))
    for counts in (None, np.array([0, 1, 1])):
        with pytest.raises(UsageError, match="row 1 excludes every item"):
            Negatives(2, counts=counts).rows(2, 3, epoch=0, step=0, positives=full)
    with pytest.raises(ShapeError, match="ascending order"):
        Negatives(2).rows(1, 1, epoch=0, step=0, positives=Lists(np.array([0, 1]), np.array([5])))
