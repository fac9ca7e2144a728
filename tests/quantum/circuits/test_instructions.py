"""What is no unitary in a circuit: how it is added, refused and written; channels beside their definitions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pdl.errors import DataError, UsageError
from pdl_quantum.circuits import (
    Channel,
    Circuit,
    PauliSum,
    amplitude_damping,
    bit_flip,
    bit_phase_flip,
    depolarizing,
    expectations,
    generalized_amplitude_damping,
    gradients,
    kraus_channel,
    pauli_channel,
    phase_damping,
    phase_flip,
    reset_channel,
    states,
    thermal_relaxation,
)
from pdl_quantum.circuits.gates import PAULIS
from pdl_quantum.circuits.plain import dumps, loads

RHO = np.array([[0.3, 0.2 - 0.1j], [0.2 + 0.1j, 0.7]])
Q, E, T = 0.3, 0.2, np.exp(-0.7 / 2.0)
X, Y, Z = (PAULIS[letter] for letter in "XYZ")


def conjugated(weights: dict[str, float]) -> np.ndarray:
    return sum(w * PAULIS[k] @ RHO @ PAULIS[k].conj().T for k, w in weights.items())  # type: ignore[return-value]


def decayed(rho: np.ndarray, gamma: float, excited: float, coherence: float) -> np.ndarray:
    """Populations a step of gamma towards (1 - excited, excited), coherences times a factor."""
    one = (1 - gamma) * rho[1, 1] + gamma * excited
    return np.array([[1 - one, coherence * rho[0, 1]], [coherence * rho[1, 0], one]])


@pytest.mark.parametrize(
    ("channel", "expected"),
    [
        (bit_flip(Q), conjugated({"I": 1 - Q, "X": Q})),
        (phase_flip(Q), conjugated({"I": 1 - Q, "Z": Q})),
        (bit_phase_flip(Q), conjugated({"I": 1 - Q, "Y": Q})),
        (depolarizing(Q), (1 - Q) * RHO + Q * np.eye(2) / 2),
        (pauli_channel({"X": 0.1, "Z": 0.2}), conjugated({"I": 0.7, "X": 0.1, "Z": 0.2})),
        (amplitude_damping(Q), decayed(RHO, Q, 0.0, (1 - Q) ** 0.5)),
        (generalized_amplitude_damping(Q, E), decayed(RHO, Q, E, (1 - Q) ** 0.5)),
        (phase_damping(Q), decayed(RHO, 0.0, 0.0, (1 - Q) ** 0.5)),
        (thermal_relaxation(2.0, 1.5, 0.7, E), decayed(RHO, 1 - T, E, np.exp(-0.7 / 1.5))),
        (reset_channel(Q, E), (1 - Q - E) * RHO + np.diag([Q, E])),
    ],
    ids=lambda value: value.name if isinstance(value, Channel) else "",
)
def test_channels_do_what_they_say(channel: Channel, expected: np.ndarray) -> None:
    made = sum(k @ RHO @ k.conj().T for k in channel.kraus)
    np.testing.assert_allclose(made, expected, atol=1e-14)
    np.testing.assert_allclose((channel.superoperator @ RHO.ravel()).reshape(2, 2), expected, atol=1e-14)


def test_depolarizing_two_qubits_mixes_completely_at_1() -> None:
    rng = np.random.default_rng(0)
    a = rng.standard_normal((4, 4)) + 1j * rng.standard_normal((4, 4))
    rho = a @ a.conj().T / np.trace(a @ a.conj().T)
    made = (depolarizing(0.4, 2).superoperator @ rho.ravel()).reshape(4, 4)
    np.testing.assert_allclose(made, 0.6 * rho + 0.1 * np.eye(4), atol=1e-14)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bit_flip(1.2), "bit_flip: p is 1.2"),
        (lambda: depolarizing(1.4), "from 0 to 1.3333"),
        (lambda: thermal_relaxation(1.0, 2.5, 0.1), "t2 between 0 and 2 t1"),
        (lambda: kraus_channel([np.eye(2), np.eye(2)]), "not complete"),
        (lambda: kraus_channel([np.eye(3)]), r"give \[K, 2, 2\]"),
        (lambda: Circuit(2).channel(depolarizing(0.1, 2), 0), "1 qubits, and it is of 2"),
        (lambda: Circuit(2).when({0: 1}, Circuit(2).x(0)), "there is no classical bit 0"),
        (lambda: Circuit(2, 1).when({0: 2}, Circuit(2).x(0)), "with the values 0 or 1"),
        (lambda: Circuit(2, 1).when({0: 1}, lambda c: c.x(0).measure(0, 0)), "which their own condition reads"),
        (lambda: Circuit(2).measure(2, 0), "there is no qubit 2"),
        (lambda: Circuit(1).measure(0, confusion=[[0.9, 0.2], [0.1, 0.8]]), "each row probabilities"),
    ],
)
def test_faults_are_named(call: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        call()


@pytest.mark.parametrize(
    "circuit",
    [
        Circuit(1).measure(0),
        Circuit(1).reset(0),
        Circuit(1).channel(bit_flip(0.1)),
        Circuit(1, 1).when({0: 1}, Circuit(1).x(0)),
    ],
    ids=["measure", "reset", "channel", "condition"],
)
@pytest.mark.parametrize(
    "call",
    [
        states,
        lambda c: gradients(c, PauliSum(1, {"Z": 1.0})),
        lambda c: c.inverse(),
        lambda c: Circuit(2).controlled([0], c),
    ],
    ids=["states", "gradients", "inverse", "controlled"],
)
def test_what_needs_gates_alone_says_so(circuit: Circuit, call: Any) -> None:
    assert not circuit.is_unitary
    with pytest.raises(UsageError, match="gates alone; `run` plays such a circuit"):
        call(circuit)


def test_barriers_do_nothing_and_hold_layers_apart() -> None:
    circuit = Circuit(2).h(0).barrier().x(1)
    assert circuit.is_unitary
    assert circuit.depth == 2
    assert circuit.inverse().count() == {"barrier": 1, "h": 1, "x": 1}
    np.testing.assert_allclose(expectations(circuit, PauliSum(2, {"XZ": 1.0})), -1, atol=1e-12)


def test_bits_grow_move_and_meet() -> None:
    inner = Circuit(1).measure(0).when({0: 1}, lambda c: c.x(0))
    outer = Circuit(3).append(inner, [2], [4])
    assert outer.num_bits == 5
    assert outer.gates[1].condition == ((4, 1),)
    assert outer.depth == 2
    both = Circuit(3, 5).when({1: 0}, outer)
    assert both.gates[1].condition == ((1, 0), (4, 1))
    with pytest.raises(UsageError, match="bit 4 would have to be 0 and 1"):
        Circuit(3, 5).when({4: 0}, Circuit(3, 5).when({4: 1}, Circuit(3).x(0)))


def test_text_holds_all_of_it() -> None:
    circuit = Circuit(3, 4).h(0).measure(0, 2, confusion=[[0.9, 0.1], [0.2, 0.8]]).reset(1).barrier(0, 2)
    circuit.channel(depolarizing(0.1, 2), 2, 0).channel(pauli_channel({"X": 0.1}), 1)
    circuit.channel(amplitude_damping(0.3).kraus, 0).when({2: 1, 3: 0}, lambda c: c.cry("a", 0, 1).measure(1, 0))
    read = loads(dumps(circuit))
    assert dumps(read) == dumps(circuit)
    assert read.num_bits == 4
    assert read.gates[-1].bits == (0,)
    for a, b in zip(circuit.gates, read.gates, strict=True):
        assert (a.kind, a.qubits, a.controls, a.values, a.bits, a.condition) == (
            b.kind, b.qubits, b.controls, b.values, b.bits, b.condition
        )  # fmt: skip
        if a.kind == "channel":
            np.testing.assert_array_equal(a.about.kraus, b.about.kraus)
    with pytest.raises(DataError):
        loads(dumps(circuit).replace('"bits":[2]', '"bits":[-2]'))
