"""Probabilities, samples and counts beside plain NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from pdl.errors import DataError, UsageError
from pdl_quantum.circuits import Circuit, bitstrings, counts, probabilities, sample, states

Array = np.ndarray


def random_states(rng: np.random.Generator, batch: int, n: int, dtype: type = np.complex128) -> Array:
    made = rng.standard_normal((batch, 1 << n)) + 1j * rng.standard_normal((batch, 1 << n))
    return (made / np.linalg.norm(made, axis=1, keepdims=True)).astype(dtype)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize(("n", "k"), [(1, 1), (3, 2), (6, 0), (11, 3), (12, 5), (14, 14), (15, 13), (17, 2)])
def test_probabilities_are_sums_of_squares(n: int, k: int, dtype: type) -> None:
    rng = np.random.default_rng(n)
    z = random_states(rng, 2, n, dtype)
    for qubits in (sorted(rng.permutation(n)[:k].tolist()), rng.permutation(n)[:k].tolist(), list(range(n - k, n))):
        weights = (np.abs(z.astype(np.complex128)) ** 2).reshape(2, *(2,) * n)
        rest = tuple(1 + q for q in range(n) if q not in qubits)
        left = sorted(qubits)
        expected = weights.sum(rest).transpose(0, *(1 + left.index(q) for q in qubits)).reshape(2, -1)
        found = probabilities(z, qubits)
        np.testing.assert_allclose(found, expected, rtol=1e-5 if dtype == np.complex64 else 1e-12)
        np.testing.assert_array_equal(probabilities(z[1], qubits), found[1])
    assert probabilities(z).shape == z.shape


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("n", [1, 5, 9, 13, 17])
def test_samples_are_those_of_the_summed_weights(n: int, dtype: type) -> None:
    """The same draws through NumPy's cumulative sum; where a draw falls on a rounded border, a neighbour."""
    z = random_states(np.random.default_rng(n), 1, n, dtype)
    z[0, ::3] = 0
    found = sample(z, 5000, seed=3)
    ends = np.cumsum(np.abs(z[0].astype(np.complex128)) ** 2)
    draws = np.random.default_rng(3).random(5000)
    expected = np.searchsorted(ends, draws * ends[-1], side="right")
    assert (found == expected).mean() > 0.98
    assert (np.abs(z[0, found]) > 0).all()
    assert np.abs(ends[found] - ends[expected]).max() < 1e-3
    np.testing.assert_array_equal(found, sample(z[0] * 8, 5000, seed=3))


def test_samples_of_several_states_and_their_counts() -> None:
    ghz = Circuit(4).h(0).cx(0, 1).cx(1, 2).cx(2, 3)
    z = np.concatenate([states(ghz), states(Circuit(4).x(1, 3))])
    drawn = sample(z, 4000, seed=1)
    assert drawn.shape == (2, 4000)
    found = counts(drawn[0], 4)
    assert set(found) == {"0000", "1111"}
    assert abs(found["0000"] - 2000) < 200  # six standard deviations
    assert list(found.values()) == sorted(found.values(), reverse=True)
    assert counts(drawn[1], 4) == {"0101": 4000}
    assert bitstrings([0, 5], 3) == ["000", "101"]
    assert sample(z[0], 0).shape == (0,)


def test_what_cannot_be_measured_is_said() -> None:
    with pytest.raises(DataError, match="state 1 has the norm 0"):
        sample(np.array([[1.0, 0], [0, 0]]), 3)
    with pytest.raises(DataError, match="nan"):
        sample(np.full(4, np.nan), 3)
    with pytest.raises(UsageError, match="different ones from 0 to 1"):
        probabilities(np.ones(4), [0, 0])
    with pytest.raises(UsageError, match="no state"):
        probabilities(np.ones(3))
    with pytest.raises(UsageError, match="none of 2 qubits"):
        bitstrings([4], 2)
