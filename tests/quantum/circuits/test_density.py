"""Density matrices beside dense Kraus sums, and quantities of them beside SciPy and closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import logm, sqrtm

from pdl.errors import UsageError
from pdl_quantum.circuits import (
    Circuit,
    Parameter,
    amplitude_damping,
    bit_probabilities,
    density,
    density_expectations,
    density_of,
    depolarizing,
    entropy,
    fidelity,
    partial_trace,
    purity,
    state_fidelity,
    states,
    trace_distance,
)
from tests.quantum.circuits.reference import (
    dense_density,
    dense_sum,
    random_circuit,
    random_instructions,
    random_sum,
)


def random_rho(rng: np.random.Generator, n: int, rank: int) -> np.ndarray:
    a = rng.standard_normal((1 << n, rank)) + 1j * rng.standard_normal((1 << n, rank))
    rho = a @ a.conj().T
    return np.asarray(rho / np.trace(rho))


@pytest.mark.parametrize("seed", range(12))
def test_circuits_of_everything_are_dense_kraus_sums(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 5))
    circuit = random_instructions(rng, n, 8)
    values = rng.uniform(-4, 4, (2, 6))
    found, observable = density(circuit, values), random_sum(rng, n, 5)
    records = bit_probabilities(circuit, values)
    for b in range(2):
        parts = dense_density(circuit, values[b])
        total = np.asarray(sum(parts.values()))
        np.testing.assert_allclose(found[b], total, atol=1e-12)
        expected = np.trace(dense_sum(observable) @ total).real
        np.testing.assert_allclose(density_expectations(circuit, observable, values)[b], expected, atol=1e-11)
        messages = np.zeros(8)
        for bits, part in parts.items():
            messages[int("".join(map(str, bits)), 2)] += np.trace(part).real
        np.testing.assert_allclose(records[b], messages, atol=1e-12)


def test_gates_alone_give_the_pure_state() -> None:
    rng = np.random.default_rng(5)
    circuit, values = random_circuit(rng, 5, 40), rng.uniform(-4, 4, (3, 6))
    np.testing.assert_allclose(density(circuit, values), density_of(states(circuit, values)), atol=1e-12)
    single = density(circuit, values, dtype=np.complex64)
    assert single.dtype == np.complex64
    np.testing.assert_allclose(single, density_of(states(circuit, values)), atol=2e-5)


def test_initial_density_matrices() -> None:
    rng = np.random.default_rng(1)
    theta = Parameter("theta", (2,))
    circuit = Circuit(2).ry(theta, 0, 1).channel(amplitude_damping(0.2)).cx(0, 1)
    values = rng.uniform(-3, 3, (3, 2))
    given = np.stack([random_rho(rng, 2, 3) for _ in range(3)])
    together = density(circuit, values, initial=given)
    for b in range(3):
        np.testing.assert_allclose(density(circuit, values[b], initial=given[b])[0], together[b], atol=1e-14)
    pure = np.array([0.6, 0, 0.8j, 0])
    np.testing.assert_allclose(density(circuit, values[0], initial=pure),
                               density(circuit, values[0], initial=density_of(pure)), atol=1e-14)  # fmt: skip
    with pytest.raises(UsageError, match="an initial density matrix"):
        density(circuit, values, initial=given[:2])


def test_teleportation_in_mixed_states() -> None:
    """A conditioned circuit: whatever was measured, the state arrives."""
    circuit = Circuit(3, 2).u(0.7, 0.3, -1.1, 0).h(1).cx(1, 2).cx(0, 1).h(0).measure(0, 0).measure(1, 1)
    circuit.when({1: 1}, lambda c: c.x(2)).when({0: 1}, lambda c: c.z(2))
    sent = states(Circuit(1).u(0.7, 0.3, -1.1, 0))[0]
    np.testing.assert_allclose(partial_trace(density(circuit), [2])[0], density_of(sent), atol=1e-12)
    np.testing.assert_allclose(bit_probabilities(circuit), np.full((1, 4), 0.25), atol=1e-12)


def test_white_noise_on_a_bell_state() -> None:
    """Werner's state: F = 1 - 3p/4, and the eigenvalues behind its entropy, in closed form."""
    bell, p = Circuit(2).h(0).cx(0, 1), 0.3
    rho, pure = density(bell.copy().channel(depolarizing(p, 2), 0, 1))[0], states(bell)[0]
    lam = np.array([1 - 3 * p / 4, p / 4, p / 4, p / 4])
    assert state_fidelity(pure, rho) == pytest.approx(lam[0], abs=1e-12)
    assert fidelity(density_of(pure), rho) == pytest.approx(lam[0], abs=1e-12)
    assert purity(rho) == pytest.approx((lam**2).sum(), abs=1e-12)
    assert entropy(rho) == pytest.approx(-(lam * np.log2(lam)).sum(), abs=1e-12)
    assert trace_distance(density_of(pure), rho) == pytest.approx(3 * p / 4, abs=1e-12)
    np.testing.assert_allclose(partial_trace(rho, [1]), np.eye(2) / 2, atol=1e-12)


def test_quantities_beside_scipy() -> None:
    rng = np.random.default_rng(3)
    rho, sigma = (np.stack([random_rho(rng, 3, 8) for _ in range(2)]) for _ in range(2))
    for b in range(2):
        root = sqrtm(rho[b])
        assert fidelity(rho, sigma)[b] == pytest.approx(np.trace(sqrtm(root @ sigma[b] @ root)).real ** 2, abs=1e-9)
        assert entropy(rho)[b] == pytest.approx(-np.trace(rho[b] @ logm(rho[b])).real / np.log(2), abs=1e-9)
        singular = np.linalg.svd(rho[b] - sigma[b], compute_uv=False)
        assert trace_distance(rho, sigma)[b] == pytest.approx(singular.sum() / 2, abs=1e-12)
        dense = np.einsum("abcdbf->cafd", rho[b].reshape((2,) * 6)).reshape(4, 4)
        np.testing.assert_allclose(partial_trace(rho, [2, 0])[b], dense, atol=1e-14)
    a, b = (rng.standard_normal((4, 8)) + 1j * rng.standard_normal((4, 8)) for _ in range(2))
    np.testing.assert_allclose(state_fidelity(a, b), np.abs(np.einsum("bi,bi->b", a.conj(), b)) ** 2, atol=1e-12)
    with pytest.raises(UsageError, match="must be different ones"):
        partial_trace(rho, [0, 0])
