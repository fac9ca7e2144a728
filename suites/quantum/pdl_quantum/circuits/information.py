"""Quantities of density matrices [2^n, 2^n] or [B, 2^n, 2^n] (Nielsen & Chuang, chapters 9 and 11)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pdl.errors import UsageError

Array = np.ndarray


def purity(rho: Array) -> Array:
    """tr(rho^2): 1 for a pure state, 2^-n for the completely mixed one."""
    return np.einsum("...ij,...ji->...", rho, rho).real


def fidelity(rho: Array, sigma: Array) -> Array:
    """Uhlmann's fidelity (tr sqrt(sqrt(rho) sigma sqrt(rho)))^2; 1 for the same state, 0 for orthogonal ones."""
    return root_fidelity(rho, sigma) ** 2


def root_fidelity(rho: Array, sigma: Array) -> Array:
    """tr sqrt(sqrt(rho) sigma sqrt(rho)), the root of `fidelity`, which some call fidelity, as Nielsen & Chuang."""
    singular = np.linalg.svd(_root(rho) @ _root(sigma), compute_uv=False)  # tr sqrt(A A^dagger)
    return np.asarray(singular.sum(-1))


def state_fidelity(a: Array, b: Array) -> Array:
    """Overlap of a state [2^n] or states [B, 2^n] with others, |<a|b>|^2, or with density matrices [..., 2^n, 2^n],
    <a|rho|a>: of one state a, or as many as there are density matrices."""
    a, b = np.asarray(a), np.asarray(b)
    if b.shape[-1] != a.shape[-1] or a.ndim > 2:
        raise UsageError(f"state_fidelity: a state {a.shape} beside {b.shape}; they must be of as many qubits")
    if b.ndim == 3 or (b.ndim == 2 and a.ndim == 1 and b.shape[0] == b.shape[1]):
        return np.einsum("...i,...ij,...j->...", a.conj(), b, a).real
    return np.abs((a.conj() * b).sum(-1)) ** 2


def trace_distance(rho: Array, sigma: Array) -> Array:
    """|rho - sigma|_1 / 2: the advantage with which one measurement tells them apart."""
    return np.abs(np.linalg.eigvalsh(_hermitian(np.asarray(rho) - np.asarray(sigma)))).sum(-1) / 2


def entropy(rho: Array) -> Array:
    """Von Neumann's entropy -tr(rho log2 rho) in bits: 0 for a pure state, n for the completely mixed one."""
    values = np.linalg.eigvalsh(_hermitian(np.asarray(rho))).clip(0)
    return -(values * np.log2(np.where(values > 0, values, 1))).sum(-1) + 0.0


def partial_trace(rho: Array, keep: Sequence[int]) -> Array:
    """The reduced density matrix of the qubits `keep`, in that order (partial trace): [..., 2^k, 2^k]."""
    held = np.asarray(rho)
    n = held.shape[-1].bit_length() - 1
    wanted = [int(q) for q in keep]
    if held.ndim < 2 or held.shape[-2:] != (1 << n, 1 << n):
        raise UsageError(f"partial_trace: {held.shape} is no density matrix; give 2^n rows and columns")
    if len(set(wanted)) < len(wanted) or any(not 0 <= q < n for q in wanted):
        raise UsageError(f"partial_trace: qubits {wanted} must be different ones from 0 to {n - 1}")
    rest = [q for q in range(n) if q not in wanted]
    front = held.ndim - 2
    order = [*range(front), *(front + q for q in wanted + rest), *(front + n + q for q in wanted + rest)]
    k, lost = 1 << len(wanted), 1 << len(rest)
    turned = held.reshape(*held.shape[:-2], *(2,) * (2 * n)).transpose(order)
    made: Array = np.einsum("...iaja->...ij", turned.reshape(*held.shape[:-2], k, lost, k, lost))
    return made


def _hermitian(matrix: Array) -> Array:
    made: Array = (matrix + matrix.conj().swapaxes(-1, -2)) / 2
    return made


def _root(rho: Array) -> Array:
    values, vectors = np.linalg.eigh(_hermitian(np.asarray(rho)))
    rounding = values.shape[-1] * np.finfo(values.dtype).eps * np.abs(values).max(-1, keepdims=True)
    values = np.where(values > rounding, values, 0)  # the root of rounding would be seen
    made: Array = (vectors * np.sqrt(values)[..., None, :]) @ vectors.conj().swapaxes(-1, -2)
    return made
