"""Observables in time, by product formulas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pdl.errors import UsageError
from pdl_quantum.circuits import Circuit, PauliSum, states
from pdl_quantum.templates.trotter import trotter

Array = np.ndarray


def dynamics(
    hamiltonian: PauliSum,
    observables: Sequence[PauliSum],
    times: Any,
    *,
    steps: int = 20,
    order: int = 2,
    initial: Circuit | Any = None,
) -> Array:
    """Expectations [T, K] of K observables after the times [T] that a state evolves under a Hamiltonian.

    steps, order  of the product formula, for every time (`pdl_quantum.templates.trotter`)
    initial       a circuit without parameters, or a state [2^n]; by default |0...0>

    All times are one batch of the same circuit.
    """
    moments = np.asarray(times, np.float64)
    if moments.ndim != 1 or not len(moments) or not np.isfinite(moments).all():
        raise UsageError(f"dynamics: times {moments.shape}; give a list of finite ones")
    for each in observables:
        if each.num_qubits != hamiltonian.num_qubits:
            raise UsageError(f"dynamics: {each} and a Hamiltonian on {hamiltonian.num_qubits} qubits")
    start = states(initial)[0] if isinstance(initial, Circuit) else initial
    evolution = trotter(hamiltonian, "time", steps, order=order)
    behind = states(evolution, {"time": moments}, initial=start)
    return np.stack([each.expectation(behind) for each in observables], axis=1)


def magnetization(num_qubits: int, letter: str = "Z") -> PauliSum:
    """The mean of Z (or X, or Y) over all qubits."""
    words = ("".join(letter if k == q else "I" for k in range(num_qubits)) for q in range(num_qubits))
    return PauliSum(num_qubits, dict.fromkeys(words, 1 / num_qubits))
