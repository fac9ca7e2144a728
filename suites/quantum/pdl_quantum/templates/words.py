"""exp(-i angle/2 P) of a Pauli word, by the gate that says it best."""

from __future__ import annotations

from typing import Any

from pdl.errors import UsageError
from pdl_quantum.circuits import Circuit, PauliSum


def turn_word(circuit: Circuit, word: str, angle: Any) -> None:
    """Add exp(-i angle/2 P) for a word of a letter for each qubit: RX, RY, RZ, RXX, RYY, RZZ, or `pauli` on the qubits
    that it touches. The identity gives the phase exp(-i angle/2)."""
    there = [(qubit, letter) for qubit, letter in enumerate(word) if letter != "I"]
    letters, qubits = "".join(letter for _, letter in there), [qubit for qubit, _ in there]
    if not there:
        circuit.pauli(angle, "I", 0)
    elif len(there) == 1 or letters in ("XX", "YY", "ZZ"):
        circuit.gate(f"r{letters.lower()}", angle, *qubits)
    else:
        circuit.pauli(angle, letters, *qubits)


def require_hermitian(template: str, argument: str, value: Any) -> PauliSum:
    """The sum, with at least one term; UsageError where it is none or has coefficients that are not real."""
    if not isinstance(value, PauliSum):
        raise UsageError(f"{template}: {argument} is {value!r:.60}; give a PauliSum")
    if not value.hermitian or not value.terms:
        raise UsageError(f"{template}: {argument} must have terms, with real coefficients; it is {value}")
    return value
