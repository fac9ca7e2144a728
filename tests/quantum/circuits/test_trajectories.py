"""Shots beside the density matrix: frequencies of records, what is certain, and what a seed fixes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chisquare

from pdl.errors import UsageError
from pdl_quantum.circuits import (
    Circuit,
    NoiseModel,
    amplitude_damping,
    bit_flip,
    bit_probabilities,
    depolarizing,
    kraus_channel,
    noisy,
    run,
    states,
    trajectories,
)
from pdl_quantum.circuits.gates import PAULIS
from tests.quantum.circuits.reference import random_circuit, random_instructions


def assert_fits(found: np.ndarray, expected: np.ndarray) -> None:
    """Pearson's test of counts against probabilities; rare records together. Seeds are fixed: it passes or not."""
    assert not found[expected < 1e-13].any()
    rare = expected * found.sum() < 5
    counts, chances = np.append(found[~rare], found[rare].sum()), np.append(expected[~rare], expected[rare].sum())
    wanted = chances > 1e-13
    if wanted.sum() > 1:
        assert chisquare(counts[wanted], chances[wanted] * counts.sum()).pvalue > 1e-3


@pytest.mark.parametrize("seed", range(12))
def test_records_of_circuits_of_everything(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 5))
    circuit = random_instructions(rng, n, 8)
    for qubit in range(n):
        circuit.measure(qubit, 3 + qubit, confusion=[[0.95, 0.05], [0.1, 0.9]] if qubit == 1 else None)
    values, shots = rng.uniform(-4, 4, 6), 20_000
    found = np.bincount(run(circuit, shots, values, seed=seed).indices(), minlength=1 << circuit.num_bits)
    assert_fits(found, bit_probabilities(circuit, values)[0])


def test_channels_of_two_qubits_that_are_no_pauli_words() -> None:
    """Kraus operators that mix and depend on the state: amplitude damping of both, seen in a turned basis."""
    one = amplitude_damping(0.4).kraus
    both = np.array([np.kron(a, b) for a in one for b in one])
    turned = [np.kron(PAULIS["X"], PAULIS["Z"]) * 0.6, np.eye(4) * 0.8]
    circuit = random_circuit(np.random.default_rng(1), 3, 12)
    circuit.channel(both, 2, 0).channel(kraus_channel(turned), 1, 2).h(0, 1).channel(amplitude_damping(0.3), 1)
    circuit.ry(0.4).measure_all()
    values = np.linspace(-2, 2, 6)
    for method in ("trajectories", "density"):
        found = run(circuit, 20_000, values, seed=3, method=method)
        assert_fits(np.bincount(found.indices(), minlength=8), bit_probabilities(circuit, values)[0])
    np.testing.assert_array_equal(run(circuit, 20_000, values, seed=3).bits, found.bits)


def test_teleportation_arrives_in_every_shot() -> None:
    """Turned back behind the teleportation, the third qubit is 0 in all shots, whatever was measured."""
    circuit = Circuit(3, 3).u(0.7, 0.3, -1.1, 0).h(1).cx(1, 2).cx(0, 1).h(0).measure(0, 0).measure(1, 1)
    circuit.when({1: 1}, lambda c: c.x(2)).when({0: 1}, lambda c: c.z(2))
    circuit.append(Circuit(1).u(0.7, 0.3, -1.1, 0).inverse(), [2]).measure(2, 2)
    counts = run(circuit, 20_000, seed=1).counts()
    assert sorted(counts) == ["000", "010", "100", "110"]
    assert_fits(np.array(list(counts.values())), np.full(4, 0.25))


def test_reset_and_feedback_of_misread_bits() -> None:
    """A flip on the condition of what was read, not of what was: P(1) is the chance of misreading."""
    circuit = Circuit(1, 2).h(0).measure(0, 0, confusion=[[0.9, 0.1], [0.3, 0.7]]).when({0: 1}, lambda c: c.x(0))
    found = run(circuit.measure(0, 1), 20_000, seed=2).bits.mean(0)
    np.testing.assert_allclose(found, [0.4, 0.2], atol=0.01)
    assert not run(Circuit(1, 1).h(0).reset(0).measure(0), 1000).bits.any()


def test_long_records_keep_their_norm() -> None:
    """Each of 1200 coin flips halves the square of an amplitude: without normalisation it would end at 0."""
    circuit = Circuit(1)
    for _ in range(1200):
        circuit.h(0).measure(0)
    assert 60 < run(circuit, 200, seed=3).bits.sum() < 140


def test_a_shot_is_its_seed_and_number(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(7)
    circuit, values = random_instructions(rng, 3, 10).measure_all(), rng.uniform(-4, 4, 6)
    long = run(circuit, 20_000, values, seed=5)
    np.testing.assert_array_equal(run(circuit, 300, values, seed=5).bits, long.bits[:300])
    assert (run(circuit, 300, values, seed=6).bits != long.bits[:300]).any()
    monkeypatch.setattr(trajectories, "CACHE", 1)  # one state at a time
    np.testing.assert_array_equal(run(circuit, 300, values, seed=5).bits, long.bits[:300])


def test_noise_models_and_many_blocks() -> None:
    """More shots than are drawn together."""
    model = NoiseModel().after(1, depolarizing(0.01)).after(2, depolarizing(0.03, 2))
    model.readout([[0.98, 0.02], [0.05, 0.95]])
    circuit = Circuit(6).h(0)
    for qubit in range(5):
        circuit.cx(qubit, qubit + 1).ry(0.3, qubit)
    circuit.measure_all()
    found = run(circuit, 40_000, noise=model, seed=4)
    assert_fits(np.bincount(found.indices(), minlength=64), bit_probabilities(noisy(circuit, model))[0])
    assert sum(found.counts().values()) == len(found) == 40_000


def test_states_to_begin_with() -> None:
    start = states(Circuit(2).h(0).cx(0, 1))[0]
    assert set(run(Circuit(2).measure_all(), 200, initial=start).counts()) == {"00", "11"}
    single = run(Circuit(2).channel(bit_flip(1.0), 0).measure_all(), 200, initial=start, dtype=np.complex64)
    assert set(single.counts()) == {"01", "10"}


def test_faults_are_named() -> None:
    with pytest.raises(UsageError, match="measures nothing"):
        run(Circuit(1).h(0), 10)
    with pytest.raises(UsageError, match="a batch of 2"):
        run(Circuit(1).rx("a", 0).measure(0), 10, {"a": [0.1, 0.2]})
