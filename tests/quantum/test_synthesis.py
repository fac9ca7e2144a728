"""Matrices written as gates are these matrices, degenerate ones among them."""

from __future__ import annotations

import numpy as np
import pytest

from pdl.errors import UsageError
from pdl_quantum.circuits import Circuit
from pdl_quantum.qasm.synthesis import synthesise
from tests.quantum.circuits.reference import random_unitary

Array = np.ndarray


def near(rng: np.random.Generator, size: int, spread: float) -> Array:
    """A unitary matrix so far from the identity."""
    _, vectors = np.linalg.eigh(random_unitary(rng, size) + random_unitary(rng, size).conj().T)
    q, _ = np.linalg.qr(vectors)
    return (q * np.exp(1j * spread * rng.normal(size=size))) @ q.conj().T


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_matrices(n: int) -> None:
    rng, size = np.random.default_rng(n), 1 << n
    shuffled = np.eye(size)[rng.permutation(size)]
    cases = [
        random_unitary(rng, size), np.eye(size), -np.eye(size), 1j * np.eye(size)[::-1], shuffled,
        shuffled * np.exp(1j * rng.choice([0, np.pi / 2, np.pi, 0.3], size)), Circuit(n).h().matrix(),
        np.kron(np.eye(size // 2), random_unitary(rng, 2)), np.kron(random_unitary(rng, 2), np.eye(size // 2)),
        *(near(rng, size, 10.0**-k) for k in (1, 3, 6, 8, 9, 12)),
    ]  # fmt: skip
    for matrix in cases:
        made = synthesise(matrix)
        np.testing.assert_allclose(made.matrix(), matrix, atol=2e-13)
        assert set(made.count()) <= {"u", "ry", "rz", "cx", "pauli"}


def test_number_of_gates_is_bounded() -> None:
    assert synthesise(random_unitary(np.random.default_rng(0), 8)).count()["cx"] <= 3 * 4**3
    with pytest.raises(UsageError, match="up to 8"):
        synthesise(np.eye(512))
