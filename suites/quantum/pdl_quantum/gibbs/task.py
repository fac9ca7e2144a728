"""The task: a circuit whose last qubits are in a Gibbs state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np

import pdl
from pdl.errors import DataError
from pdl.hints import Inherited, Range
from pdl.nn import Module
from pdl.tensor import Tensor
from pdl.train import Evaluation, Loss, Metric, Recipe
from pdl.train.deployed import Deployed
from pdl_quantum.algorithms.gibbs import truncated_entropy
from pdl_quantum.mixed.metrics import FIDELITIES, fidelities
from pdl_quantum.mixed.problem import Thermal
from pdl_quantum.mixed.states import state_from_expectations, state_of
from pdl_quantum.variational.ansatz import Ansatz
from pdl_quantum.variational.task import Variational


class GibbsPreparation(Variational):
    """The Gibbs state as that of the least free energy tr(rho H) - S(rho) / beta (arXiv 2005.08797).

    order   at which the series of the entropy S is cut off: 2 can be measured with few copies of the state, but has its
            least value beside the Gibbs state; with a large one they are the same

    The data is a `pdl_quantum.data.ThermalState`. Metrics: `fidelity` with the Gibbs state, (tr sqrt(sqrt(a) b
    sqrt(a)))^2, its root `root_fidelity`, and `energy`, whose `exact` value is the mean at that temperature.
    """

    monitor = "val/loss"

    def __init__(self, *, order: Annotated[int, Range(1)] = 2, **options: Inherited) -> None:
        super().__init__(**options)
        self.order = order

    @property
    def thermal(self) -> Thermal:
        """The Gibbs state to prepare."""
        found = self.problems[0]
        assert isinstance(found, Thermal)
        return found

    @property
    def kept(self) -> range:
        """The qubits of the system."""
        return range(self.thermal.num_qubits - self.thermal.system.num_qubits, self.thermal.num_qubits)

    def free_energy(self, rho: Tensor) -> Tensor:
        """Of a state of the system, with the entropy cut off."""
        energy = pdl.real(pdl.trace(rho @ pdl.as_tensor(self.thermal.system.matrix())))
        return energy - truncated_entropy(rho, self.order) / self.thermal.beta

    def step(self, model: Module, batch: Any) -> Loss:
        assert isinstance(model, Ansatz)
        return Loss(self.free_energy(state_of(model, self.kept)), 1)

    def evaluate(self, model: Module, batch: Any) -> Loss:
        """The energy, the parameters, and the state of the system; a bundle answers with its expectations."""
        found = super().evaluate(model, batch)
        if isinstance(model, Deployed):
            rho = pdl.as_tensor(state_from_expectations(model, self.thermal.num_qubits, self.kept))
            return Loss(self.free_energy(rho), 1, (found.outputs[0], np.zeros((0, 0)), rho))
        assert isinstance(model, Ansatz)
        rho = state_of(model, self.kept)
        return Loss(self.free_energy(rho), 1, (*found.outputs, rho))

    def metrics(self) -> dict[str, Metric]:
        return {**super().metrics(), **fidelities(self.thermal.state)}

    def update_metrics(self, metrics: dict[str, Metric], loss: Loss, batch: Any) -> None:
        super().update_metrics(metrics, loss, batch)
        for name in FIDELITIES:
            metrics[name].update(*loss.outputs)

    def summary_metrics(self, evaluation: Evaluation) -> dict[str, float]:
        """`fidelity` and `root_fidelity`, then as `Variational`."""
        mine = {name: evaluation.metrics[f"{evaluation.split}/{name}"] for name in FIDELITIES}
        return {**mine, **super().summary_metrics(evaluation)}

    def prepare(self, recipe: Recipe, datasets: Mapping[str, Any]) -> None:
        super().prepare(recipe, datasets)
        if len(self.problems) != 1 or not isinstance(self.problems[0], Thermal):
            raise DataError(
                "data.train: a Gibbs state is that of one Hamiltonian; give a pdl_quantum.data.ThermalState"
            )

    def title(self) -> str:
        return "A Gibbs state, by a circuit that was trained"
