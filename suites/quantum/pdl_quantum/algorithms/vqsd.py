"""Variational quantum state diagonalisation (arXiv 1810.10506)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

import pdl
from pdl.errors import UsageError
from pdl.tensor import Tensor, no_grad
from pdl_quantum.algorithms.descent import Fit, angles, best_of, descend
from pdl_quantum.algorithms.states import ensemble, evolve
from pdl_quantum.circuits import Circuit

Array = np.ndarray
Cost = Literal["ordered", "dephased"]


@dataclass
class StateDiagonalization:
    """A circuit U for which U rho U+ is diagonal.

    density   rho, complex [2^n, 2^n];    circuit  on n qubits
    cost      "ordered": tr(U rho U+ D) with D = diag(1, 2, ...) / sum, which is least where the eigenvalues stand on
              the diagonal, falling (Cerezo et al., arXiv 2004.01372);
              "dephased": tr rho^2 - tr Z(U rho U+)^2, Z leaving the diagonal (LaRose et al., arXiv 1810.10506, C1)
    """

    density: Any
    circuit: Circuit
    cost: Cost = "ordered"
    _weights: Array = field(init=False, repr=False)
    _states: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._weights, self._states = ensemble(self.density)
        if self._states.shape[1] != 1 << self.circuit.num_qubits:
            raise UsageError(f"a density matrix {np.shape(self.density)} for {self.circuit!r}")

    def diagonal(self, parameters: Tensor) -> Tensor:
        """The diagonal of U rho U+, float64 [2^n]."""
        behind = evolve(self.circuit, parameters, self._states)
        chances = pdl.real(behind * pdl.conj(behind))
        return pdl.as_tensor(self._weights) @ chances

    def loss(self, parameters: Tensor) -> Tensor:
        """The cost, a tensor with one element."""
        diagonal = self.diagonal(parameters)
        if self.cost == "dephased":
            return float(self._weights @ self._weights) - (diagonal * diagonal).sum()
        ranks = np.arange(1.0, len(self._states[0]) + 1)
        return (diagonal * pdl.as_tensor(ranks / ranks.sum())).sum()

    def diagonalize(self, *, steps: int = 200, lr: float = 0.1, seed: int = 0, starts: int = 1, **options: Any) -> Fit:
        """Lower the cost from random angles, the best of some starts; other arguments as of `descend`."""
        return best_of(starts, seed, lambda s: descend(
            self.loss, angles(self.circuit, s), steps=steps, lr=lr, **options
        ))  # fmt: skip

    def spectrum(self, parameters: Any) -> Array:
        """The eigenvalues found, falling, float64 [2^n]."""
        with no_grad():
            found = self.diagonal(pdl.as_tensor(np.asarray(parameters, np.float64))).numpy()
        return np.sort(found)[::-1]
