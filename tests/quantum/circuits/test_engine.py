"""The engine beside dense matrices: states, sums of Pauli products, adjoint gradients."""

from __future__ import annotations

import numpy as np
import pytest

from pdl.kernels import statevector as kernels
from pdl_quantum.circuits import Circuit, PauliSum, expectations, gradients, states
from pdl_quantum.circuits.compile import compile_gates
from pdl_quantum.circuits.gates import CONTROLLED, KINDS
from pdl_quantum.circuits.schedule import local_qubits
from tests.quantum.circuits.reference import dense_state, dense_sum, random_circuit, random_sum


@pytest.mark.parametrize("name", sorted({*KINDS, *CONTROLLED}))
def test_every_gate_is_its_matrix(name: str) -> None:
    kind, controls = CONTROLLED.get(name, (name, 0))
    rng = np.random.default_rng(sum(map(ord, name)))
    n = controls + KINDS[kind].qubits + 1
    qubits = [int(q) for q in rng.permutation(n)][: n - 1]
    circuit = Circuit(n).gate(name, *rng.uniform(-7, 7, KINDS[kind].angles), *qubits)
    start = rng.standard_normal(1 << n) + 1j * rng.standard_normal(1 << n)
    np.testing.assert_allclose(states(circuit, initial=start)[0], dense_state(circuit, None, start), atol=1e-12)
    undone = states(circuit.inverse(), initial=states(circuit, initial=start))[0]
    np.testing.assert_allclose(undone, start, atol=1e-12)


@pytest.mark.parametrize("seed", range(12))
def test_random_circuits(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 8))
    circuit = random_circuit(rng, n, int(rng.integers(1, 40)))
    values = rng.uniform(-4, 4, (3, 6))
    found = states(circuit, values)
    for b in range(3):
        np.testing.assert_allclose(found[b], dense_state(circuit, values[b]), atol=1e-12)
    single = states(circuit, values, dtype=np.complex64)
    np.testing.assert_allclose(single, found, atol=2e-5)


def test_a_batch_is_its_rows_whatever_they_share() -> None:
    rng = np.random.default_rng(3)
    circuit = random_circuit(rng, 5, 60)
    values = np.tile(rng.uniform(-4, 4, 6), (7, 1))
    for varied in ([], [2], [0, 4, 5]):
        values[:, varied] = rng.uniform(-4, 4, (7, len(varied)))
        found, slopes = states(circuit, values), gradients(circuit, random_sum(rng, 5, 4), values)[1]
        assert len(np.unique(slopes.round(9), axis=0)) == (7 if varied else 1)
        for b in range(7):
            np.testing.assert_allclose(found[b], states(circuit, values[b])[0], atol=1e-13)


@pytest.mark.parametrize("seed", range(6))
def test_tiles_and_sweeps(seed: int) -> None:
    """States larger than a tile: bits outside of it, several sweeps, several tiles side by side."""
    rng = np.random.default_rng(100 + seed)
    n, local = int(rng.integers(9, 12)), 8
    circuit = random_circuit(rng, n, 60)
    values = rng.uniform(-4, 4, (1, 6))
    program = compile_gates(circuit.gates, n, circuit.columns(), local=local, run=4)
    assert program.stream[0] > 1
    z = np.zeros((1, 1 << n), complex)
    z[:, 0] = 1
    bound = program.bind(values)
    kernels.run(z, program.stream, bound)
    np.testing.assert_allclose(z[0], dense_state(circuit, values), atol=1e-12)
    anew = np.full_like(z, np.nan)
    kernels.run(anew, program.stream, bound, True)
    np.testing.assert_allclose(anew, z, atol=1e-14)
    observable = random_sum(rng, n, 5)
    l = observable.apply(z)  # noqa: E741
    sums = np.zeros((1, program.gradients))
    kernels.backward(z, l, program.stream, bound, sums)
    assert abs(z[0, 0] - 1) < 1e-12
    np.testing.assert_allclose(program.vjp(sums, values), gradients(circuit, observable, values)[1], atol=1e-11)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_large_tiles(dtype: type) -> None:
    """Tiles of 2^13 amplitudes, worked on by pieces of the first cache, beside tiles of 2^8; and flips in rows."""
    rng = np.random.default_rng(1)  # of a circuit whose Pauli products are short: the reference has their matrices
    n = 13
    circuit = random_circuit(rng, n, 50)
    for _ in range(40):
        a, b, c = (int(q) for q in rng.permutation(n)[:3])
        circuit.cx(a, b) if rng.random() < 0.7 else circuit.ccx(a, b, c)
    circuit.append(random_circuit(rng, n, 50))
    values = rng.uniform(-4, 4, (1, 6))
    z = states(circuit, values, dtype=dtype)
    np.testing.assert_allclose(z[0], dense_state(circuit, values), atol=1e-12 if dtype == np.complex128 else 1e-4)
    observable = random_sum(rng, n, 5)
    slopes = []
    for local in (13, 8):
        program = compile_gates(circuit.gates, n, circuit.columns(), local=local, run=4)
        there, bound = z.copy(), program.bind(values)
        sums = np.zeros((1, program.gradients))
        kernels.backward(there, observable.apply(z), program.stream, bound, sums)
        assert abs(there[0, 0] - 1) < (1e-12 if dtype == np.complex128 else 1e-3)
        slopes.append(program.vjp(sums, values))
    np.testing.assert_allclose(*slopes, atol=1e-11 if dtype == np.complex128 else 1e-2)


