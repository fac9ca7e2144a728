"""Instantaneous quantum polynomial-time circuits."""

from __future__ import annotations

from typing import Annotated

from pdl.errors import UsageError
from pdl.hints import Range, part
from pdl_quantum.circuits import Circuit
from pdl_quantum.templates.patterns import require_count, subsets
from pdl_quantum.templates.words import turn_word


@part
def iqp(num_qubits: Annotated[int, Range(1)], *, order: Annotated[int, Range(1)] = 2, name: str = "theta") -> Circuit:
    """H on every qubit, exp(-i theta_S/2 Z_S) for every set S of one to `order` qubits, H again (Shepherd, Bremner,
    arXiv 0809.0847): gates that commute, and samples that are thought hard to draw otherwise.

    name   of the parameters [sets], single qubits first, then pairs (0, 1), (0, 2), ...

    Errors: UsageError for counts below 1, and an order above the number of qubits.
    """
    require_count("iqp", num_qubits=num_qubits, order=order)
    if order > num_qubits:
        raise UsageError(f"iqp: sets of {order} among {num_qubits} qubits; give an order up to {num_qubits}")
    chosen = list(subsets(num_qubits, order))
    circuit = Circuit(num_qubits)
    theta = circuit.parameter(name, (len(chosen),))
    circuit.h()
    for place, members in enumerate(chosen):
        turn_word(circuit, "".join("Z" if q in members else "I" for q in range(num_qubits)), theta[place])
    return circuit.h()
