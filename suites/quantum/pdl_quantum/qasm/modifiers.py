"""What OpenQASM 3's modifiers make of gates: inv, pow(k), ctrl and negctrl."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from pdl.errors import DataError
from pdl_quantum.circuits import Circuit, Gate
from pdl_quantum.circuits.angles import angle_of
from pdl_quantum.circuits.building import MOST_DENSE
from pdl_quantum.circuits.gates import inverse_of
from pdl_quantum.qasm.synthesis import eigen

GENERATED = ("rx", "ry", "rz", "rxx", "ryy", "rzz", "rzx", "pauli")
TURNS = {"z": 1.0, "s": 0.5, "t": 0.25, "sdg": -0.5, "tdg": -0.25}
"""Gates that are P(x pi)."""
MOST_POWER = 10_000


def inverse(gates: Sequence[Gate]) -> list[Gate]:
    """inv @."""
    return [inverse_of(gate) for gate in reversed(gates)]


def controlled(gates: Sequence[Gate], controls: Sequence[int], value: int) -> list[Gate]:
    """ctrl @ for the value 1, negctrl @ for 0."""
    return [
        replace(gate, controls=(*controls, *gate.controls), values=(*(value,) * len(controls), *gate.values))
        for gate in gates
        if gate.kind != "barrier"
    ]


def power(gates: Sequence[Gate], k: float) -> list[Gate]:
    """pow(k) @: the gates k times over, or the power of the matrix whose eigenvalues turn by -pi to pi, pi with it."""
    if len(gates) == 1:
        gate, whole = gates[0], k == int(k)
        if gate.kind in GENERATED and (whole or _small(gate)):
            return [replace(gate, angles=(gate.angles[0] * k,))]
        if gate.kind in TURNS and not whole:
            return [replace(gate, kind="p", angles=(angle_of(TURNS[gate.kind] * np.pi * k),))]
    if k == int(k):
        if abs(k) > MOST_POWER:
            raise DataError(f"pow({k:g}) of gates that have no angle to multiply; up to {MOST_POWER} are written out")
        return list(gates) * int(k) if k >= 0 else inverse(gates) * int(-k)
    return _root(gates, k)


def _small(gate: Gate) -> bool:
    """Whether a rotation turns eigenvectors by pi at most, so that its powers are those of the matrix."""
    return gate.angles[0].parameter is None and -2 * np.pi < gate.angles[0].offset < 2 * np.pi


def _root(gates: Sequence[Gate], k: float) -> list[Gate]:
    qubits = sorted({q for gate in gates for q in gate.touched})
    if any(angle.parameter is not None for gate in gates for angle in gate.angles):
        raise DataError(f"pow({k:g}) of a gate that turns by an input: only whole powers of it are known")
    if len(qubits) > MOST_DENSE:
        raise DataError(f"pow({k:g}) of a gate of {len(qubits)} qubits; roots are taken of up to {MOST_DENSE}")
    place = {qubit: k for k, qubit in enumerate(qubits)}
    circuit = Circuit(max(len(qubits), 1))
    for gate in [each for one in gates for each in settled(one)]:
        on, controls = (tuple(place.get(q, 0) for q in each) for each in (gate.qubits, gate.controls))
        circuit.add(replace(gate, qubits=on, controls=controls))
    unitary = circuit.matrix()
    values, vectors = eigen(unitary)
    angles = np.angle(values)
    angles = np.where(angles < -np.pi + 1e-9, np.pi, angles)
    made = (vectors * np.exp(1j * k * angles)) @ vectors.conj().T
    if not qubits:
        return [Gate("pauli", (), (angle_of(-2 * float(np.angle(made[0, 0]))),), about="")]
    return [Gate("unitary", tuple(qubits), about=made)]


def settled(gate: Gate) -> Iterable[Gate]:
    """A gate as circuits hold it: a phase on no qubit becomes one of the first, or of its controls."""
    if gate.kind != "pauli" or gate.about:
        return [gate]
    if not gate.controls:
        return [replace(gate, qubits=(0,), about="I")]
    at = gate.values.index(1) if 1 in gate.values else 0
    target, turn = gate.controls[at], gate.angles[0] * -0.5
    rest = gate.controls[:at] + gate.controls[at + 1 :]
    made = Gate("p", (target,), (turn,), rest, gate.values[:at] + gate.values[at + 1 :])
    flip = Gate("x", (target,))
    return [made] if gate.values[at] else [flip, made, flip]
