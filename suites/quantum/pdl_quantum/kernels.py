"""Quantum kernels: how alike numbers are as states. With them any kernel method learns (SVC(kernel="precomputed"))."""

from __future__ import annotations

from typing import Literal

import numpy as np

import pdl
from pdl.errors import ShapeError, UsageError
from pdl.tensor import Tensor, TensorLike, as_tensor
from pdl_quantum.circuits import Circuit
from pdl_quantum.encodings import Encoding
from pdl_quantum.ops import circuit_state

Kind = Literal["fidelity", "projected"]


def encoded(encoding: Encoding, x: TensorLike) -> Tensor:
    """The states of numbers [N, D]: real and imaginary parts [N, 2, 2^n]."""
    given = as_tensor(x)
    if len(given.shape) != 2:
        raise ShapeError(f"quantum kernel: numbers {given.shape}; expected [N, D]")
    states, angles = encoding.states(given), encoding.angles(given)
    circuit = encoding.circuit(given.shape[1])
    if angles is None:
        if states is None or circuit.gates:
            raise UsageError(f"{type(encoding).__name__} gives neither angles nor states")
        return pdl.stack([states, pdl.zeros_like(states)], axis=1)
    return circuit_state(circuit, angles, states)


def fidelity(a: Tensor, b: Tensor) -> Tensor:
    """K [N, M] = |<psi_b|psi_a>|^2 of states [N, 2, 2^n] and [M, 2, 2^n] (Havlicek et al., arXiv 1804.11326)."""
    ar, ai, br, bi = a[:, 0], a[:, 1], b[:, 0].T, b[:, 1].T
    real, imaginary = ar @ br + ai @ bi, ai @ br - ar @ bi
    return real * real + imaginary * imaginary


def bloch(states: Tensor) -> Tensor:
    """<X_q>, <Y_q>, <Z_q> of every qubit, [N, 3 n], of states [N, 2, 2^n]: its reduced density matrix."""
    n = int(states.shape[2]).bit_length() - 1
    found = []
    for q in range(n):
        parts = states.reshape((states.shape[0], 2, 1 << q, 2, -1))
        r0, i0, r1, i1 = (parts[:, part, :, side] for side in (0, 1) for part in (0, 1))
        x = 2 * (r0 * r1 + i0 * i1).sum(axis=(1, 2))
        y = 2 * (r0 * i1 - i0 * r1).sum(axis=(1, 2))
        z = (r0 * r0 + i0 * i0 - r1 * r1 - i1 * i1).sum(axis=(1, 2))
        found += [x, y, z]
    return pdl.stack(found, axis=1)


def projected(a: Tensor, b: Tensor, gamma: float = 1.0) -> Tensor:
    """K [N, M] = exp(-gamma sum_q ||rho_q(a) - rho_q(b)||_F^2) (Huang et al., arXiv 2011.01938)."""
    one, other = bloch(a), bloch(b)
    squares = (one * one).sum(axis=1, keepdims=True) + (other * other).sum(axis=1) - 2 * (one @ other.T)
    return pdl.exp(squares * (-0.5 * gamma))  # ||rho - sigma||_F^2 = |r - s|^2 / 2 of Bloch vectors


def kernel_matrix(
    encoding: Encoding, x: TensorLike, y: TensorLike | None = None, *, kind: Kind = "fidelity", gamma: float = 1.0
) -> np.ndarray:
    """The kernel of rows of x [N, D] and y [M, D] (by default x), float64 [N, M]."""
    with pdl.no_grad():
        one = encoded(encoding, np.asarray(x, np.float64))
        other = one if y is None else encoded(encoding, np.asarray(y, np.float64))
        made = fidelity(one, other) if kind == "fidelity" else projected(one, other, gamma)
        return np.asarray(made.numpy(), np.float64)


def alignment(kernel: np.ndarray, labels: np.ndarray) -> float:
    """Kernel-target alignment in [-1, 1] of K [N, N] and labels of two classes: <K, y y^T> / (||K|| ||y y^T||), y being
    -1 and 1 (Cristianini et al., NIPS 2001)."""
    names = np.unique(labels)
    if len(names) != 2 or kernel.shape != (len(labels), len(labels)):
        raise UsageError(f"alignment: a kernel {kernel.shape} and {len(labels)} labels of {len(names)} classes; give a "
                         "square kernel and two classes")  # fmt: skip
    y = np.where(labels == names[1], 1.0, -1.0)
    return float(y @ kernel @ y / (np.linalg.norm(kernel) * len(y)))


def circuit_of(encoding: Encoding, num_features: int) -> Circuit:
    """The circuit of K(x, y) as a device would measure it: x's states, then y's undone; the chance of |0...0>. Its
    parameters are x and y."""
    there = encoding.circuit(num_features)
    if not there.gates:
        raise UsageError(f"{type(encoding).__name__} begins with a state, and has no circuit")
    return there.copy().append(there.renamed({"x": "y"}).inverse())
