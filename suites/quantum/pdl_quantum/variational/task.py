"""The task: the parameters of a circuit for which the energy of its state is least."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

import numpy as np

from pdl.data import Fault
from pdl.errors import ConfigError
from pdl.hints import Range
from pdl.nn import Module
from pdl.tensor import Tensor
from pdl.train import Deployer, Loss, Metric, Parts, Recipe, Reporter, SmokeTest, Task
from pdl.train.deployed import Deployed
from pdl.train.loop import Evaluation
from pdl_quantum.circuits import PauliSum
from pdl_quantum.data.eigenproblems import problems_of
from pdl_quantum.eigenproblem import Eigenproblem
from pdl_quantum.variational.ansatz import Ansatz, num_terms
from pdl_quantum.variational.deploy import VariationalDeployer, energy_query
from pdl_quantum.variational.loader import Steps
from pdl_quantum.variational.metrics import Energies, EnergyError, MeanEnergy, Trained
from pdl_quantum.variational.report import VariationalReporter


class Variational(Task):
    """Least energies <psi(theta)|H|psi(theta)> (the variational quantum eigensolver: Peruzzo et al., arXiv 1304.3061).

    epoch_steps   optimiser steps in an epoch; after each the energy is measured
    names         of the states (from the data)

    The data is no set of samples but a problem, or several of one kind (`pdl_quantum.Eigenproblems`), each with a row
    of parameters; data.val and data.test name the same as data.train. A step is value and gradient of the mean energy.
    Of a run as a whole result.json has `energy` (the mean), `exact` and `energy_error` (the largest).
    """

    monitor = "val/energy"
    monitor_mode = "min"
    overfits = ""

    def __init__(self, *, epoch_steps: Annotated[int, Range(1)] = 10, names: Sequence[str] = ()) -> None:
        self.epoch_steps, self.names = epoch_steps, list(names)
        self.problems: list[Eigenproblem] = []
        self.ansatz: Module | None = None

    @property
    def exact(self) -> list[float] | None:
        """The exact energy of each problem, where all are known."""
        known = [each.exact for each in self.problems if each.exact is not None]
        return known if self.problems and len(known) == len(self.problems) else None

    @property
    def hamiltonians(self) -> list[PauliSum]:
        """One for each row of the model's parameters."""
        return [each.hamiltonian for each in self.problems]

    def state_names(self) -> list[str]:
        """What the model's states are called: by the problems, each has one."""
        return [each.name for each in self.problems]

    # -- training ------------------------------------------------------------------------------------------------------
    def step(self, model: Module, batch: Any) -> Loss:
        assert isinstance(model, Ansatz)
        return Loss(self.total(model.energies(self.hamiltonians)), model.num_states)

    def total(self, energies: Tensor) -> Tensor:
        """The objective: a function of the energies of all states."""
        return energies.mean()

    def evaluate(self, model: Module, batch: Any) -> Loss:
        """The energies, and the parameters behind them; a bundle gives them by name."""
        if isinstance(model, Deployed):
            energies = model(*energy_query(self.problems[0].num_qubits))[0]
            return Loss(self.total(energies), len(energies), (energies,))
        assert isinstance(model, Ansatz)
        energies = model.energies(self.hamiltonians)
        return Loss(self.total(energies), model.num_states, (energies, model.theta))

    def metrics(self) -> dict[str, Metric]:
        energies = Energies()
        made: dict[str, Metric] = {"energies": energies, "theta": Trained(), "energy": MeanEnergy(energies)}
        if self.exact is not None:
            made["energy_error"] = EnergyError(energies, self.exact)
        return made

    def update_metrics(self, metrics: dict[str, Metric], loss: Loss, batch: Any) -> None:
        for metric in (metrics["energies"], metrics["theta"]):
            metric.update(*loss.outputs)

    def summary_metrics(self, evaluation: Evaluation) -> dict[str, float]:
        """`energy`, and beside it `exact` and `energy_error` where these are known."""
        found = {name: evaluation.metrics.get(f"{evaluation.split}/{name}") for name in ("energy", "energy_error")}
        exact = {} if self.exact is None else {"exact": float(np.mean(self.exact))}
        made = {"energy": found["energy"], **exact, "energy_error": found["energy_error"]}
        return {name: value for name, value in made.items() if value is not None}

    # -- building ------------------------------------------------------------------------------------------------------
    def prepare(self, recipe: Recipe, datasets: Mapping[str, Any]) -> None:
        """Take the problems; every split has the same."""
        found = {split: problems_of(dataset) for split, dataset in datasets.items()}
        split, self.problems = next(iter(found.items()))
        for other, problems in found.items():
            if [(each.name, each.hamiltonian.terms) for each in problems] != [
                (each.name, each.hamiltonian.terms) for each in self.problems
            ]:
                raise ConfigError(
                    f"data.{other}: has other problems than data.{split}; a circuit is trained for those it is "
                    f'measured on: write data.{other}: "${{data.train}}"'
                )

    def facts(self, recipe: Recipe) -> dict[str, Any]:
        """What the problems say of the arguments of a model and its parts."""
        if not self.problems:
            return {}
        held = self.hamiltonians
        own = {"num_qubits": self.problems[0].num_qubits, "rows": len(held), "terms": num_terms(held)}
        return {**own, **self.problems[0].facts}

    def model(self, recipe: Recipe) -> Module:
        self.ansatz = super().model(recipe)
        return self.ansatz

    def check_model(self, model: Module, datasets: Mapping[str, Any], recipe: Recipe) -> None:
        if isinstance(model, Deployed):  # a bundle is measured as it is deployed
            return
        if not isinstance(model, Ansatz):
            raise ConfigError(f"model: {type(model).__name__} is no pdl_quantum.Ansatz")
        if model.circuit.num_qubits != self.problems[0].num_qubits or model.rows != len(self.hamiltonians):
            raise ConfigError(
                f"model: a circuit of {model.circuit.num_qubits} qubits with {model.rows} rows of parameters, and "
                f"{len(self.hamiltonians)} problems of {self.problems[0].num_qubits} qubits; leave num_qubits and rows "
                "out"
            )

    def loader(self, dataset: Any, recipe: Recipe, *, training: bool, seed: int) -> Iterable[Any]:
        return Steps(self.epoch_steps if training else 1, dataset)

    def assembled(self, parts: Parts, recipe: Recipe, *, training: bool) -> None:
        """The model keeps the Hamiltonians."""
        if isinstance(parts.model, Ansatz):
            parts.model.hold(self.hamiltonians)

    def learned_config(self) -> dict[str, Any]:
        return {"names": self.state_names()}

    def check(self, recipe: Recipe, progress: Any = None) -> list[Fault]:
        """Whether the problems fit together; data that is none says so when it is built."""
        self.prepare(recipe, recipe.data.datasets())
        return []

    def smoke_test(self, recipe: Recipe) -> SmokeTest:
        return SmokeTest(train=4, test=4, epochs=4)

    # -- what a task hands over ----------------------------------------------------------------------------------------
    def deployer(self, recipe: Recipe) -> Deployer:
        return VariationalDeployer(self, recipe)

    def reporter(self) -> Reporter:
        return VariationalReporter(self)

    def title(self) -> str:
        """Of the model card."""
        return f"{type(self).__name__}: least energies by a circuit that was trained"
