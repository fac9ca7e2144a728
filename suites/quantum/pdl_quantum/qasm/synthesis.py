"""Unitary matrices as rotations and controlled X: the quantum Shannon decomposition (Shende, Bullock, Markov, arXiv
quant-ph/0406176), by singular values and eigenvectors of Hermitian matrices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pdl.errors import UsageError
from pdl_quantum.circuits import Circuit

Array = np.ndarray
MOST_QUBITS = 8
NOTHING = 1e-15
"""Angles and entries below are none."""


def synthesise(matrix: Array) -> Circuit:
    """A circuit of U, RY, RZ, CX and one phase that is this unitary matrix [2^n, 2^n], to rounding; about 4^n gates.

    Errors: UsageError for more than `MOST_QUBITS` qubits.
    """
    n = len(matrix).bit_length() - 1
    if n > MOST_QUBITS:
        raise UsageError(f"a matrix of {n} qubits would take about {4**n:,} gates; up to {MOST_QUBITS} are written out")
    circuit = Circuit(n)
    _unitary(circuit, np.asarray(matrix, complex), list(range(n)))
    return circuit


def zyz(matrix: Array) -> tuple[float, float, float, float]:
    """(phase, theta, phi, lambda): matrix [2, 2] = exp(i phase) U(theta, phi, lambda)."""
    sine, cosine = abs(matrix[1, 0]), abs(matrix[0, 0])
    theta = 2 * np.arctan2(sine, cosine)
    if cosine > sine:
        phase = np.angle(matrix[0, 0])
        both = np.angle(matrix[1, 1]) - phase
        phi = np.angle(matrix[1, 0]) - phase if sine else 0.0
        return float(phase), float(theta), float(phi), float(both - phi)
    phase = np.angle(matrix[0, 0]) if cosine else 0.0
    phi, lam = np.angle(matrix[1, 0]) - phase, np.angle(-matrix[0, 1]) - phase
    return float(phase), float(theta), float(phi), float(lam)


def _unitary(circuit: Circuit, u: Array, qubits: Sequence[int]) -> None:
    """U = (L0 + L1) [[C, -S], [S, C]] (R0 + R1), + of blocks on the first qubit's values."""
    if len(qubits) == 1:
        phase, theta, phi, lam = zyz(u)
        if theta or phi or lam:
            circuit.u(theta, phi, lam, qubits[0])
        if phase:
            circuit.pauli(-2 * phase, "I", qubits[0])
        return
    half = len(u) // 2
    if np.abs(u[half:, :half]).max() < NOTHING:
        _either(circuit, u[:half, :half], u[half:, half:], qubits)
        return
    left, lower, cosines, sines, right, other = _cosine_sine(u)
    _either(circuit, right, other, qubits)
    _multiplexed(circuit, "ry", 2 * np.arctan2(sines, cosines), qubits[0], qubits[1:])
    _either(circuit, left, lower, qubits)


def _cosine_sine(u: Array) -> tuple[Array, ...]:
    """(L0, L1, C, S, R0, R1). Where cosines are near 1 they do not tell the vectors apart, and sines do."""
    half = len(u) // 2
    top, bottom = u[:half, :half], u[half:, :half]
    left, cosines, right = np.linalg.svd(top)
    left, cosines, right = left[:, ::-1], cosines[::-1], right[::-1]
    lower, upper = np.linalg.qr(bottom @ right.conj().T)
    turn = np.diag(upper)
    safe = int((cosines < 0.75).sum())
    lower[:, :safe] *= turn[:safe] / np.abs(turn[:safe])
    sines = np.abs(turn)
    if safe < half:
        p, sines[safe:], q = np.linalg.svd(upper[safe:, safe:])
        lower[:, safe:] = lower[:, safe:] @ p
        right[safe:] = q @ right[safe:]
        rest = top @ right[safe:].conj().T
        cosines[safe:] = np.linalg.norm(rest, axis=0)
        left[:, safe:] = rest / cosines[safe:]
    other = -sines[:, None] * (left.conj().T @ u[:half, half:]) + cosines[:, None] * (lower.conj().T @ u[half:, half:])
    return left, lower, cosines, sines, right, other


def _either(circuit: Circuit, zero: Array, one: Array, qubits: Sequence[int]) -> None:
    """A matrix where the first qubit is 0, another where it is 1: (V + V) (D + D^dagger) (W + W)."""
    if np.abs(zero - one).max() < NOTHING:
        _unitary(circuit, zero, qubits[1:])
        return
    squares, v = eigen(zero @ one.conj().T)
    d = np.exp(0.5j * np.angle(squares))
    w = d[:, None] * (v.conj().T @ one)
    _unitary(circuit, w, qubits[1:])
    _multiplexed(circuit, "rz", -np.angle(squares), qubits[0], qubits[1:])
    _unitary(circuit, v, qubits[1:])


def eigen(unitary: Array) -> tuple[Array, Array]:
    """Eigenvalues and orthonormal eigenvectors of a unitary matrix, by a Hermitian one that has the same vectors."""
    for mix in (0.6, 1.1, 2.3, 0.2):
        hermitian = np.cos(mix) * (unitary + unitary.conj().T) - 1j * np.sin(mix) * (unitary - unitary.conj().T)
        _, vectors = np.linalg.eigh(hermitian)
        values = vectors.conj().T @ unitary @ vectors
        if np.abs(values - np.diag(np.diag(values))).max() < 1e-12:
            break
    return np.diag(values), vectors


def _multiplexed(circuit: Circuit, kind: str, angles: Array, target: int, controls: Sequence[int]) -> None:
    """A rotation by the angle of the controls' number: X turns about y and z the other way."""
    if np.abs(angles).max() < NOTHING:
        return
    if not len(controls):
        circuit.gate(kind, float(angles[0]), target)
        return
    zero, one = np.split(angles, 2)
    _multiplexed(circuit, kind, (zero + one) / 2, target, controls[1:])
    if np.abs(zero - one).max() < NOTHING:
        return
    circuit.cx(controls[0], target)
    _multiplexed(circuit, kind, (zero - one) / 2, target, controls[1:])
    circuit.cx(controls[0], target)
