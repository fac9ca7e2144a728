"""Noise models: which channels follow which gates, and their plain form."""

from __future__ import annotations

import json

import numpy as np
import pytest

from pdl.errors import UsageError
from pdl_quantum.circuits import (
    Circuit,
    NoiseModel,
    amplitude_damping,
    bit_probabilities,
    density,
    depolarizing,
    noisy,
    phase_flip,
)

MODEL = (
    NoiseModel()
    .after(1, depolarizing(0.01))
    .after(["cnot", "cz"], depolarizing(0.02, 2))
    .after("cx", amplitude_damping(0.03), qubits=[1])
    .after("cx", phase_flip(0.1).kraus, qubits=[0])
    .readout([[0.9, 0.1], [0.2, 0.8]], qubits=[1])
)


def placed(circuit: Circuit) -> list[tuple[str, tuple[int, ...]]]:
    return [(gate.about.name if gate.kind == "channel" else gate.kind, gate.qubits) for gate in circuit.gates]


def test_rules_follow_their_gates() -> None:
    circuit = Circuit(3).h(0).cx(0, 1).barrier().rzz("a", 1, 2).measure(1, 0).measure(2, 1)
    circuit.when({0: 1}, lambda c: c.x(2))
    made = noisy(circuit, MODEL)
    assert placed(made) == [
        ("h", (0,)), ("depolarizing", (0,)), ("x", (1,)), ("depolarizing", (0, 1)), ("amplitude_damping", (1,)),
        ("kraus", (0,)), ("barrier", (0, 1, 2)), ("rzz", (1, 2)), ("measure", (1,)), ("measure", (2,)), ("x", (2,)),
        ("depolarizing", (2,)),
    ]  # fmt: skip
    assert made.gates[-1].condition == ((0, 1),)
    assert made.gates[9].about is None
    np.testing.assert_array_equal(made.gates[8].about, [[0.9, 0.1], [0.2, 0.8]])
    assert made.parameters == circuit.parameters


def test_two_qubit_channels_ask_for_both_qubits() -> None:
    model = NoiseModel().after(2, depolarizing(0.1, 2), qubits=[0, 1])
    assert placed(noisy(Circuit(3).cx(1, 0).cx(1, 2), model)) == [("x", (0,)), ("depolarizing", (1, 0)), ("x", (2,))]


def test_plain_form_is_the_model() -> None:
    again = NoiseModel(json.loads(json.dumps(MODEL.plain())))
    circuit = Circuit(2).h(0).cx(0, 1).ry(0.3, 0).measure_all()
    np.testing.assert_allclose(density(noisy(circuit, again)), density(noisy(circuit, MODEL)), atol=1e-14)
    np.testing.assert_allclose(
        bit_probabilities(noisy(circuit, again)), bit_probabilities(noisy(circuit, MODEL)), atol=1e-14
    )


def test_readout_errors_in_closed_form() -> None:
    model = NoiseModel().readout([[0.9, 0.1], [0.2, 0.8]])
    bell = noisy(Circuit(2).h(0).cx(0, 1).measure_all(), model)
    c = np.array([[0.9, 0.1], [0.2, 0.8]])
    expected = (np.kron(c[0], c[0]) + np.kron(c[1], c[1])) / 2
    np.testing.assert_allclose(bit_probabilities(bell)[0], expected, atol=1e-14)


def test_faults_are_named() -> None:
    with pytest.raises(UsageError, match="no gate 'cnott'"):
        NoiseModel().after("cnott", depolarizing(0.1))
    with pytest.raises(UsageError, match="is of two qubits and cannot follow h"):
        noisy(Circuit(2).h(0), NoiseModel().after("h", depolarizing(0.1, 2)))
    with pytest.raises(UsageError, match="give after and channel, or readout"):
        NoiseModel([{"after": "h"}])
    with pytest.raises(UsageError, match="a channel 'depolarizing'; say"):
        NoiseModel([{"after": "h", "channel": "depolarizing"}])
    with pytest.raises(UsageError, match="no channel 'depolarising'"):
        NoiseModel([{"after": "h", "channel": {"name": "depolarising", "p": 0.1}}])
