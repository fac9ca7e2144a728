"""Transforms against NumPy's: numbers of points of all radices, rows around lanes, padding, threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pdl import threads
from pdl.errors import ShapeError
from pdl.kernels import fft as kernels

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(17)
COMPLEX = {"float32": "complex64", "float64": "complex128"}
#: even and odd, of each radix alone and mixed, primes and their squares, windows of speech
POINTS = [1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 22, 25, 26, 49, 77, 97, 128, 194, 200, 240, 256, 400, 441, 512, 1024]


def transformed(x: Array, n: int) -> Array:
    """Row by row."""
    y = np.empty((len(x), 1, n // 2 + 1), COMPLEX[x.dtype.name])
    kernels.forward(y, x, None, None, "spectrum", n)
    return y[:, 0]


@pytest.mark.parametrize("dtype", COMPLEX)
def test_there_and_back(dtype: str) -> None:
    for n in POINTS:
        for rows in (1, 9, 19):
            x = RNG.standard_normal((rows, n)).astype(dtype)
            y, expected = transformed(x, n), np.fft.rfft(x.astype(np.float64))
            tolerance = 1e-6 if dtype == "float32" else 1e-14
            np.testing.assert_allclose(y, expected, atol=tolerance * np.abs(expected).max(), err_msg=str(n))
            back = np.empty_like(x)
            kernels.inverse(back, y, n, 1 / n, 1 / n)
            np.testing.assert_allclose(back, x, atol=4 * tolerance * np.abs(x).max(), err_msg=str(n))


@pytest.mark.parametrize("mode", kernels.PAD_MODES)
def test_the_adjoint_is_one(mode: str) -> None:
    """<stft x, y> = <x, overlap_add y>, padding and shaping included, for many chunks of samples."""
    n, hop, left, size, samples = 24, 7, 11, 20, 9001
    frames = (samples + 2 * left - size) // hop + 1
    x, window = RNG.standard_normal((2, samples)), RNG.standard_normal(size)
    y = RNG.standard_normal((2, frames, n // 2 + 1)) + 1j * RNG.standard_normal((2, frames, n // 2 + 1))
    made, back = np.empty_like(y), np.empty_like(x)
    kernels.forward(made, x, window, None, "spectrum", n, hop, left, mode, True, 0.9)
    kernels.overlap_add(back, y, window, n, hop, left, mode, True, 0.9)
    assert np.vdot(y, made).real == pytest.approx(np.vdot(x, back), rel=1e-10)


def test_bands_are_those_of_the_matrix() -> None:
    """Filters without a number, of one, with gaps, and full ones."""
    bank = RNG.standard_normal((9, 21)) * (RNG.random((9, 21)) < 0.4)
    bank[:, 3], bank[:, 5] = 0, RNG.standard_normal(9)
    x = RNG.standard_normal((1, 200))
    power, made = np.empty((1, 47, 9)), np.empty((1, 47, 21))
    kernels.forward(power, x, None, None, "power", 16, 4)
    kernels.forward(made, x, None, bank, "power", 16, 4)
    np.testing.assert_allclose(made, power @ bank, atol=1e-12)


def test_the_same_bits_for_any_number_of_threads() -> None:
    x, window, bank = (RNG.standard_normal(s).astype(np.float32) for s in ((3, 20_000), (400,), (201, 40)))
    found = []
    for count in (1, 2, 3):
        with threads.limit(count):
            mel, y, back = np.empty((3, 123, 40), "f4"), np.empty((3, 123, 201), "c8"), np.empty_like(x)
            kernels.forward(mel, x, window, bank, "magnitude", 400, 160)
            kernels.forward(y, x, window, None, "spectrum", 400, 160)
            kernels.overlap_add(back, y, window, 400, 160)
            found.append((mel, y, back))
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


def test_sizes_that_do_not_fit_are_refused() -> None:
    x, y = np.zeros((1, 8)), np.zeros((1, 1, 5), complex)
    with pytest.raises(ShapeError, match="needs more than the 8 samples"):
        kernels.forward(np.zeros((1, 9, 5), complex), x, None, None, "spectrum", 8, 2, 8, "reflect")
    with pytest.raises(ShapeError, match=r"y .* has 5 elements, 4 are expected"):
        kernels.forward(y, x, None, None, "spectrum", 6)
    with pytest.raises(ShapeError, match="of 9 samples"):
        kernels.forward(y, x, np.zeros(9), None, "spectrum", 8)
    with pytest.raises(ShapeError, match="it has at least 1"):
        kernels.inverse(np.zeros((1, 1)), y[0], 0)
