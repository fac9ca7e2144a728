"""The task: a ground state by a circuit that grows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

from pdl.errors import ConfigError
from pdl.hints import Range
from pdl.nn import Module
from pdl.train import Evaluation, Loss, Metric, Parts, Recipe, Reporter, SmokeTest
from pdl.train.deployed import Deployed
from pdl_quantum.adapt_vqe.ansatz import AdaptAnsatz
from pdl_quantum.adapt_vqe.loader import Growing
from pdl_quantum.adapt_vqe.metrics import Operators
from pdl_quantum.adapt_vqe.report import AdaptVQEReporter
from pdl_quantum.ops import circuit_expectation
from pdl_quantum.vqe.task import VQE


class AdaptVQE(VQE):
    """ADAPT-VQE (Grimsley et al., arXiv 1812.11173): each epoch begins with the operator of the pool by which the
    energy falls fastest, and trains all that are there.

    epoch_steps   optimiser steps between two operators
    threshold     of the slope (Hartree a radian), below which the circuit has grown enough
    names         as in `Variational`

    A schedule that begins anew in every epoch suits it: `pdl.optim.CosineRestarts` with a period of 1.
    """

    def __init__(
        self,
        *,
        epoch_steps: Annotated[int, Range(1)] = 40,
        threshold: Annotated[float, Range(above=0)] = 1e-4,
        names: Sequence[str] = (),
    ) -> None:
        super().__init__(epoch_steps=epoch_steps, names=names)
        self.threshold = threshold

    def step(self, model: Module, batch: Any) -> Loss:
        """The energy of the circuit as the batch says it is, so that each is compiled separately."""
        assert isinstance(model, AdaptAnsatz)
        circuit = model.with_operators(batch["operators"])
        energies = circuit_expectation(circuit, [self.problems[0].hamiltonian], model.theta)
        return Loss(energies.mean(), 1)

    def metrics(self) -> dict[str, Metric]:
        made = super().metrics()
        return {**made, "operators": Operators(self.ansatz)} if isinstance(self.ansatz, AdaptAnsatz) else made

    def summary_metrics(self, evaluation: Evaluation) -> dict[str, float]:
        """Those of `Variational`, and how many `operators` the circuit has."""
        count = evaluation.metrics.get(f"{evaluation.split}/operators")
        return {**super().summary_metrics(evaluation), **({} if count is None else {"operators": count})}

    def check_model(self, model: Module, datasets: Mapping[str, Any], recipe: Recipe) -> None:
        super().check_model(model, datasets, recipe)
        if not isinstance(model, AdaptAnsatz | Deployed):
            raise ConfigError(f"model: {type(model).__name__} does not grow; name a pdl_quantum.AdaptAnsatz")

    def loader(self, dataset: Any, recipe: Recipe, *, training: bool, seed: int) -> Iterable[Any]:
        if not training:
            return super().loader(dataset, recipe, training=training, seed=seed)
        return Growing(self.epoch_steps, dataset, self.problems[0].hamiltonian, self.threshold)

    def assembled(self, parts: Parts, recipe: Recipe, *, training: bool) -> None:
        """The training steps let the model grow."""
        super().assembled(parts, recipe, training=training)
        loader = parts.loaders.get("train")
        if isinstance(loader, Growing) and isinstance(parts.model, AdaptAnsatz):
            loader.model = parts.model

    def smoke_test(self, recipe: Recipe) -> SmokeTest:
        return SmokeTest(train=1, test=1, epochs=3, settings={"task.epoch_steps": 5})

    def reporter(self) -> Reporter:
        return AdaptVQEReporter(self)
