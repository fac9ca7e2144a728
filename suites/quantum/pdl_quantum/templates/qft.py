"""The quantum Fourier transform, and the estimation of phases by it."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from pdl.errors import UsageError
from pdl.hints import Range, part
from pdl_quantum.circuits import Circuit
from pdl_quantum.templates.patterns import require_count


@part
def qft(
    num_qubits: Annotated[int, Range(1)],
    *,
    swaps: bool = True,
    inverse: bool = False,
    approximation: Annotated[int, Range(0)] = 0,
) -> Circuit:
    """|j> -> sum_k exp(2 pi i j k / 2^n) |k> / sqrt(2^n) (Coppersmith, arXiv quant-ph/0201067).

    swaps           without, the qubits of the result stand in reverse order
    inverse         the inverse of it
    approximation   of the phases pi/2, pi/4, ..., pi/2^(n-1) between two qubits so many of the smallest are left out

    Errors: UsageError for counts that are too small.
    """
    require_count("qft", num_qubits=num_qubits)
    require_count("qft", 0, approximation=approximation)
    circuit = Circuit(num_qubits)
    for qubit in range(num_qubits):
        circuit.h(qubit)
        for apart in range(1, min(num_qubits - qubit, num_qubits - approximation)):
            circuit.cp(np.pi / (1 << apart), qubit + apart, qubit)
    for qubit in range(num_qubits // 2 if swaps else 0):
        circuit.swap(qubit, num_qubits - 1 - qubit)
    return circuit.inverse() if inverse else circuit


@part
def phase_estimation(unitary: Circuit, bits: Annotated[int, Range(1)]) -> Circuit:
    """Qubits 0 to bits - 1 read phi as the binary fraction 0.q0 q1 ..., where the others hold an eigenvector of the
    unitary to exp(2 pi i phi) (Kitaev, arXiv quant-ph/9511026; Cleve et al., arXiv quant-ph/9708016).

    unitary   gates alone, on the qubits behind those; it stands there 2^bits - 1 times, controlled

    The eigenvector is the caller's to prepare. Errors: UsageError for a circuit that holds what is no gate.
    """
    require_count("phase_estimation", bits=bits)
    if not isinstance(unitary, Circuit):
        raise UsageError(f"phase_estimation: the unitary is {unitary!r:.60}; give a Circuit")
    n = bits + unitary.num_qubits
    circuit, moved = Circuit(n).h(*range(bits)), Circuit(n).append(unitary, range(bits, n))
    for qubit in range(bits):
        for _ in range(1 << (bits - 1 - qubit)):
            circuit.controlled([qubit], moved)
    return circuit.append(qft(bits, inverse=True))
