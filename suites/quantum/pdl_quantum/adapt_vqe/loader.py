"""Steps of a circuit that grows."""

from __future__ import annotations

from typing import Any

from pdl.data import Batch
from pdl_quantum.adapt_vqe.ansatz import AdaptAnsatz
from pdl_quantum.circuits import PauliSum
from pdl_quantum.variational.loader import Steps


class Growing(Steps):
    """Steps whose batches name the operators of the circuit. Epoch e begins with operator e + 1 of `model`, unless none
    is steep enough; a run that goes on within an epoch has it already."""

    model: AdaptAnsatz | None = None

    def __init__(self, count: int, dataset: Any, hamiltonian: PauliSum, threshold: float) -> None:
        super().__init__(count, dataset)
        self.hamiltonian, self.threshold = hamiltonian, threshold

    def set_epoch(self, epoch: int) -> None:
        """Let the circuit grow to as many operators as epochs have begun."""
        if self.model is not None and len(self.model.operators_chosen) == epoch:
            self.model.grow(self.hamiltonian, self.threshold)

    def batch(self) -> Batch:
        operators = () if self.model is None else self.model.operators_chosen
        return {**super().batch(), "operators": operators}
