"""Distances of what is said and what was recorded."""

from __future__ import annotations

import numpy as np
import pytest

from pdl_speech.synthesis.metrics import cepstra, distortion, mel_difference, warped


def test_the_distortion_is_the_deviation_of_spectra_in_decibels() -> None:
    """Parseval: with all cepstra but c_0, the root mean square difference of spectra (dB) whose mean is the same."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 3, 16))
    a, b = (x - x.mean(axis=1, keepdims=True) for x in (a, b))
    found = np.diag(distortion(cepstra(a, 15), cepstra(b, 15)))
    np.testing.assert_allclose(found, np.sqrt(((10 / np.log(10) * (a - b)) ** 2).mean(axis=1)), rtol=1e-9)


@pytest.mark.parametrize("seed", range(10))
def test_paths_are_the_cheapest(seed: int) -> None:
    rng = np.random.default_rng(seed)
    costs = rng.random(rng.integers(1, 9, 2))
    n, m = costs.shape
    sums = np.full((n + 1, m + 1), np.inf)
    sums[0, 0] = 0
    for i in range(n):
        for j in range(m):
            sums[i + 1, j + 1] = costs[i, j] + min(sums[i, j], sums[i, j + 1], sums[i + 1, j])
    rows, columns = warped(costs)
    assert costs[rows, columns].sum() == pytest.approx(sums[-1, -1])
    assert (rows[0], columns[0], rows[-1], columns[-1]) == (0, 0, n - 1, m - 1)
    steps = np.stack([np.diff(rows), np.diff(columns)])
    assert ((steps >= 0) & (steps <= 1)).all()
    assert (steps.sum(axis=0) > 0).all()


def test_what_is_said_slower_is_the_same() -> None:
    mel = np.random.default_rng(0).normal(size=(20, 16))
    assert mel_difference(np.repeat(mel, 2, axis=0), mel) == 0
    assert mel_difference(mel + 1, mel) == pytest.approx(1)
