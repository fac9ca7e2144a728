"""Variational quantum deflation: states are kept apart by a penalty."""

from __future__ import annotations

from typing import Annotated, Any

from pdl.hints import Inherited, Range
from pdl.nn import Module
from pdl.tensor import Tensor
from pdl.train import Loss
from pdl_quantum.circuits import PauliSum
from pdl_quantum.excited.task import Levels
from pdl_quantum.ops import circuit_state
from pdl_quantum.variational.ansatz import Ansatz
from pdl_quantum.vqd.losses import overlaps


class VQD(Levels):
    """Variational quantum deflation (Higgott, Wang & Brierley, arXiv 1805.08138): level k minimises

        <psi_k|H|psi_k> + penalty sum_(j < k) |<psi_j|psi_k>|^2,

    each with parameters of its own. All levels are trained at once, and for each those below count as fixed.

    levels    how many;    penalty  must be more than the distance of the highest from the lowest
    epoch_steps, names   as in `Variational`

    Energies alone do not tell the best weights, as states may fall together: take train.test_weights=last.
    """

    def __init__(
        self, levels: Annotated[int, Range(1)], *, penalty: Annotated[float, Range(above=0)] = 3.0, **options: Inherited
    ) -> None:
        super().__init__(**options)
        self.count, self.penalty = levels, penalty

    @property
    def hamiltonians(self) -> list[PauliSum]:
        return [each.hamiltonian for each in self.problems] * self.count

    def step(self, model: Module, batch: Any) -> Loss:
        assert isinstance(model, Ansatz)
        energies = model.energies([self.problems[0].hamiltonian])
        squares = overlaps(circuit_state(model.circuit, model.theta)).sum()
        return Loss(energies.sum() + squares * self.penalty, self.count, parts={"overlaps": squares.detach()})

    def total(self, energies: Tensor) -> Tensor:
        return energies.sum()

    def title(self) -> str:
        return f"The {self.count} lowest levels of a Hamiltonian, by deflation (VQD)"
