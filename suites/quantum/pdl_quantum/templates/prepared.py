"""Circuits that make a given state."""

from __future__ import annotations

from typing import Any

import numpy as np

from pdl.errors import UsageError
from pdl.hints import part
from pdl_quantum.circuits import Circuit

LEAST = 1e-14


@part
def prepared_state(state: Any) -> Circuit:
    """The circuit that makes a state complex [2^n] of |0...0>, up to a phase: qubit after qubit is turned about y by
    what is left of each branch, then about z by its phase, under the control of those before it (Moettoenen et al.,
    arXiv quant-ph/0407010). At most 2 (2^n - 1) gates. Errors: UsageError for what is no state of length 1.
    """
    given = np.asarray(state, np.complex128).ravel()
    n = len(given).bit_length() - 1
    if len(given) < 2 or len(given) != 1 << n or not np.isclose(np.linalg.norm(given), 1):
        raise UsageError(f"prepared_state: {len(given)} amplitudes of length {np.linalg.norm(given):.6g}; give 2^n of "
                         "length 1")  # fmt: skip
    circuit = Circuit(n)
    phases = np.where(np.abs(given) > LEAST, np.angle(given), 0.0)
    for qubit in range(n):
        halves = given.reshape(1 << qubit, 2, -1)
        sizes = np.sqrt((np.abs(halves) ** 2).sum(-1))
        _turns(circuit, "ry", qubit, 2 * np.arctan2(sizes[:, 1], sizes[:, 0]))
    for qubit in range(n):
        means = phases.reshape(1 << qubit, 2, -1).mean(-1)
        _turns(circuit, "rz", qubit, means[:, 1] - means[:, 0])
    return circuit


def _turns(circuit: Circuit, gate: str, qubit: int, angles: np.ndarray) -> None:
    """Turns of a qubit, one for each value of those before it."""
    if np.ptp(angles) < LEAST:  # the same whatever they are
        if abs(angles[0]) > LEAST:
            circuit.gate(gate, angles[0], qubit)
        return
    for value, angle in enumerate(angles):
        if abs(angle) > LEAST:
            turn = Circuit(circuit.num_qubits).gate(gate, angle, qubit)
            circuit.controlled(range(qubit), turn, [value >> (qubit - 1 - k) & 1 for k in range(qubit)])
