"""The task: a ground state by a circuit that grows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

from pdl.errors import ConfigError
from pdl.hints import Range
from pdl.nn import Module
from pdl.report import Section, table
from pdl.train import Loss, Metric, Parts, Recipe, SmokeTest
from pdl.train.deployed import Deployed
from pdl.train.loop import Evaluation
from pdl_quantum.adapt.ansatz import AdaptAnsatz
from pdl_quantum.adapt.loader import Growing
from pdl_quantum.ops import circuit_expectation
from pdl_quantum.vqe import VQE


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
        """The energy of the circuit as the batch says it is, so that each has a program of its own."""
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

    def report(self, evaluation: Evaluation, dataset: Any) -> list[Section]:
        """As `Variational`, and the operators in the order in which they came."""
        model = self.ansatz
        if not isinstance(model, AdaptAnsatz):
            return super().report(evaluation, dataset)
        theta, slopes = model.theta.detach().numpy()[0], model.slopes.numpy()
        rows = [
            (place + 1, model.pool.names[number], f"{slopes[place]:.3e}", f"{theta[place]:+.6f}")
            for place, number in enumerate(model.operators_chosen)
        ]
        head = ("", "operator", "slope when it was chosen", "angle")
        return [*super().report(evaluation, dataset), Section("Operators", table(rows, head=head))]


class Operators(Metric):
    """How many a circuit has that grows."""

    def __init__(self, model: AdaptAnsatz) -> None:
        self.model = model

    def compute(self) -> float:
        return float(len(self.model.operators_chosen))


__all__ = ["AdaptVQE"]