def test_the_largest_tiles_and_the_fewest() -> None:
    """Tiles of 2^16 amplitudes, which many sweeps of small ones agree with."""
    n, rng = 17, np.random.default_rng(0)
    circuit, values = random_circuit(rng, n, 60), rng.uniform(-4, 4, (1, 6))
    made = []
    for local in (16, 9):
        program = compile_gates(circuit.gates, n, circuit.columns(), local=local, run=4)
        z = np.empty((1, 1 << n), complex)
        kernels.run(z, program.stream, program.bind(values), True)
        made.append(z)
    np.testing.assert_allclose(*made, atol=1e-13)
    for n in range(1, 31):
        for threads in (1, 2, 8):
            assert min(n, 10) <= local_qubits(n, 1, threads) <= min(n, 16)
            if threads > 1 and n > 10 + threads:  # tiles for all threads
                assert 1 << (n - local_qubits(n, 1, threads)) >= 2 * threads


@pytest.mark.parametrize("seed", range(8))
def test_sums_of_pauli_products(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 7))
    a, b = random_sum(rng, n, 4), random_sum(rng, n, 3)
    z = rng.standard_normal((2, 1 << n)) + 1j * rng.standard_normal((2, 1 << n))
    matrix = dense_sum(a)
    np.testing.assert_allclose(a.apply(z), z @ matrix.T, atol=1e-12)
    np.testing.assert_allclose(a.expectation(z), np.einsum("bi,ij,bj->b", z.conj(), matrix, z).real, atol=1e-11)
    np.testing.assert_allclose(dense_sum(a * b - b), matrix @ dense_sum(b) - dense_sum(b), atol=1e-12)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_large_sums_on_large_states(dtype: type) -> None:
    """Many terms that flip the same bits, of states of several pieces, term by term in NumPy."""
    rng = np.random.default_rng(2)
    n, x = 12, np.arange(1 << 12)
    flips = [tuple(rng.choice(list("IX"), n)) for _ in range(4)]
    words = {"".join({"I": "Z", "X": "Y"}[f] if rng.random() < 0.4 else f for f in flip) for flip in flips * 25}
    observable = PauliSum(n, {word: float(rng.normal()) for word in sorted(words)})
    z = (rng.standard_normal((2, 1 << n)) + 1j * rng.standard_normal((2, 1 << n))).astype(dtype) / 64
    expected = np.zeros((2, 1 << n), complex)
    for word, factor in observable.terms.items():
        moved = sum(1 << (n - 1 - q) for q, letter in enumerate(word) if letter in "XY")
        signs = sum(1 << (n - 1 - q) for q, letter in enumerate(word) if letter in "YZ")
        parity = np.bitwise_count(x & signs) & 1
        expected[:, x ^ moved] += factor * 1j ** word.count("Y") * z * (1 - 2.0 * parity)
    made, energies = observable.applied(z)
    tolerance = 1e-4 if dtype == np.complex64 else 1e-12
    np.testing.assert_allclose(made, expected, atol=tolerance)
    np.testing.assert_allclose(energies, np.einsum("bi,bi->b", z.conj(), expected).real, atol=10 * tolerance)
    np.testing.assert_allclose(observable.expectation(z), energies, atol=tolerance)


@pytest.mark.parametrize("seed", range(10))
def test_adjoint_gradients_are_central_differences(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 7))
    circuit = random_circuit(rng, n, 30)
    observable, values = random_sum(rng, n, 4), rng.uniform(-4, 4, (2, 6))
    value, slope = gradients(circuit, observable, values)
    np.testing.assert_allclose(value, expectations(circuit, observable, values), atol=1e-12)
    step = 1e-4
    for k in range(6):
        at = [expectations(circuit, observable, values + np.eye(6)[k] * s * step) for s in (-2, -1, 1, 2)]
        differences = (at[0] - 8 * at[1] + 8 * at[2] - at[3]) / (12 * step)
        np.testing.assert_allclose(slope[:, k], differences, atol=2e-8)
