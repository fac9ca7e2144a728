"""Classical classifiers against what they are defined as."""

from __future__ import annotations

import numpy as np
import pytest

from pdl.train.classical import (
    Sparse,
    classifiers,
    log_prior,
    logistic_regression,
    nearest_neighbour,
    scored,
    sparse_logistic_regression,
    spread,
    standardised,
)
from pdl.train.metrics import Accuracy, ConfusionMatrix

RNG = np.random.default_rng(0)
CENTRES = RNG.normal(size=(3, 5)) * 2
Y = RNG.integers(0, 3, 300)
X = (CENTRES[Y] + RNG.normal(size=(300, 5))).astype(np.float32)


def test_spread_takes_all_or_a_few_from_everywhere() -> None:
    assert spread(4, 10).tolist() == [0, 1, 2, 3]
    assert spread(100, 4).tolist() == [0, 25, 50, 75]
    assert spread(0, 4).tolist() == []


def test_the_prior_is_the_share_of_each_class() -> None:
    np.testing.assert_allclose(np.exp(log_prior(np.array([0, 0, 1]), 3)), [3 / 6, 2 / 6, 1 / 6])


def test_logistic_regression_is_where_the_gradient_is_0() -> None:
    """Its own optimality condition, in float64: sum_i (p_i - e_i) x_i + l2 W = 0, and those of the bias sum to 0."""
    x, _ = standardised(X, X)
    scores = logistic_regression(X, Y, np.concatenate([X, np.zeros((1, 5))]), 3, l2=2.0).astype(np.float64)[:300]
    design = np.concatenate([x.astype(np.float64), np.ones((300, 1))], axis=1)
    weight, *_ = np.linalg.lstsq(design, scores, rcond=None)
    chances = np.exp(scores - scores.max(axis=1, keepdims=True))
    chances /= chances.sum(axis=1, keepdims=True)
    off = design.T @ (chances - np.eye(3)[Y])
    off[:-1] += 2.0 * weight[:-1]
    assert np.abs(off).max() < 1e-2  # of 100 at the beginning


def test_the_nearest_neighbour_is_that_of_a_loop() -> None:
    requested = RNG.normal(size=(40, 5)).astype(np.float32)
    scores = nearest_neighbour(X, Y, requested, 4)
    for row, point in enumerate(requested):
        far = ((X.astype(np.float64) - point) ** 2).sum(axis=1)
        np.testing.assert_allclose(-scores[row, :3], [far[k == Y].min() for k in range(3)], rtol=1e-4)
    assert np.isinf(scores[:, 3]).all()


@pytest.mark.parametrize("columns", [1, 5])
def test_separated_classes_are_told_apart_and_parts_are_named(columns: int) -> None:
    y = np.arange(60) % 3
    x = (10.0 * y[:, None] + RNG.normal(size=(60, columns))).astype(np.float32)
    made = classifiers(x, y, x, 3, seen=100)
    assert list(made) == ["majority", "logistic regression (60 samples)", "nearest neighbour (60 samples)"]
    figures = {
        name: scored({"accuracy": Accuracy(), "confusion": ConfusionMatrix(3)}, s, y) for name, s in made.items()
    }
    assert [list(each) for each in figures.values()] == [["accuracy"]] * 3
    assert [each["accuracy"] for each in figures.values()] == [pytest.approx(1 / 3), 1.0, 1.0]
    assert "nearest neighbour" in classifiers(x, y, x, 3, seen=60)


def test_columns_that_do_not_vary_do_no_harm() -> None:
    x = np.concatenate([X, np.full((300, 1), 7.0, np.float32)], axis=1)
    assert np.isfinite(logistic_regression(x, Y, x + 1, 3)).all()


def sparse(x: np.ndarray) -> Sparse:
    rows, columns = np.nonzero(x)
    return Sparse(rows, columns, x[rows, columns], x.shape)


@pytest.mark.parametrize("several", [False, True])
def test_sparse_logistic_regression_is_where_the_gradient_is_0(several: bool) -> None:
    """sum_i (p_i - e_i) x_i + l2 W = 0, sum_i (p_i - e_i) = 0, for columns as they are."""
    x = np.where(RNG.random(X.shape) < 0.5, X, 0).astype(np.float64)
    own = (RNG.random((300, 3)) < 0.3).astype(float) if several else np.eye(3)[Y]
    probes = np.concatenate([np.zeros((1, 5)), np.eye(5)])
    found = sparse_logistic_regression(sparse(x), own, sparse(probes), several=several, l2=2.0)
    bias, weight = found[0], found[1:] - found[0]
    scores = x @ weight + bias
    p = 1 / (1 + np.exp(-scores)) if several else np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    assert np.abs(x.T @ (p - own) + 2.0 * weight).max() < 0.02
    assert np.abs((p - own).sum(axis=0)).max() < 0.02
    assert np.abs(weight).max() > 0.1
