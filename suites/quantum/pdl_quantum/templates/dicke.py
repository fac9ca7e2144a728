"""Dicke states: all bit strings with the same number of ones, equally."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from pdl.errors import UsageError
from pdl.hints import Range, part
from pdl_quantum.circuits import Circuit
from pdl_quantum.templates.patterns import require_count


@part
def dicke_state(num_qubits: Annotated[int, Range(1)], ones: Annotated[int, Range(0)]) -> Circuit:
    """The equal sum of all basis states with so many ones, of |0...0>: split and cyclic shift unitaries (Baertschi &
    Eidenbenz, arXiv 1904.07358), of O(num_qubits ones) gates. Errors: UsageError for more ones than qubits.
    """
    require_count("dicke_state", num_qubits=num_qubits)
    require_count("dicke_state", least=0, ones=ones)
    if ones > num_qubits:
        raise UsageError(f"dicke_state: {ones} ones of {num_qubits} qubits")
    circuit = Circuit(num_qubits)
    if ones:
        circuit.x(*range(num_qubits - ones, num_qubits))
    for m in range(num_qubits, 1, -1):  # shares what the first m qubits have with the last of them
        last = m - 1
        for k in range(1, min(ones, m - 1) + 1):
            target = last - k
            controls = [last] if k == 1 else [last, target + 1]
            turn = Circuit(num_qubits).ry(2 * np.arccos(np.sqrt(k / m)), target)
            circuit.cx(target, last).controlled(controls, turn).cx(target, last)
    return circuit
