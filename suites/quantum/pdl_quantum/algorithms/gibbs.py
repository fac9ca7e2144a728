"""Gibbs states by their least free energy (arXiv 2005.08797)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import pdl
from pdl.errors import UsageError
from pdl.tensor import Tensor, no_grad
from pdl_quantum.algorithms.descent import Fit, angles, best_of, descend
from pdl_quantum.algorithms.states import evolve, reduced
from pdl_quantum.circuits import Circuit, PauliSum, fidelity

Array = np.ndarray


def gibbs_state(hamiltonian: PauliSum, beta: float) -> Array:
    """exp(-beta H) / tr exp(-beta H), complex128 [2^n, 2^n]."""
    values, vectors = np.linalg.eigh(hamiltonian.matrix())
    weights = np.exp(-beta * (values - values[0]))
    made: Array = (vectors * (weights / weights.sum())) @ vectors.conj().T
    return made


def truncated_entropy(rho: Tensor, order: int = 2) -> Tensor:
    """-tr(rho ln rho) of density matrices [..., N, N] with the series -ln rho = sum of (1 - rho)^k / k cut off behind
    this order: for order 2 it is 3/2 - 2 tr rho^2 + tr rho^3 / 2. It is below the entropy, which it nears slowly."""
    size = rho.shape[-1]
    less = pdl.as_tensor(np.eye(size)) - rho
    power, total = rho, None
    for k in range(1, order + 1):
        power = power @ less
        part = pdl.real(pdl.trace(power)) / k
        total = part if total is None else total + part
    if total is None:
        raise UsageError(f"order={order}; give 1 or more")
    return total


@dataclass
class GibbsState:
    """A circuit whose last n qubits come close to the Gibbs state of a Hamiltonian on n qubits.

    circuit   on n qubits and some more in front, which are traced out;    beta  inverse temperature
    order     at which the entropy's series is cut off (2 in arXiv 2005.08797)

        found = GibbsState(hamiltonian, circuit, beta=1.5).prepare(seed=0)
        found.fidelity(parameters)
    """

    hamiltonian: PauliSum
    circuit: Circuit
    beta: float = 1.0
    order: int = 2
    _energies: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.circuit.num_qubits < self.hamiltonian.num_qubits or not self.hamiltonian.hermitian:
            raise UsageError(f"a circuit of {self.circuit.num_qubits} qubits for {self.hamiltonian}; give it as many "
                             "qubits and some more, and the Hamiltonian real coefficients")  # fmt: skip
        if not self.beta > 0:
            raise UsageError(f"beta={self.beta}; give an inverse temperature above 0")
        self._energies = self.hamiltonian.matrix()

    @property
    def system(self) -> Sequence[int]:
        """The qubits of the Hamiltonian."""
        return range(self.circuit.num_qubits - self.hamiltonian.num_qubits, self.circuit.num_qubits)

    def density(self, parameters: Tensor) -> Tensor:
        """The state of these qubits, complex128 [2^n, 2^n]."""
        return reduced(evolve(self.circuit, parameters), self.circuit.num_qubits, self.system)[0]

    def free_energy(self, parameters: Tensor) -> Tensor:
        """tr(rho H) - S(rho) / beta, with the entropy cut off."""
        rho = self.density(parameters)
        energy = pdl.real(pdl.trace(rho @ pdl.as_tensor(self._energies)))
        return energy - truncated_entropy(rho, self.order) / self.beta

    def prepare(self, *, steps: int = 50, lr: float = 0.5, seed: int = 0, starts: int = 1, **options: Any) -> Fit:
        """Lower the free energy from random angles, the best of some starts; other arguments as of `descend`."""
        return best_of(starts, seed, lambda s: descend(
            self.free_energy, angles(self.circuit, s), steps=steps, lr=lr, **options
        ))  # fmt: skip

    def fidelity(self, parameters: Any) -> float:
        """Uhlmann's fidelity (tr sqrt(sqrt(r) g sqrt(r)))^2 with the Gibbs state g."""
        with no_grad():
            rho = self.density(pdl.as_tensor(np.asarray(parameters, np.float64))).numpy()
        return float(fidelity(rho, gibbs_state(self.hamiltonian, self.beta)))
