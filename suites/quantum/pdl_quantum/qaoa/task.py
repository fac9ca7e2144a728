"""The task: a circuit whose samples are good answers of a combinatorial problem."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import numpy as np

from pdl.errors import ConfigError, DataError
from pdl.hints import Range
from pdl.nn import Module
from pdl.train import Deployer, Evaluation, Loss, Metric, Recipe, Reporter, SmokeTest
from pdl.train.deployed import Deployed
from pdl_quantum.circuits import PauliSum
from pdl_quantum.problems import BinaryProblem
from pdl_quantum.problems.combinatorial import Combinatorial
from pdl_quantum.problems.diagonal import MOST
from pdl_quantum.qaoa.circuit import QAOACircuit
from pdl_quantum.qaoa.deploy import QAOADeployer, any_query
from pdl_quantum.qaoa.metrics import BestSample, Expected, OptimumProbability, Ratio, Samples, ValidShare
from pdl_quantum.qaoa.report import QAOAReporter
from pdl_quantum.variational.ansatz import Ansatz
from pdl_quantum.variational.metrics import Energies
from pdl_quantum.variational.task import Variational


class QAOA(Variational):
    """Answers of combinatorial problems as samples of a circuit (Farhi, Goldstone & Gutmann, arXiv 1411.4028).

    shots         samples of an evaluation;    sample_seed  of them
    epoch_steps   optimiser steps in an epoch
    bits, energy  what bits mean, and the name, scale and shift of the value of an energy (from the data)

    The model is a `pdl_quantum.QAOACircuit`, or a `pdl_quantum.Ansatz` of any circuit. The loss is the expected energy.
    Metrics beside it: the same in the problem's units (`cut`), the best sample (`best_cut`, `best_length`,
    `best_cost`), `ratio` (1 is the best there is), `optimum_probability` (of all best bit strings), and `valid` (share
    of the samples that keep to the rules, where there are some).
    """

    def __init__(
        self,
        *,
        shots: Annotated[int, Range(1)] = 1024,
        sample_seed: int = 0,
        epoch_steps: Annotated[int, Range(1)] = 10,
        names: Sequence[str] = (),
        bits: Sequence[str] = (),
        energy: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(epoch_steps=epoch_steps, names=names)
        self.shots, self.sample_seed = shots, sample_seed
        self.bits, self.energy = list(bits), dict(energy or {})
        self._problem: BinaryProblem | None = None

    @property
    def problem(self) -> BinaryProblem:
        """The combinatorial problem of the data set."""
        assert self._problem is not None, "the data comes first"
        return self._problem

    # -- training ------------------------------------------------------------------------------------------------------
    def evaluate(self, model: Module, batch: Any) -> Loss:
        """As `Variational`; a bundle answers with its energy."""
        if isinstance(model, Deployed):
            energy = model(*any_query(self.problem.num_qubits))[1]
            return Loss(energy.mean(), 1, (energy,))
        return super().evaluate(model, batch)

    def metrics(self) -> dict[str, Metric]:
        made = super().metrics()
        problem, energies = self.problem, made["energies"]
        assert isinstance(energies, Energies)
        if problem.expected is not None:
            made[problem.expected] = Expected(energies, problem)
        small = problem.num_qubits <= MOST
        if small:
            made["ratio"] = Ratio(energies, problem)
        if isinstance(self.ansatz, Ansatz):
            made["samples"] = samples = Samples(self.ansatz.circuit, self.shots, self.sample_seed)
            made[f"best_{problem.measure}"] = BestSample(samples, problem)
            if problem.ruled:
                made["valid"] = ValidShare(samples, problem)
            if small:
                made["optimum_probability"] = OptimumProbability(samples, problem)
        return made

    def update_metrics(self, metrics: dict[str, Metric], loss: Loss, batch: Any) -> None:
        super().update_metrics(metrics, loss, batch)
        if "samples" in metrics:
            metrics["samples"].update(*loss.outputs)

    def summary_metrics(self, evaluation: Evaluation) -> dict[str, float]:
        """The expected value, the best sample, `optimum` where it is known, and the rest of the metrics; then those of
        `Variational`."""
        problem = self.problem
        names = (problem.expected, f"best_{problem.measure}", "optimum", "ratio", "optimum_probability", "valid")
        known = {} if problem.num_qubits > MOST else {"optimum": problem.optimum}
        found = {name: evaluation.metrics.get(f"{evaluation.split}/{name}", known.get(str(name))) for name in names}
        mine = {str(name): float(value) for name, value in found.items() if value is not None}
        return {**mine, **super().summary_metrics(evaluation)}

    # -- building ------------------------------------------------------------------------------------------------------
    def prepare(self, recipe: Recipe, datasets: Mapping[str, Any]) -> None:
        super().prepare(recipe, datasets)
        found = self.problems[0]
        if len(self.problems) != 1 or not isinstance(found, Combinatorial):
            raise DataError("data.train: QAOA takes one combinatorial problem, such as pdl_quantum.data.MaxCutGraph")
        problem = self._problem = found.problem
        needed, here = 4 * 16 << problem.num_qubits, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        if needed > here:
            raise DataError(
                f"data.train: {found.name} takes {problem.num_qubits} qubits, and gradients of their states "
                f"{needed / 1e9:,.0f} GB of memory; this machine has {here / 1e9:,.0f} GB"
            )
        scale, shift = problem.energy_scale()
        self.bits = problem.bit_names
        self.energy = {"measure": problem.expected or "energy", "scale": scale, "shift": shift}

    def model(self, recipe: Recipe) -> Module:
        made = super().model(recipe)
        if isinstance(made, QAOACircuit) and self.problems:
            made.grow()
        return made

    def check_model(self, model: Module, datasets: Mapping[str, Any], recipe: Recipe) -> None:
        super().check_model(model, datasets, recipe)
        if isinstance(model, QAOACircuit):
            facts = self.problems[0].facts
            cost = facts["kept"]["cost"] if model.kept else facts["cost"]
            if PauliSum(self.problem.num_qubits, cost).terms != model.cost.terms:
                raise ConfigError("model.cost: that of another problem than data.train; leave cost and kept out")

    def learned_config(self) -> dict[str, Any]:
        return {**super().learned_config(), "bits": self.bits, "energy": self.energy}

    def smoke_test(self, recipe: Recipe) -> SmokeTest:
        layers = {"model.layers": min(3, recipe.model.get("layers"))} if "layers" in recipe.model else {}
        return SmokeTest(train=4, test=4, epochs=3, settings={"task.epoch_steps": 4, **layers})

    def baselines(self, recipe: Recipe, datasets: Mapping[str, Any], split: str) -> dict[str, dict[str, float]]:
        """Classical methods, and the best of as many uniformly sampled bit strings."""
        problem, name = self.problem, f"best_{self.problem.measure}"
        found = {method: problem.value(bits) for method, bits in problem.classical(self.sample_seed).items()}
        drawn = np.random.default_rng(self.sample_seed).integers(0, 2, (self.shots, problem.num_qubits), dtype=np.uint8)
        found["even samples"] = problem.value(drawn[problem.best_of(drawn)])
        return {method: {name: float(value)} for method, value in found.items() if np.isfinite(value)}

    # -- what a task hands over ----------------------------------------------------------------------------------------
    def deployer(self, recipe: Recipe) -> Deployer:
        return QAOADeployer(self, recipe)

    def reporter(self) -> Reporter:
        return QAOAReporter(self)

    def title(self) -> str:
        return "Answers of a combinatorial problem, by a circuit that was trained (QAOA)"
