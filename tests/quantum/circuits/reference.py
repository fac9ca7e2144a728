"""Circuits by dense matrices, and random circuits: what the engine is held to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from pdl_quantum.circuits import (
    Circuit,
    Parameter,
    PauliSum,
    amplitude_damping,
    depolarizing,
    pauli_channel,
    phase_damping,
    reset_channel,
    thermal_relaxation,
)
from pdl_quantum.circuits.gates import CONTROLLED, KINDS, matrix_of

Array = np.ndarray
LETTERS = {"I": np.eye(2), "X": np.array([[0, 1], [1, 0]]), "Y": np.array([[0, -1j], [1j, 0]]), "Z": np.diag([1, -1])}


def apply_dense(state: Array, matrix: Array, qubits: tuple[int, ...]) -> Array:
    """A matrix over some qubits (the first the most significant) on a state [2, 2, ...]."""
    k = len(qubits)
    made = np.tensordot(matrix.reshape((2,) * (2 * k)), state, axes=(range(k, 2 * k), qubits))
    return np.moveaxis(made, range(k), qubits)


def dense_state(circuit: Circuit, values: Any = None, initial: Array | None = None) -> Array:
    """The state of one row of parameters."""
    row, columns = circuit.row(values)[0], circuit.columns()
    n = circuit.num_qubits
    state = np.zeros(1 << n, complex)
    state[0] = 1
    state = (state if initial is None else initial).reshape((2,) * n)
    for gate in circuit.gates:
        messages = [
            a.offset + (a.factor * row[columns[a.parameter, a.index]] if a.parameter else 0.0) for a in gate.angles
        ]
        state = apply_dense(state, matrix_of(gate, messages), gate.touched)
    return state.ravel()


def dense_density(circuit: Circuit, values: Any = None) -> dict[tuple[int, ...], Array]:
    """{record of all bits: density matrix, not normalised} of one row of parameters, by Kraus sums."""
    row, columns, n = circuit.row(values)[0], circuit.columns(), circuit.num_qubits
    rho = np.zeros((1 << n, 1 << n), complex)
    rho[0, 0] = 1
    parts = {(0,) * circuit.num_bits: rho}
    for gate in circuit.gates:
        made: dict[tuple[int, ...], Array] = {}
        for bits, part in parts.items():
            if any(bits[bit] != value for bit, value in gate.condition):
                outcomes = [(bits, part)]
            elif gate.kind == "measure":
                confusion = np.eye(2) if gate.about is None else gate.about
                outcomes = []
                for true in (0, 1):
                    projected = _sandwich([np.diag([1 - true, true])], part, gate.qubits)
                    for read in (0, 1):
                        record = (*bits[: gate.bits[0]], read, *bits[gate.bits[0] + 1 :])
                        outcomes.append((record, confusion[true, read] * projected))
            elif gate.kind == "reset":
                outcomes = [(bits, _sandwich([np.diag([1, 0]), np.array([[0, 1], [0, 0]])], part, gate.qubits))]
            elif gate.kind == "channel":
                outcomes = [(bits, _sandwich(gate.about.kraus, part, gate.qubits))]
            else:
                messages = [a.offset + (a.factor * row[columns[a.parameter, a.index]] if a.parameter else 0.0)
                        for a in gate.angles]  # fmt: skip
                outcomes = [(bits, _sandwich([matrix_of(replace(gate, condition=()), messages)], part, gate.touched))]
            for record, piece in outcomes:
                made[record] = made.get(record, 0) + piece
        parts = made
    return parts


def _sandwich(kraus: Any, rho: Array, qubits: tuple[int, ...]) -> Array:
    n = rho.shape[0].bit_length() - 1
    total = np.zeros_like(rho)
    for one in kraus:
        half = np.stack([apply_dense(c.reshape((2,) * n), one, qubits).ravel() for c in rho.T], 1)
        total += np.stack([apply_dense(r.reshape((2,) * n), one.conj(), qubits).ravel() for r in half])
    return total


def random_instructions(rng: np.random.Generator, n: int, gates: int) -> Circuit:
    """Gates of all kinds between measurements, resets, conditions and channels."""
    circuit = Circuit(n, 3)
    circuit.parameter("theta", (6,))
    singles = [
        depolarizing(0.2), amplitude_damping(0.3), thermal_relaxation(1.0, 1.2, 0.4, 0.1), phase_damping(0.2),
        pauli_channel({"X": 0.1, "Y": 0.2}), reset_channel(0.1, 0.05),
    ]  # fmt: skip
    for _ in range(gates):
        some = random_circuit(rng, n, 2)
        draw, (a, b, *_) = rng.random(), [int(q) for q in rng.permutation(max(n, 2))]
        q, bit = (a if n > 1 else 0), int(rng.integers(3))
        circuit.append(some)
        if draw < 0.2:
            confusion = [[0.9, 0.1], [0.25, 0.75]] if rng.random() < 0.5 else None
            circuit.measure(q, bit, confusion=confusion)
        elif draw < 0.3:
            circuit.reset(q)
        elif draw < 0.55:
            condition = {int(k): int(rng.integers(2)) for k in rng.permutation(3)[: rng.integers(1, 3)]}
            inner = random_circuit(rng, n, 2).channel(singles[int(rng.integers(len(singles)))], q).reset(q)
            inner.append(random_circuit(rng, n, 2))
            if rng.random() < 0.3:
                inner.measure(q, next(k for k in range(3) if k not in condition))
            circuit.when(condition, inner)
        elif draw < 0.8 or n == 1:
            circuit.channel(singles[int(rng.integers(len(singles)))], q)
        else:
            circuit.channel(depolarizing(0.3, 2) if rng.random() < 0.5 else pauli_channel({"XZ": 0.3, "IY": 0.1}), a, b)
    return circuit


def dense_sum(observable: PauliSum) -> Array:
    """Its matrix by Kronecker products."""
    total = np.zeros((1 << observable.num_qubits,) * 2, complex)
    for word, factor in observable.terms.items():
        product = np.eye(1)
        for letter in word:
            product = np.kron(product, LETTERS[letter])
        total += factor * product
    return total


def random_circuit(rng: np.random.Generator, n: int, gates: int) -> Circuit:
    """Gates of all kinds, with numbers, parameters, factors and offsets as angles."""
    theta = Parameter("theta", (6,))
    circuit = Circuit(n)
    circuit.parameter("theta", (6,))
    names = [name for name, (kind, c) in CONTROLLED.items() if c + KINDS[kind].qubits <= n]
    names += [name for name, kind in KINDS.items() if kind.qubits <= n]

    def angle() -> Any:
        if rng.random() < 0.3:
            return float(rng.uniform(-7, 7))
        entry = theta[int(rng.integers(6))]
        return entry if rng.random() < 0.5 else entry * float(rng.normal()) + float(rng.normal())

    for _ in range(gates):
        draw = rng.random()
        qubits = [int(q) for q in rng.permutation(n)]
        if draw < 0.75:
            name = str(rng.choice(names))
            kind, controls = CONTROLLED.get(name, (name, 0))
            messages = [angle() for _ in range(KINDS[kind].angles)]
            circuit.gate(name, *messages, *qubits[: controls + KINDS[kind].qubits])
        elif draw < 0.85:
            k = int(rng.integers(1, n + 1))
            circuit.pauli(angle(), "".join(rng.choice(list("IXYZ"), k)), *qubits[:k])
        elif draw < 0.93:
            k = int(rng.integers(1, min(3, n) + 1))
            circuit.unitary(random_unitary(rng, 1 << k), *qubits[:k])
        elif n > 1:
            c = int(rng.integers(1, n))
            inner = Circuit(1)
            inner.parameter("theta", (6,))
            inner.u(angle(), angle(), angle(), 0).rx(angle(), 0)
            values = [int(v) for v in rng.integers(0, 2, c)]
            outer = Circuit(n)
            outer.parameter("theta", (6,))
            target = Circuit(n)
            target.parameter("theta", (6,))
            target.append(inner, [qubits[c]])
            outer.controlled(qubits[:c], target, values)
            circuit.append(outer)
    return circuit


def random_unitary(rng: np.random.Generator, size: int) -> Array:
    q, _ = np.linalg.qr(rng.standard_normal((size, size)) + 1j * rng.standard_normal((size, size)))
    return q


def random_sum(rng: np.random.Generator, n: int, terms: int) -> PauliSum:
    return PauliSum(n, [("".join(rng.choice(list("IXYZ"), n)), float(rng.normal())) for _ in range(terms)])
