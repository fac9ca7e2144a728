"""Distances of all pairs against NumPy: sizes around lanes, tiles and blocks, columns that meet, threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pdl import threads
from pdl.errors import ShapeError, UsageError
from pdl.kernels import distance as kernels
from pdl.ops.distance import cdist

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(12)
SIZES = [(1, 1, 2), (4, 16, 32), (5, 17, 34), (3, 530, 6), (70, 66, 130)]


def reference(x: Array, y: Array, g: Array, metric: str) -> tuple[Array, Array, Array]:
    """Distances and gradients in float64, by the differences of all pairs."""
    u = x[:, None].astype(np.float64) - y[None]
    if metric == "complex":
        half = u.shape[2] // 2
        size = np.tile(np.hypot(u[..., :half], u[..., half:]), 2)
        d, slope = size[..., :half].sum(2), u / np.where(size > 0, size, 1)
    elif metric == "l1":
        d, slope = np.abs(u).sum(2), np.sign(u)
    else:
        d, slope = np.sqrt((u * u).sum(2)), u
    each = g[..., None] * slope
    return d, each.sum(1), -each.sum(0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("metric", ["l1", "l2", "complex"])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_distances_and_gradients(size: tuple[int, int, int], metric: str, dtype: str) -> None:
    n, k, columns = size
    x, y, g = (RNG.standard_normal(shape).astype(dtype) for shape in ((n, columns), (k, columns), (n, k)))
    y[0] = x[-1]  # a pair that meets in all columns
    out, dx, dy = np.empty_like(g), np.empty_like(x), np.empty_like(y)
    kernels.forward(out, x, y, metric)
    kernels.backward(dx, dy, g, x, y, metric)
    tolerance = 2e-6 if dtype == "float32" else 1e-13
    for found, wanted in zip((out, dx, dy), reference(x, y, g, metric), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance * max(np.abs(wanted).max(), 1e-8))


@pytest.mark.parametrize("metric", ["l1", "l2", "complex"])
def test_the_same_bits_for_any_number_of_threads(metric: str) -> None:
    x, y, g = (RNG.standard_normal(shape).astype(np.float32) for shape in ((130, 96), (270, 96), (130, 270)))
    found = []
    for count in (1, 2, 3):
        with threads.limit(count):
            out, dx, dy = np.empty_like(g), np.empty_like(x), np.empty_like(y)
            kernels.forward(out, x, y, metric)
            kernels.backward(dx, dy, g, x, y, metric)
            found.append((out, dx, dy))
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


def test_what_is_empty_is_zero() -> None:
    x, none = np.ones((2, 4)), np.zeros((0, 4))
    dx, dy = np.full((2, 4), np.nan), np.zeros((0, 4))
    kernels.backward(dx, dy, np.zeros((2, 0)), x, none, "l1")
    assert not dx.any()
    out = np.full((2, 3), np.nan)
    kernels.forward(out, np.zeros((2, 0)), np.zeros((3, 0)), "l2")
    assert not out.any()
    assert cdist(none, x).shape == (0, 2)


def test_what_does_not_fit_is_told() -> None:
    x = np.ones((2, 3), np.float32)
    with pytest.raises(ShapeError, match=r"x \(2, 3\) float32 and y \(2, 4\)"):
        cdist(x, np.ones((2, 4), np.float32))
    with pytest.raises(ShapeError, match="3 columns are no real and imaginary parts"):
        cdist(x, x, metric="complex")
    with pytest.raises(UsageError, match="metric='cosine' is none of l1, l2, complex"):
        cdist(x, x, metric="cosine")  # type: ignore[arg-type]
    for out, metric in ((np.ones((2, 3), np.float32), "l1"), (np.ones((2, 2), np.float32), "complex")):
        with pytest.raises(ShapeError, match="do not fit"):
            kernels.forward(out, x, x, metric)
    with pytest.raises(ShapeError, match="are not like x and y"):
        kernels.backward(x, np.ones((1, 3), np.float32), np.ones((2, 2), np.float32), x, x, "l1")
