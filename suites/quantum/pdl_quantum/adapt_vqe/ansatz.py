"""`AdaptAnsatz`: a circuit that grows by operators of a pool."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np

from pdl.errors import ConfigError
from pdl.hints import Inferred, Range
from pdl.nn import Buffer
from pdl_quantum.chemistry.pool import Pool
from pdl_quantum.chemistry.uccsd import rotate
from pdl_quantum.circuits import Circuit, PauliSum, states
from pdl_quantum.variational.ansatz import INFERRED, Ansatz

Array = np.ndarray
NAME = "theta"


class AdaptAnsatz(Ansatz):
    """exp(theta_k A_k) ... exp(theta_1 A_1) |start>, each A chosen from a pool (Grimsley et al., arXiv 1812.11173).

    pool        made by a function, whose open arguments come from the problem
    operators   how many at most
    rows, terms as in `Ansatz`, for one problem

    theta [1, operators] has room for all from the beginning; of what is not chosen yet nothing depends. `chosen` [k]
    holds numbers of the pool (-1: none yet), `slopes` [k] the derivative of the energy by which each was chosen: both
    belong to the state of the model, so a run that goes on does so with the circuit that it had.
    """

    def __init__(
        self,
        pool: Annotated[Pool, Inferred(*INFERRED)],
        operators: Annotated[int, Range(1)],
        *,
        rows: Annotated[int, Range(1)] | None = None,
        terms: Annotated[int, Range(1)] | None = None,
    ) -> None:
        if rows not in (None, 1):
            raise ConfigError(f"model: a circuit that grows is for one problem; data.train has {rows}")
        self.pool, self.operators = pool, operators
        super().__init__(self._grown(()), rows=rows, terms=terms)
        self.chosen = Buffer(np.full(operators, -1, np.int64))
        self.slopes = Buffer(np.zeros(operators, np.float64))
        self._made: dict[tuple[int, ...], Circuit] = {}

    def _grown(self, chosen: Sequence[int]) -> Circuit:
        circuit = self.pool.start.copy()
        theta = circuit.parameter(NAME, (self.operators,))
        for place, number in enumerate(chosen):
            rotate(circuit, self.pool.generators[number], theta[place])
        return circuit

    def with_operators(self, chosen: tuple[int, ...]) -> Circuit:
        """The circuit of these operators; it has a column for each that may come, too."""
        if chosen not in self._made:
            self._made = {chosen: self._grown(chosen)}
        return self._made[chosen]

    @property
    def operators_chosen(self) -> tuple[int, ...]:
        """Numbers of the pool, in order."""
        return tuple(int(number) for number in self.chosen.numpy() if number >= 0)

    @property
    def circuit(self) -> Circuit:
        return self.with_operators(self.operators_chosen)

    def settled(self) -> Ansatz:
        made = Ansatz(self.circuit, terms=len(self.words))
        made.theta, made.words, made.coefficients = self.theta, self.words, self.coefficients
        return made

    # -- growing -------------------------------------------------------------------------------------------------------
    def gradients(self, hamiltonian: PauliSum) -> Array:
        """d<H>/dtheta at 0 of each operator of the pool, put last: <[H, A]> = 2 Re <H psi|A psi>, float64 [pool]."""
        psi = states(self.circuit, self.theta.detach().numpy())
        pulled = hamiltonian.apply(psi)[0].conj()
        return np.array([2 * (pulled @ each.apply(psi)[0]).real for each in self.pool.generators])

    def grow(self, hamiltonian: PauliSum, threshold: float) -> bool:
        """Add the operator with the steepest slope, at 0; False where none is as steep as the threshold."""
        slopes = np.abs(self.gradients(hamiltonian))
        best, count = int(slopes.argmax()), len(self.operators_chosen)
        if slopes[best] < threshold or count == self.operators:
            return False
        self.chosen._data[count], self.slopes._data[count] = best, slopes[best]
        return True
