"""Softmax and cross-entropy kernels against SciPy: all widths of rows, large numbers, ignored and impossible labels,
targets between two bins."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

from pdl.errors import DataError, DtypeError, ShapeError
from pdl.kernels import focal, softmax

RNG = np.random.default_rng(6)
SIZES = [(1, 1), (5, 3), (3, 2), (7, 4), (37, 8), (1, 16), (128, 10), (7, 16), (3, 17), (9, 64), (2, 1000), (5000, 33)]
TOLERANCE = {np.float32: 5e-6, np.float64: 1e-13}
sizes = pytest.mark.parametrize("size", SIZES, ids=str)
dtypes = pytest.mark.parametrize("dtype", [np.float32, np.float64])


@sizes
@dtypes
def test_softmax(size: tuple[int, int], dtype: type) -> None:
    x = (RNG.standard_normal(size) * 10).astype(dtype)
    x[0, 0] = 500  # e^500 overflows
    g, y, dx = RNG.standard_normal(size).astype(dtype), np.empty_like(x), np.empty_like(x)
    p, logs = special.softmax(x.astype(np.float64), axis=1), special.log_softmax(x.astype(np.float64), axis=1)
    tolerance = {"atol": TOLERANCE[dtype] * 20, "rtol": TOLERANCE[dtype]}
    softmax.softmax(y, x)
    np.testing.assert_allclose(y, p, **tolerance)
    softmax.softmax_grad(dx, g, y)
    np.testing.assert_allclose(dx, p * (g - (g * p).sum(1, keepdims=True)), **tolerance)
    softmax.log_softmax(y, x)
    np.testing.assert_allclose(y, logs, **tolerance)
    softmax.log_softmax_grad(dx, g, y)
    np.testing.assert_allclose(
        dx, g - p * g.astype(np.float64).sum(1, keepdims=True), atol=TOLERANCE[dtype] * 100, rtol=1e-4
    )


def test_masked_scores_get_no_weight() -> None:
    x = np.array([[0.0, -np.inf, 0.0], [-np.inf, -np.inf, -np.inf]], np.float32)
    y = np.empty_like(x)
    softmax.softmax(y, x)
    np.testing.assert_array_equal(y, [[0.5, 0, 0.5], [np.nan] * 3])


@sizes
@dtypes
@pytest.mark.parametrize(("smoothing", "weighted"), [(0.0, False), (0.1, False), (0.0, True), (0.2, True)])
def test_cross_entropy(size: tuple[int, int], dtype: type, smoothing: float, weighted: bool) -> None:
    rows, classes = size
    x = (RNG.standard_normal(size) * 5).astype(dtype)
    labels = RNG.integers(0, classes, rows)
    labels[1::7] = -1
    weight = RNG.uniform(0.5, 2, classes).astype(dtype) if weighted else None
    loss, lse, g, dx = (
        np.empty(rows, dtype),
        np.empty(rows, dtype),
        RNG.standard_normal(rows).astype(dtype),
        np.empty_like(x),
    )
    total = softmax.cross_entropy(loss, lse, x, labels, weight, smoothing=smoothing, ignore_index=-1)
    w = np.ones(classes) if weight is None else weight.astype(np.float64)
    counted, label = labels != -1, np.maximum(labels, 0)
    q = (np.eye(classes)[label] * (1 - smoothing) * w + smoothing / classes * w) * counted[:, None]
    wide = x.astype(np.float64)
    tolerance = {"atol": TOLERANCE[dtype] * 20, "rtol": TOLERANCE[dtype] * 5}
    np.testing.assert_allclose(loss, -(q * special.log_softmax(wide, axis=1)).sum(1), **tolerance)
    np.testing.assert_allclose(lse, special.logsumexp(wide, axis=1), **tolerance)
    np.testing.assert_allclose(total, (w[label] * counted).sum(), rtol=1e-6)
    softmax.cross_entropy_grad(dx, g, x, lse, labels, weight, smoothing=smoothing, ignore_index=-1, factor=0.5)
    expected = special.softmax(wide, axis=1) * q.sum(1, keepdims=True) - q
    np.testing.assert_allclose(dx, 0.5 * g[:, None] * expected, **tolerance)
    one = np.array(0.25, dtype)
    softmax.cross_entropy_grad(dx, one, x, lse, labels, weight, smoothing=smoothing, ignore_index=-1)
    np.testing.assert_allclose(dx, 0.25 * expected, **tolerance)


@sizes
@dtypes
def test_distribution_focal_loss(size: tuple[int, int], dtype: type) -> None:
    """Targets within the bins, at both ends, beyond them (where weights are cut), and none at all."""
    rows, bins = size
    x, target = (RNG.standard_normal(size) * 5).astype(dtype), RNG.uniform(0, bins - 1, rows).astype(dtype)
    x[0, 0] = 500
    target[1::7], target[2::7], target[3::7] = 0, bins - 1, RNG.uniform(-2, bins + 1, len(target[3::7]))
    target[4::50] = np.nan
    loss, lse, g, dx = np.empty(rows, dtype), np.empty(rows, dtype), RNG.standard_normal(rows).astype(dtype), x.copy()
    wide = x.astype(np.float64)
    w = np.maximum(1 - np.abs(np.arange(bins) - target.astype(np.float64)[:, None]), 0)
    tolerance = {"atol": TOLERANCE[dtype] * 20, "rtol": TOLERANCE[dtype] * 5}
    focal.distribution(loss, lse, x, target)
    np.testing.assert_allclose(loss, -(w * special.log_softmax(wide, axis=1)).sum(1), **tolerance)
    np.testing.assert_allclose(lse, special.logsumexp(wide, axis=1), **tolerance)
    focal.distribution_slope(dx, g, x, lse, target)
    expected = g[:, None] * (special.softmax(wide, axis=1) * w.sum(1, keepdims=True) - w)
    np.testing.assert_allclose(dx, expected, **tolerance)


def test_bins_that_are_ruled_out() -> None:
    x, t = np.array([[0.0, 0.0, -np.inf], [-np.inf, 0.0, 0.0]], np.float32), np.array([0.25, 0.25], np.float32)
    loss, lse = np.empty(2, np.float32), np.empty(2, np.float32)
    focal.distribution(loss, lse, x, t)
    np.testing.assert_allclose(loss, [np.log(2), np.inf], rtol=1e-6)
    with pytest.raises(ShapeError, match=r"x \(3, 0\) has no bins"):
        focal.distribution(loss, lse, np.zeros((3, 0), np.float32), t)


def test_refusals() -> None:
    x, r = np.zeros((2, 3)), np.zeros(2)
    for bad in (3, -1):
        with pytest.raises(DataError, match=f"label {bad} at position 1 is none of the 3 classes"):
            softmax.cross_entropy(r, r.copy(), x, np.array([0, bad]))
    with pytest.raises(DtypeError, match="labels is int32"):
        softmax.cross_entropy(r, r.copy(), x, np.zeros(2, np.int32))
    with pytest.raises(ShapeError, match=r"labels .* 3 elements, 2 are expected"):
        softmax.cross_entropy(r, r.copy(), x, np.zeros(3, np.int64))
