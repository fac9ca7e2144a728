"""Problems about mixed states, on pure states of more qubits."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from pdl_quantum.algorithms.gibbs import gibbs_state
from pdl_quantum.algorithms.states import ensemble
from pdl_quantum.circuits import PauliSum
from pdl_quantum.eigenproblem import Eigenproblem
from pdl_quantum.problems.diagonal import from_table

Array = np.ndarray


@dataclass(frozen=True)
class Thermal(Eigenproblem):
    """The Gibbs state of `system` at inverse temperature `beta`. The Hamiltonian is that of the system, behind qubits
    that are traced out; `exact` is the mean energy at that temperature."""

    system: PauliSum = field(default_factory=lambda: PauliSum(1))
    beta: float = 1.0

    @property
    def state(self) -> Array:
        """The Gibbs state, complex128 [2^n, 2^n]."""
        return gibbs_state(self.system, self.beta)


def thermal(name: str, system: PauliSum, beta: float, extra: int) -> Thermal:
    """The problem of a system, with so many qubits in front."""
    padded = PauliSum(system.num_qubits + extra, {"I" * extra + word: c for word, c in system.terms.items()})
    energy = float(np.trace(gibbs_state(system, beta) @ system.matrix()).real)
    return Thermal(name, padded, energy, system=system, beta=beta)


@dataclass(frozen=True)
class Spectral(Eigenproblem):
    """The eigenvalues of `density`. The Hamiltonian is diag(1, 2, ..., 2^n) over its sum on the first n qubits of a
    pure state whose others are traced out; its least expectation over all circuits on the first n is that where the
    eigenvalues stand on the diagonal, falling (Cerezo et al., arXiv 2004.01372)."""

    density: Array = field(default_factory=lambda: np.eye(2) / 2)

    @property
    def system(self) -> int:
        """n."""
        return len(self.density).bit_length() - 1

    @property
    def spectrum(self) -> Array:
        """The eigenvalues, falling."""
        made: Array = np.linalg.eigvalsh(self.density)[::-1]
        return made


def spectral(name: str, density: Array) -> Spectral:
    """The problem of a density matrix, on the state sum_k sqrt(w_k) |s_k>|k> of its eigenvectors."""
    n = len(density).bit_length() - 1
    weights, vectors = ensemble(density)
    more = max(1, (len(weights) - 1).bit_length())
    pure = np.zeros((1 << n, 1 << more), complex)
    pure[:, : len(weights)] = vectors.T * np.sqrt(weights / weights.sum())
    ranks = np.arange(1.0, len(density) + 1)
    ranks /= ranks.sum()
    cost = PauliSum(n + more, {word + "I" * more: c for word, c in from_table(ranks).terms.items()})
    flat = pure.ravel()
    facts = {"state": [flat.real.tolist(), flat.imag.tolist()]}
    exact = float(np.sort(np.linalg.eigvalsh(density))[::-1] @ ranks)
    return Spectral(name, cost, exact, facts, density=density)
