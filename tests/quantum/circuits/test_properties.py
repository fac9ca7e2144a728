"""What must hold of every circuit: norms stay, adjoint gradients are those of the parameter shift."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pdl_quantum.circuits import Circuit, Gate, expectations, gradients, states
from pdl_quantum.circuits.angles import Angle
from pdl_quantum.circuits.gates import KINDS
from tests.quantum.circuits.reference import random_circuit, random_sum, random_unitary

ROTATIONS = ("rx", "ry", "rz", "rxx", "ryy", "rzz", "rzx", "pauli")  # exp(-i t/2 P) with P^2 = 1
OTHERS = sorted(set(KINDS) - set(ROTATIONS))


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("n", [3, 14])
def test_ten_thousand_gates_keep_the_norm(n: int, dtype: type) -> None:
    rng = np.random.default_rng(n)
    state, count = None, 0
    while count < 10_000:
        circuit = random_circuit(rng, n, 500)
        state = states(circuit, rng.uniform(-4, 4, 6), initial=state, dtype=dtype)
        count += len(circuit)
    norm = np.linalg.norm(state.astype(np.complex128))
    assert abs(norm - 1) < (1e-10 if dtype == np.complex128 else 2e-4)


@st.composite
def circuits(draw: Any) -> tuple[Circuit, int]:
    """A circuit of gates of all kinds with up to three controls, and its qubits; every parameter in one gate alone."""
    n = draw(st.integers(1, 6))
    circuit, angles = Circuit(n), iter(range(1000))
    circuit.parameter("theta", (1,))
    for _ in range(draw(st.integers(1, 12))):
        kind = draw(st.sampled_from([*KINDS, "pauli", "unitary"]))
        size = draw(st.integers(1, n)) if kind == "pauli" else 1 if kind == "unitary" else KINDS[kind].qubits
        if size > n:
            continue
        qubits = draw(st.permutations(range(n)))
        controls = qubits[size : size + draw(st.integers(0, min(3, n - size)))]
        values = tuple(draw(st.integers(0, 1)) for _ in controls)
        count = 1 if kind == "pauli" else 0 if kind == "unitary" else KINDS[kind].angles
        factors = [draw(st.sampled_from([1.0, -1.0, 0.5, 2.0])) for _ in range(count)]
        made = tuple(Angle("theta", next(angles), factor, draw(st.floats(-3, 3))) for factor in factors)
        about: Any = None
        if kind == "pauli":
            about = "".join(draw(st.sampled_from("IXYZ")) for _ in range(size))
        if kind == "unitary":
            about = random_unitary(np.random.default_rng(draw(st.integers(0, 99))), 2)
        circuit.add(Gate(kind, tuple(qubits[:size]), made, tuple(controls), values, about))
    return circuit, n


def shifted(circuit: Circuit, observable: Any, values: np.ndarray) -> np.ndarray:
    """The gradient from expectations alone. Of a gate whose generator has the eigenvalues +-1/2, df = (f(+pi/2) -
    f(-pi/2)) / 2 (Mitarai et al., arXiv 1803.00745); controls, phases and U add an eigenvalue 0 between or beside
    them, and f is a polynomial of the second degree in cos(t/2), sin(t/2): four terms (arXiv 2104.05695)."""
    found = np.zeros(len(values))
    for place, gate in enumerate(circuit.gates):
        for k, angle in enumerate(gate.angles):
            if angle.parameter is None:
                continue
            if gate.kind in ROTATIONS and not gate.controls:
                rule = [(0.5, np.pi / 2)]
            else:
                up, down = (np.sqrt(2) + 1) / (4 * np.sqrt(2)), (np.sqrt(2) - 1) / (4 * np.sqrt(2))
                rule = [(up, np.pi / 2), (-down, 3 * np.pi / 2)]
            for weight, step in rule:
                for signed, turn in ((weight, step), (-weight, -step)):
                    moved = circuit.copy()
                    messages = (*gate.angles[:k], angle + turn, *gate.angles[k + 1 :])
                    moved.gates[place] = replace(gate, angles=messages)
                    found[angle.index] += angle.factor * signed * expectations(moved, observable, values)[0]
    return found


@settings(max_examples=60, deadline=None, derandomize=True)
@given(circuits(), st.integers(0, 1000))
def test_adjoint_gradients_are_those_of_the_parameter_shift(drawn: tuple[Circuit, int], seed: int) -> None:
    circuit, n = drawn
    rng = np.random.default_rng(seed)
    values, observable = rng.uniform(-4, 4, circuit.num_parameters), random_sum(rng, n, 3)
    slope = gradients(circuit, observable, values)[1][0]
    np.testing.assert_allclose(slope, shifted(circuit, observable, values), atol=1e-10)


@pytest.mark.parametrize("kind", [k for k in (*OTHERS, *ROTATIONS[:-1]) if KINDS[k].angles])
@pytest.mark.parametrize("controls", range(4))
def test_every_gate_with_controls(kind: str, controls: int) -> None:
    rng = np.random.default_rng(len(kind) + controls)
    size = KINDS[kind].qubits
    n = size + controls + 1
    circuit = Circuit(n).h().ry(list(rng.uniform(-3, 3, n)))
    qubits = [int(q) for q in rng.permutation(n)]
    angles = tuple(Angle("theta", k, 1.5 - k) for k in range(KINDS[kind].angles))
    values = tuple(int(v) for v in rng.integers(0, 2, controls))
    circuit.add(Gate(kind, tuple(qubits[:size]), angles, tuple(qubits[size : size + controls]), values))
    circuit.rx(list(rng.uniform(-3, 3, n)))
    theta, observable = rng.uniform(-4, 4, len(angles)), random_sum(rng, n, 20)
    slope = gradients(circuit, observable, theta)[1][0]
    np.testing.assert_allclose(slope, shifted(circuit, observable, theta), atol=1e-10)
    assert np.abs(slope).max() > 1e-3
