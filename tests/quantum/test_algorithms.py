"""Algorithms against dense matrices, exact values and published ones."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pytest

import pdl
from pdl.errors import UsageError
from pdl_quantum import Circuit, Parameter, PauliSum
from pdl_quantum.algorithms import (
    CliffordShadow,
    GibbsState,
    LinearSolver,
    PauliShadow,
    QuantumAutoencoder,
    StateDiagonalization,
    descend,
    dynamics,
    gibbs_state,
    learn_state,
    learn_unitary,
    magnetization,
    shots_needed,
)
from pdl_quantum.algorithms.clifford_shadows import random_basis
from pdl_quantum.algorithms.shadows import median_of_means
from pdl_quantum.algorithms.states import ensemble, evolve, mixture, reduced, unitary
from pdl_quantum.circuits import root_fidelity
from pdl_quantum.circuits import states as run
from pdl_quantum.problems import heisenberg, transverse_ising

linalg = pytest.importorskip("scipy.linalg", reason="SciPy checks the matrices")
P = {"I": np.eye(2), "X": np.array([[0, 1], [1, 0]]), "Y": np.array([[0, -1j], [1j, 0]]), "Z": np.diag([1, -1])}


def layered(n: int, layers: int) -> Circuit:
    """RY, RZ on all qubits between rings of CNOT."""
    theta = Parameter("theta", (layers + 1, n, 2))
    circuit = Circuit(n)
    for layer in range(layers + 1):
        for k in range(n if layer and n > 1 else 0):
            circuit.cnot(k, (k + 1) % n)
        circuit.ry(theta[layer, :, 0]).rz(theta[layer, :, 1])
    return circuit


def random_unitary(n: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.linalg.qr(rng.normal(size=(1 << n,) * 2) + 1j * rng.normal(size=(1 << n,) * 2))[0]


def random_density(spectrum: list[float], seed: int) -> np.ndarray:
    turn = random_unitary(len(spectrum).bit_length() - 1, seed)
    return (turn * spectrum) @ turn.conj().T


# -- states ------------------------------------------------------------------------------------------------------------
def test_states_and_parts_are_those_of_matrices_and_gradients_those_of_differences() -> None:
    circuit, rng = layered(3, 1), np.random.default_rng(0)
    values = rng.normal(size=circuit.num_parameters)
    some = rng.normal(size=(2, 8)) + 1j * rng.normal(size=(2, 8))
    some /= np.linalg.norm(some, axis=1, keepdims=True)
    theta = pdl.as_tensor(values)
    matrix = unitary(circuit, theta).numpy()
    np.testing.assert_allclose(matrix, run(circuit, values, initial=np.eye(8)).T, atol=1e-12)
    np.testing.assert_allclose(evolve(circuit, theta, some).numpy(), some @ matrix.T, atol=1e-12)
    parts = reduced(pdl.as_tensor(some), 3, [2, 0]).numpy()
    axes = some.reshape(2, 2, 2, 2)
    np.testing.assert_allclose(parts, np.einsum("kabc,kdbf->kcafd", axes, axes.conj()).reshape(2, 4, 4), atol=1e-12)

    def loss(p: pdl.Tensor) -> pdl.Tensor:
        rho = mixture(evolve(circuit, p, some), [0.3, 0.7])
        return pdl.real(pdl.trace(rho @ rho @ pdl.as_tensor(np.diag(np.arange(8.0)))))

    theta = pdl.tensor(values, requires_grad=True)
    loss(theta).backward()
    step = 1e-5
    slopes = [
        float((loss(pdl.as_tensor(values + step * e)) - loss(pdl.as_tensor(values - step * e))).numpy()) / (2 * step)
        for e in np.eye(len(values))
    ]
    assert theta.grad is not None
    np.testing.assert_allclose(theta.grad.numpy(), slopes, atol=1e-8)


def test_ensembles_and_fidelity() -> None:
    a, b = random_density([0.5, 0.3, 0.2, 0.0], 1), random_density([0.7, 0.1, 0.1, 0.1], 2)
    weights, vectors = ensemble(a)
    assert len(weights) == 3
    np.testing.assert_allclose(mixture(pdl.as_tensor(vectors), weights).numpy(), a, atol=1e-12)
    root = linalg.sqrtm(a)
    assert root_fidelity(a, b) == pytest.approx(np.trace(linalg.sqrtm(root @ b @ root)).real, abs=1e-6)
    with pytest.raises(UsageError, match="trace 1"):
        ensemble(2 * a)


def test_descend_keeps_the_best_and_stops_where_nothing_changes() -> None:
    found = descend(lambda x: ((x - 3.0) * (x - 3.0)).sum(), np.zeros(2), steps=400, lr=0.3, tolerance=1e-12)
    np.testing.assert_allclose(found.parameters, [3, 3], atol=1e-3)
    assert found.loss == min(found.losses)
    assert len(found.losses) < 400


# -- evolution ---------------------------------------------------------------------------------------------------------
def test_a_heisenberg_chain_evolves_as_the_exponential_of_its_matrix() -> None:
    chain = heisenberg(4, j=[1.0, 0.8, 1.2], field=0.3)
    matrix = sum(c * reduce(np.kron, [P[letter] for letter in word]) for word, c in chain.terms.items())
    start = Circuit(4).x(1).h(2)
    z, times = run(start)[0], np.array([0.0, 0.3, 1.0])
    seen = [magnetization(4), PauliSum.single(4, "X1 X2")]
    behind = np.stack([linalg.expm(-1j * t * matrix) @ z for t in times])
    exact = np.stack([np.einsum("ti,ij,tj->t", behind.conj(), o.matrix(), behind).real for o in seen], 1)
    errors = [np.abs(dynamics(chain, seen, times, steps=s, order=2, initial=start) - exact).max() for s in (8, 16)]
    assert errors[0] < 0.1
    assert errors[0] / errors[1] == pytest.approx(4, rel=0.1)  # second order
    assert np.abs(dynamics(chain, seen, times, steps=6, order=4, initial=z) - exact).max() < 5e-3


def test_the_transverse_ising_ring_has_its_exact_ground_energy() -> None:
    n = 6  # free fermions: -sum of 2 |sin(k/2)|, k odd multiples of pi/n, at the critical field
    exact = -sum(2 * abs(np.sin((2 * m + 1) * np.pi / (2 * n))) for m in range(n))
    assert np.linalg.eigvalsh(transverse_ising(n, ring=True).matrix())[0] == pytest.approx(exact)


# -- Gibbs states ------------------------------------------------------------------------------------------------------
def ising_triangle() -> GibbsState:
    """Three spins of which each pair is joined, beta 1.5, one qubit in front, one layer of RY and CNOT."""
    theta = Parameter("theta", (2, 4))
    circuit = Circuit(4).ry(theta[0]).cnot(0, 1).cnot(1, 2).cnot(2, 3).cnot(3, 0).ry(theta[1])
    return GibbsState(PauliSum(3, {"ZZI": -1.0, "IZZ": -1.0, "ZIZ": -1.0}), circuit, beta=1.5)


def test_a_gibbs_state_reaches_the_fidelity_published_for_these_settings() -> None:
    problem = ising_triangle()
    matrix = linalg.expm(-1.5 * problem.hamiltonian.matrix())
    np.testing.assert_allclose(gibbs_state(problem.hamiltonian, 1.5), matrix / np.trace(matrix), atol=1e-12)
    found = problem.prepare(steps=50, lr=0.5, seed=1, starts=3)
    assert problem.fidelity(found.parameters) > 0.9955**2  # published as its root
    assert found.loss == pytest.approx(-3.414, abs=1e-3)


def test_the_free_energy_cut_off_at_a_high_order_is_the_free_energy() -> None:
    problem = ising_triangle()
    problem.order = 200
    theta = np.random.default_rng(3).normal(size=8)
    rho = problem.density(pdl.as_tensor(theta)).numpy()
    values = np.linalg.eigvalsh(rho)
    entropy = -sum(v * np.log(v) for v in values if v > 1e-12)
    exact = np.trace(rho @ problem.hamiltonian.matrix()).real - entropy / 1.5
    assert float(problem.free_energy(pdl.as_tensor(theta)).numpy()) == pytest.approx(exact, abs=2e-3)


# -- diagonalisation, autoencoder, learning ----------------------------------------------------------------------------
@pytest.mark.parametrize("cost", ["ordered", "dephased"])
def test_diagonalisation_finds_the_spectrum(cost: str) -> None:
    problem = StateDiagonalization(random_density([0.5, 0.3, 0.1, 0.1], 13), layered(2, 3), cost)  # type: ignore[arg-type]
    found = problem.diagonalize(steps=200, lr=0.1, seed=0)
    np.testing.assert_allclose(problem.spectrum(found.parameters), [0.5, 0.3, 0.1, 0.1], atol=1e-3)


def test_an_autoencoder_compresses_states_of_a_subspace() -> None:
    turn = random_unitary(3, 4)
    rng = np.random.default_rng(5)
    codes = rng.normal(size=(6, 4)) + 1j * rng.normal(size=(6, 4))
    coder = QuantumAutoencoder(layered(3, 5), codes @ turn[:, :4].T, trash=[0])  # rank 4: two qubits hold them
    found = coder.train(steps=250, lr=0.1, seed=0)
    assert found.loss < 0.01
    restored = coder.restored(found.parameters)
    assert restored.min() > 0.97
    low = coder.restored(np.zeros(coder.circuit.num_parameters))
    assert low.mean() < 0.9  # a circuit that was not trained loses them


def test_an_autoencoder_of_a_mixed_state_keeps_its_largest_eigenvalues() -> None:
    """The least loss is the weight of the eigenvalues that do not fit."""
    weights, vectors = ensemble(random_density([0.4, 0.3, 0.2, 0.1], 8))
    coder = QuantumAutoencoder(layered(2, 4), vectors, trash=[1], weights=weights)
    assert coder.train(steps=200, lr=0.1, seed=0).loss == pytest.approx(0.3, abs=1e-3)


def test_linear_equations_are_solved() -> None:
    a, b = PauliSum(2, {"II": 1.0, "XI": 0.25, "ZZ": 0.3, "IY": 0.1}), Circuit(2).h().ry(0.3, 0)
    solver = LinearSolver(a, b, layered(2, 4))
    found = solver.solve(steps=300)
    exact = np.linalg.solve(a.matrix(), run(b)[0])
    assert found.loss < 1e-5
    np.testing.assert_allclose(solver.solution(found.parameters), exact, atol=0.02)
    with pytest.raises(UsageError, match="singular"):
        LinearSolver(np.zeros((4, 4)), run(b)[0], layered(2, 1))


def test_states_and_matrices_are_learned() -> None:
    rng = np.random.default_rng(6)
    target = rng.normal(size=8) + 1j * rng.normal(size=8)
    target /= np.linalg.norm(target)
    circuit = layered(3, 3)
    found = learn_state(circuit, target, steps=200)
    made = run(circuit, found.parameters)[0]
    assert abs(np.vdot(target, made)) ** 2 == pytest.approx(1 - found.loss, abs=1e-10)
    assert found.loss < 1e-4
    two = layered(2, 4)
    matrix = random_unitary(2, 7)
    fit = learn_unitary(two, matrix, steps=300)
    close = unitary(two, pdl.as_tensor(fit.parameters)).numpy()
    assert abs(np.trace(matrix.conj().T @ close)) / 4 > 0.9995


# -- shadows -----------------------------------------------------------------------------------------------------------
def test_shadows_are_unbiased_with_the_variance_of_theory() -> None:
    state = run(Circuit(3).h(0).cnot(0, 1).cnot(1, 2).ry(0.4, 2))[0]
    shadow = PauliShadow.measure(state, 40_000, seed=1)
    for word in ("ZII", "ZZI", "XXZ", "IYI", "YYX", "III"):
        exact = float(PauliSum(3, {word: 1.0}).expectation(state[None])[0])
        estimates, k = shadow.estimates(word), 3 - word.count("I")
        assert abs(estimates.mean() - exact) < 4 * np.sqrt((3.0**k - exact**2) / len(shadow)) + 1e-12, word
        assert estimates.var() == pytest.approx(
            3.0**k - exact**2, rel=0.1, abs=1e-12
        )  # a word's square is 3^k 3^k / 3^k
    energy = PauliSum(3, {"ZZI": 0.5, "XXX": -1.0, "III": 2.0})
    assert shadow.expectation(energy, groups=10) == pytest.approx(float(energy.expectation(state[None])[0]), abs=0.12)


def test_bases_are_drawn_evenly() -> None:
    """On two qubits there are 15 groups of words that commute: 15 words with 6 partners each, 6 such pairs a group."""
    rng, seen = np.random.default_rng(0), dict[frozenset[tuple[int, int]], int]()
    for _ in range(3000):
        (a, b), (c, d) = random_basis(2, rng)
        group = frozenset({(a, b), (c, d), (a ^ c, b ^ d)})
        seen[group] = seen.get(group, 0) + 1
    assert len(seen) == 15
    assert sum((count - 200) ** 2 / 200 for count in seen.values()) < 36  # chi squared, 14 degrees: 0.1 %


def test_clifford_shadows_are_unbiased_and_know_fidelities() -> None:
    ghz = run(Circuit(3).h(0).cnot(0, 1).cnot(1, 2))[0]
    tilted = run(Circuit(3).h(0).cnot(0, 1).cnot(1, 2).ry(0.8, 1))[0]
    shadow = CliffordShadow.measure(tilted, 4000, seed=1)
    exact = abs(np.vdot(ghz, tilted)) ** 2
    assert shadow.fidelity(ghz, groups=5) == pytest.approx(exact, abs=5 * np.sqrt(3 / 4000))
    for word in ("XXX", "ZZI", "IYZ", "III"):
        values = shadow.estimates(PauliSum(3, {word: 1.0}))
        value = float(PauliSum(3, {word: 1.0}).expectation(tilted[None])[0])
        assert abs(values.mean() - value) < 4 * np.sqrt(9 / 4000), word
        assert values.var() <= 9 + 1, word
    whole = PauliSum(3, {"III": 1.0, "XXX": 0.5, "ZZI": -1.0})
    assert shadow.expectation(whole) == pytest.approx(float(whole.expectation(tilted[None])[0]), abs=0.3)


def test_as_many_shots_as_the_bound_asks_for_are_enough() -> None:
    shots, groups = shots_needed(2, observables=9, error=0.5, failure=0.05)
    assert (shots, groups) == (12 * 1224, 12)
    state = run(layered(4, 2), np.random.default_rng(2).normal(size=24))[0]
    shadow = PauliShadow.measure(state, shots, seed=3)
    for word in (a + b + "II" for a in "XYZ" for b in "XYZ"):
        exact = float(PauliSum(4, {word: 1.0}).expectation(state[None])[0])
        assert abs(shadow.expectation(PauliSum(4, {word: 1.0}), groups=groups) - exact) < 0.5
    assert median_of_means(np.array([1.0, 1.0, 2.0, 2.0, 90.0, 90.0]), 3) == 2.0
    with pytest.raises(UsageError, match="length"):
        PauliShadow.measure(2 * state, 10)
