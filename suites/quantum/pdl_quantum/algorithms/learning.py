"""Circuits that make a given state, or act as a given matrix."""

from __future__ import annotations

from typing import Any

import numpy as np

import pdl
from pdl.errors import UsageError
from pdl.tensor import Tensor
from pdl_quantum.algorithms.descent import Fit, angles, best_of, descend
from pdl_quantum.algorithms.states import evolve, unitary
from pdl_quantum.circuits import Circuit

Array = np.ndarray


def learn_state(
    circuit: Circuit, target: Any, *, steps: int = 200, lr: float = 0.1, seed: int = 0, starts: int = 1, **options: Any
) -> Fit:
    """Parameters for which the circuit makes a state [2^n] of |0...0>, up to a phase: the loss is 1 - |<t|U|0>|^2."""
    state = np.asarray(target, np.complex128).ravel()
    if len(state) != 1 << circuit.num_qubits or not np.isclose(np.linalg.norm(state), 1):
        raise UsageError(f"a state {state.shape} of length {np.linalg.norm(state):.6g} for {circuit!r}; give 2^n "
                         "amplitudes of length 1")  # fmt: skip
    mirrored = pdl.as_tensor(state.conj())

    def loss(parameters: Tensor) -> Tensor:
        return 1.0 - _size((evolve(circuit, parameters)[0] * mirrored).sum())

    return best_of(starts, seed, lambda s: descend(loss, angles(circuit, s), steps=steps, lr=lr, **options))


def learn_unitary(
    circuit: Circuit, target: Any, *, steps: int = 300, lr: float = 0.1, seed: int = 0, starts: int = 1, **options: Any
) -> Fit:
    """Parameters for which the circuit's matrix is a given one [2^n, 2^n], up to a phase: the loss is
    1 - |tr(V+ U)|^2 / 4^n, the Hilbert-Schmidt test's (Khatri et al., arXiv 1807.00800)."""
    matrix, size = np.asarray(target, np.complex128), 1 << circuit.num_qubits
    if matrix.shape != (size, size) or not np.allclose(matrix @ matrix.conj().T, np.eye(size), atol=1e-8):
        raise UsageError(f"a matrix {matrix.shape} for {circuit!r}; give a unitary one, [{size}, {size}]")
    mirrored = pdl.as_tensor(matrix.conj())

    def loss(parameters: Tensor) -> Tensor:
        return 1.0 - _size((unitary(circuit, parameters) * mirrored).sum()) / size**2

    return best_of(starts, seed, lambda s: descend(loss, angles(circuit, s), steps=steps, lr=lr, **options))


def _size(x: Tensor) -> Tensor:
    """|x|^2."""
    return pdl.real(x * pdl.conj(x))
