"""States behind circuits as complex tensors, with gradients: vectors, matrices of density, parts of a register."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import pdl
from pdl.errors import UsageError
from pdl.tensor import Tensor
from pdl_quantum.circuits import Circuit
from pdl_quantum.ops import circuit_state

Array = np.ndarray


def evolve(circuit: Circuit, parameters: Tensor, states: Any = None) -> Tensor:
    """U states, complex128 [K, 2^n], for parameters [P]; of |0...0> ([1, 2^n]) without states.

    states   complex [K, 2^n], constants
    """
    if states is None:
        return _complex(circuit_state(circuit, pdl.reshape(parameters, (1, -1))))
    given = np.atleast_2d(np.asarray(states, np.complex128))
    if given.ndim != 2 or given.shape[1] != 1 << circuit.num_qubits:
        raise UsageError(f"states {given.shape} for {circuit.num_qubits} qubits; give [K, {1 << circuit.num_qubits}]")
    parts = np.concatenate([given.real, given.imag])  # U is linear: it acts on both parts
    rows = pdl.broadcast_to(pdl.reshape(parameters, (1, -1)), (len(parts), circuit.num_parameters))
    found = _complex(circuit_state(circuit, rows, parts))
    return found[: len(given)] + 1j * found[len(given) :]


def _complex(pairs: Tensor) -> Tensor:
    return pdl.make_complex(pairs[:, 0], pairs[:, 1])


def unitary(circuit: Circuit, parameters: Tensor) -> Tensor:
    """The matrix of a circuit, complex128 [2^n, 2^n]: for small n."""
    return evolve(circuit, parameters, np.eye(1 << circuit.num_qubits)).T


def split(states: Tensor, num_qubits: int, kept: Sequence[int]) -> Tensor:
    """States [K, 2^n] as matrices [K, kept, others]: rows are basis states of the qubits in `kept`, in that order."""
    chosen = [int(q) for q in kept]
    if len(set(chosen)) < len(chosen) or not set(chosen) <= set(range(num_qubits)):
        raise UsageError(f"qubits {chosen} are not different ones of {num_qubits}")
    others = [q for q in range(num_qubits) if q not in chosen]
    axes = pdl.reshape(states, (-1, *(2,) * num_qubits))
    moved = pdl.permute_dims(axes, (0, *(1 + q for q in (*chosen, *others))))
    return pdl.reshape(moved, (-1, 1 << len(chosen), 1 << len(others)))


def reduced(states: Tensor, num_qubits: int, kept: Sequence[int]) -> Tensor:
    """The density matrices [K, 2^k, 2^k] of some qubits of pure states [K, 2^n]."""
    parts = split(states, num_qubits, kept)
    return parts @ pdl.conj(pdl.permute_dims(parts, (0, 2, 1)))


def mixture(states: Tensor, weights: Any) -> Tensor:
    """sum_k w_k |s_k><s_k| of states [K, N], a matrix [N, N]."""
    scaled = states * pdl.as_tensor(np.sqrt(np.asarray(weights, np.float64)).reshape(-1, 1))
    return scaled.T @ pdl.conj(scaled)


def ensemble(density: Any, tolerance: float = 1e-12) -> tuple[Array, Array]:
    """(weights [K], states [K, N]) of a density matrix: its eigenvalues above the tolerance, falling, and vectors."""
    rho = checked_density(density)
    weights, vectors = np.linalg.eigh(rho)
    kept = np.flatnonzero(weights > tolerance)[::-1]
    return weights[kept], vectors.T[kept]


def checked_density(density: Any) -> Array:
    """A density matrix complex128 [N, N]; UsageError where it is none on qubits."""
    rho = np.asarray(density, np.complex128)
    size = len(rho) if rho.ndim == 2 else 0
    if rho.shape != (size, size) or size < 2 or size & (size - 1):
        raise UsageError(f"a density matrix {rho.shape}; give [2^n, 2^n]")
    if not np.allclose(rho, rho.conj().T, atol=1e-8) or abs(np.trace(rho) - 1) > 1e-8:
        raise UsageError("a density matrix is Hermitian and has the trace 1; this one does not")
    if float(np.linalg.eigvalsh(rho)[0]) < -1e-8:
        raise UsageError("a density matrix has no negative eigenvalues; this one does")
    return rho
