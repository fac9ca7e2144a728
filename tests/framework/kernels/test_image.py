"""The class of the highest score of each pixel, against bilinear sums in float64."""

from __future__ import annotations

import numpy as np
import pytest

from pdl.errors import ShapeError
from pdl.kernels import image
from pdl.threads import num_threads


def enlarged(x: np.ndarray, places: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """x [h, w, C] read at rows and columns that lie between its cells; outside, at the nearest."""
    for axis, at in enumerate(places):
        at = np.clip(at, 0, x.shape[axis] - 1)
        low = at.astype(int)
        share = (at - low).reshape([-1 if k == axis else 1 for k in range(3)])
        high = np.minimum(low + 1, x.shape[axis] - 1)
        x = np.take(x, low, axis) * (1 - share) + np.take(x, high, axis) * share
    return x


@pytest.mark.parametrize(
    ("shape", "size", "factor", "shift"),
    [
        ((6, 5, 4), (30, 40), (0.2, 0.125), (-0.4, -0.4375)),
        ((46, 60, 11), (360, 480), (0.125, 0.125), (0.1, -0.4)),  # a row of cells for eight of pixels, in bands
        ((40, 30, 3), (17, 9), (2.5, 3.0), (1.0, 2.0)),  # fewer pixels than cells: rows are left out
        ((3, 3, 2), (8, 8), (-0.5, 0.5), (3.0, -1.0)),  # mirrored
        ((1, 1, 256), (3, 2), (1.0, 1.0), (-5.0, 9.0)),
    ],
)
def test_highest(
    shape: tuple[int, ...], size: tuple[int, int], factor: tuple[float, float], shift: tuple[float, float]
) -> None:
    x = np.random.default_rng(0).standard_normal(shape, np.float32)
    wide = enlarged(x.astype(float), tuple(f * np.arange(n) + s for n, f, s in zip(size, factor, shift, strict=True)))
    best = np.sort(wide, axis=-1)
    clear = best[..., -1] - best[..., -2] > 1e-5
    for threads in (1, 3):
        y = np.full(size, 255, np.uint8)
        with num_threads(threads):
            image.highest(y, x, factor, shift)
        np.testing.assert_array_equal(y[clear], wide.argmax(-1)[clear])
    assert clear.mean() > 0.99


def test_the_first_of_equals() -> None:
    y = np.full((2, 3), 9, np.uint8)
    image.highest(y, np.zeros((4, 4, 5), np.float32), (1, 1), (0, 0))
    assert not y.any()


@pytest.mark.parametrize(
    ("shape", "factor"), [((0, 3, 2), (1, 1)), ((3, 3, 0), (1, 1)), ((3, 3, 257), (1, 1)), ((3, 3, 2), (np.inf, 1))]
)
def test_what_it_does_not_take(shape: tuple[int, ...], factor: tuple[float, float]) -> None:
    y = np.full((2, 2), 7, np.uint8)
    with pytest.raises((ShapeError, ValueError), match="highest"):
        image.highest(y, np.zeros(shape, np.float32), factor, (0, 0))
    assert (y == 7).all()
