"""Grover's search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np

from pdl.errors import UsageError
from pdl.hints import Range, part
from pdl_quantum.circuits import Circuit
from pdl_quantum.templates.patterns import require_count


@part
def grover(
    num_qubits: Annotated[int, Range(1)], marked: Sequence[int], iterations: Annotated[int, Range(0)] | None = None
) -> Circuit:
    """Search for M marked numbers among N = 2^n: behind k rounds they hold sin^2((2k + 1) asin sqrt(M/N)) of the
    probability (arXiv quant-ph/9605043; several: Boyer et al., arXiv quant-ph/9605034).

    marked       numbers from 0 to N - 1;    iterations  k; by default the one with which it first is largest

    Errors: UsageError where none is marked, or one that is not there.
    """
    require_count("grover", num_qubits=num_qubits)
    chosen = sorted({int(number) for number in marked})
    if not chosen or chosen[0] < 0 or chosen[-1] >= 1 << num_qubits:
        raise UsageError(f"grover: marked {list(marked)!r:.60}; give numbers from 0 to {(1 << num_qubits) - 1}")
    turn = np.arcsin(np.sqrt(len(chosen) / (1 << num_qubits)))
    rounds = int(np.pi / (4 * turn)) if iterations is None else iterations
    require_count("grover", 0, iterations=rounds)
    circuit = Circuit(num_qubits).h()
    for _ in range(rounds):
        for number in chosen:
            _flip_phase(circuit, [number >> (num_qubits - 1 - q) & 1 for q in range(num_qubits)])
        circuit.append(diffuser(num_qubits))
    return circuit


@part
def diffuser(num_qubits: int) -> Circuit:
    """2 |s><s| - 1 but for its sign, s the equal superposition: amplitudes turned over at their mean."""
    circuit = Circuit(num_qubits).h()
    _flip_phase(circuit, [0] * num_qubits)
    return circuit.h()


def _flip_phase(circuit: Circuit, bits: Sequence[int]) -> None:
    """-1 where the qubits have these values."""
    last = len(bits) - 1
    inner = Circuit(len(bits)).controlled(range(last), Circuit(len(bits)).z(last), bits[:last])
    circuit.append(inner if bits[last] else Circuit(len(bits)).x(last).append(inner).x(last))
