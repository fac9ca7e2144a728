"""Exact energies, of all states or of those with given numbers of electrons."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pdl.errors import UsageError
from pdl_quantum.circuits import PauliSum

Array = np.ndarray
DENSE, BLOCK = 1024, 64
"""Up to which size a space is diagonalised whole, and how many of its states are taken at a time."""


@dataclass(frozen=True)
class Sector:
    """Basis states of n qubits with so many spins up (on even qubits) and down (on odd ones); None: any number."""

    num_qubits: int
    up: int | None = None
    down: int | None = None

    def indices(self) -> Array:
        """Of the basis states, int64, ascending."""
        every = np.arange(1 << self.num_qubits, dtype=np.int64)
        keep = np.ones(len(every), bool)
        for first, count in ((0, self.up), (1, self.down)):
            if count is not None:
                qubits = range(first, self.num_qubits, 2)
                keep &= sum((every >> self.num_qubits - 1 - q & 1 for q in qubits), np.zeros_like(every)) == count
        return every[keep]


def levels(hamiltonian: PauliSum, sector: Sector, count: int = 1) -> list[float]:
    """The lowest `count` eigenvalues of a Hamiltonian in a sector that it keeps: by diagonalising where the sector is
    small, by Lanczos' method else, which finds equal ones once. UsageError where the Hamiltonian leads out of it, or
    where it has fewer."""
    inside = sector.indices()
    if len(inside) < count:
        raise UsageError(f"{count} levels of a space of {len(inside)} states")
    if len(inside) <= DENSE:
        return [float(x) for x in np.linalg.eigvalsh(block(hamiltonian, inside))[:count]]
    return _lanczos(hamiltonian, inside, count)


def block(hamiltonian: PauliSum, inside: Array) -> Array:
    """<i|H|j> of these basis states, complex [N, N]; UsageError where H leads from them to others."""
    found = np.zeros((len(inside), len(inside)), complex)
    size = 1 << hamiltonian.num_qubits
    for start in range(0, len(inside), BLOCK):
        part = inside[start : start + BLOCK]
        states = np.zeros((len(part), size), complex)
        states[np.arange(len(part)), part] = 1
        made = hamiltonian.apply(states)
        kept = made[:, inside]
        if not np.isclose(np.linalg.norm(made), np.linalg.norm(kept), rtol=1e-9):
            raise UsageError("the Hamiltonian does not keep the numbers of electrons that were given")
        found[:, start : start + len(part)] = kept.T
    return found


def _lanczos(
    hamiltonian: PauliSum, inside: Array, count: int, steps: int = 400, tolerance: float = 1e-10
) -> list[float]:
    """With full orthogonalisation (Golub & Van Loan, Matrix Computations, chapter 10); ends when the values asked for
    stand still."""
    size = 1 << hamiltonian.num_qubits
    vector = np.zeros((1, size), complex)
    vector[0, inside] = np.random.default_rng(0).standard_normal(len(inside))
    vector /= np.linalg.norm(vector)
    basis, diagonal, beside = [vector[0, inside]], list[float](), list[float]()
    known: Array | None = None
    for step in range(min(steps, len(inside))):
        full = np.zeros((1, size), complex)
        full[0, inside] = basis[-1]
        made = hamiltonian.apply(full)[0, inside]
        diagonal.append(float(np.vdot(basis[-1], made).real))
        matrix = np.diag(diagonal) + np.diag(beside, 1) + np.diag(beside, -1)
        values = np.linalg.eigvalsh(matrix)[:count]
        if known is not None and len(known) == count and step % 4 == 0 and np.abs(values - known).max() < tolerance:
            return [float(x) for x in values]
        known = values if step % 4 == 0 else known
        held = np.stack(basis)
        for _ in range(2):
            made = made - held.T @ (held.conj() @ made)
        norm = float(np.linalg.norm(made))
        if norm < 1e-12:
            break
        beside.append(norm)
        basis.append(made / norm)
    return [float(x) for x in values]
