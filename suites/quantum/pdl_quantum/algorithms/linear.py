"""Variational quantum linear solver (arXiv 1909.05820)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

import pdl
from pdl.errors import UsageError
from pdl.tensor import Tensor
from pdl_quantum.algorithms.descent import Fit, angles, best_of, descend
from pdl_quantum.algorithms.states import evolve
from pdl_quantum.circuits import Circuit, PauliSum, states

Array = np.ndarray


@dataclass
class LinearSolver:
    """A circuit whose state x is proportional to the solution of A x = b.

    matrix    A, complex [2^n, 2^n] or a `PauliSum`;    right  b, complex [2^n] or a circuit without parameters
    circuit   on n qubits

    The loss is 1 - |<b|A|x>|^2 / <x|A+ A|x>, 0 at the solution; with kappa the condition number of A, a loss of
    e^2 / kappa^2 or less leaves x within a trace distance of e (arXiv 1909.05820).
    """

    matrix: Any
    right: Any
    circuit: Circuit
    _a: Array = field(init=False, repr=False)
    _b: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        size = 1 << self.circuit.num_qubits
        self._a = self.matrix.matrix() if isinstance(self.matrix, PauliSum) else np.asarray(self.matrix, np.complex128)
        right = states(self.right)[0] if isinstance(self.right, Circuit) else np.asarray(self.right, np.complex128)
        if self._a.shape != (size, size) or right.shape != (size,):
            raise UsageError(f"a matrix {self._a.shape} and a right side {right.shape} for {self.circuit}; give "
                             f"[{size}, {size}] and [{size}]")  # fmt: skip
        if np.linalg.cond(self._a) > 1e12 or not np.linalg.norm(right) > 0:
            raise UsageError("the matrix is singular, or the right side is 0; there is no solution to look for")
        self._b = right / np.linalg.norm(right)

    def loss(self, parameters: Tensor) -> Tensor:
        """1 - |<b|A|x>|^2 / <x|A+ A|x>, a tensor with one element."""
        image = pdl.as_tensor(self._a) @ evolve(self.circuit, parameters)[0]
        overlap = (image * pdl.as_tensor(self._b.conj())).sum()
        return 1.0 - pdl.real(overlap * pdl.conj(overlap)) / pdl.real((image * pdl.conj(image)).sum())

    def solve(self, *, steps: int = 300, lr: float = 0.1, seed: int = 0, starts: int = 1, **options: Any) -> Fit:
        """Lower the loss from random angles, the best of some starts; other arguments as of `descend`."""
        return best_of(
            starts, seed, lambda s: descend(self.loss, angles(self.circuit, s), steps=steps, lr=lr, **options)
        )

    def solution(self, parameters: Any) -> Array:
        """x with the length and phase for which |A x - b / |b|| is least, complex128 [2^n]."""
        x = states(self.circuit, np.asarray(parameters, np.float64))[0]
        image = self._a @ x
        made: Array = x * (np.vdot(image, self._b) / np.vdot(image, image))
        return made
