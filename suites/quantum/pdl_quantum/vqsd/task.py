"""The task: a circuit that makes a density matrix diagonal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import pdl
from pdl.errors import ConfigError, DataError
from pdl.nn import Module
from pdl.train import Evaluation, Loss, Metric, Recipe, Reporter
from pdl.train.deployed import Deployed
from pdl_quantum.mixed.ansatz import PreparedAnsatz
from pdl_quantum.mixed.metrics import FIDELITIES, Spectrum, SpectrumError, fidelities
from pdl_quantum.mixed.problem import Spectral
from pdl_quantum.mixed.states import state_from_expectations, state_of
from pdl_quantum.variational.ansatz import Ansatz
from pdl_quantum.variational.task import Variational
from pdl_quantum.vqsd.report import VQSDReporter


class VQSD(Variational):
    """Variational quantum state diagonalisation (LaRose et al., arXiv 1810.10506), by the least tr(U rho U+ D) with
    D = diag(1, 2, ...) over its sum, where the eigenvalues stand on the diagonal, descending (arXiv 2004.01372).

    The data is a `pdl_quantum.data.MixedState`, the model a `pdl_quantum.PreparedAnsatz`. `energy` is the cost and
    `exact` its least value; `spectrum_error` is the largest distance of an eigenvalue, `fidelity` that of the state and
    the diagonal one that it should be.
    """

    @property
    def spectral(self) -> Spectral:
        """The density matrix to diagonalise."""
        found = self.problems[0]
        assert isinstance(found, Spectral)
        return found

    @property
    def kept(self) -> range:
        """The qubits of the density matrix."""
        return range(self.spectral.system)

    def evaluate(self, model: Module, batch: Any) -> Loss:
        """The cost, the parameters, and U rho U+; a bundle answers with its expectations."""
        found = super().evaluate(model, batch)
        if isinstance(model, Deployed):
            rho = pdl.as_tensor(state_from_expectations(model, self.spectral.num_qubits, self.kept))
            found.outputs = (found.outputs[0], np.zeros((0, 0)), rho)
        else:
            assert isinstance(model, Ansatz)
            found.outputs = (*found.outputs, state_of(model, self.kept))
        return found

    def metrics(self) -> dict[str, Metric]:
        spectrum, exact = Spectrum(), self.spectral.spectrum
        mine = {"spectrum": spectrum, "spectrum_error": SpectrumError(spectrum, exact), **fidelities(np.diag(exact))}
        return {**super().metrics(), **mine}

    def update_metrics(self, metrics: dict[str, Metric], loss: Loss, batch: Any) -> None:
        super().update_metrics(metrics, loss, batch)
        for name in ("spectrum", *FIDELITIES):
            metrics[name].update(*loss.outputs)

    def summary_metrics(self, evaluation: Evaluation) -> dict[str, float]:
        """`fidelity`, `root_fidelity` and `spectrum_error`, then as `Variational`."""
        mine = {name: evaluation.metrics[f"{evaluation.split}/{name}"] for name in (*FIDELITIES, "spectrum_error")}
        return {**mine, **super().summary_metrics(evaluation)}

    def prepare(self, recipe: Recipe, datasets: Mapping[str, Any]) -> None:
        super().prepare(recipe, datasets)
        if len(self.problems) != 1 or not isinstance(self.problems[0], Spectral):
            raise DataError("data.train: VQSD diagonalises one density matrix; give a pdl_quantum.data.MixedState")

    def check_model(self, model: Module, datasets: Mapping[str, Any], recipe: Recipe) -> None:
        super().check_model(model, datasets, recipe)
        if isinstance(model, Deployed):
            return
        if not isinstance(model, PreparedAnsatz):
            raise ConfigError(f"model: {type(model).__name__} is no pdl_quantum.PreparedAnsatz")
        if model.state != self.spectral.facts["state"]:
            raise ConfigError("model.state: that of another density matrix than data.train; leave it out")

    def facts(self, recipe: Recipe) -> dict[str, Any]:
        """As `Variational`; the circuit is on the qubits of the density matrix."""
        return {**super().facts(recipe), "num_qubits": self.spectral.system} if self.problems else {}

    def reporter(self) -> Reporter:
        return VQSDReporter(self)

    def title(self) -> str:
        return "The eigenvalues of a density matrix, by a circuit that was trained (VQSD)"
