"""The tasks: the lowest levels of a Hamiltonian."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Annotated, Any

import numpy as np

import pdl
from pdl.errors import ConfigError
from pdl.hints import Range
from pdl.nn import Module
from pdl.report import Section
from pdl.tensor import Tensor
from pdl.train import Loss, Metric, Recipe
from pdl.train.deployed import Deployed
from pdl.train.loop import Evaluation
from pdl_quantum.circuits import PauliSum
from pdl_quantum.excited.ansatz import SubspaceAnsatz
from pdl_quantum.ops import circuit_state
from pdl_quantum.variational import Ansatz, Variational, report
from pdl_quantum.variational.metrics import Energies
from pdl_quantum.vqe import electrons


class Levels(Variational):
    """What tasks of several levels share: `energy` and `exact` of a run are those of the lowest level, `energy_error`
    is the largest error of all."""

    count: int

    @cached_property
    def exact(self) -> list[float] | None:  # type: ignore[override]
        """The exact levels, by diagonalising in the problem's sector."""
        return self.problems[0].levels(self.count) if self.problems else None

    def state_names(self) -> list[str]:
        return [f"level {number}" for number in range(self.count)] if self.problems else []

    def log_report(self, lines: Sequence[Mapping[str, Any]]) -> list[Section]:
        """The energy of the lowest level, beside its exact one."""
        return report.history(lines, None if self.exact is None else self.exact[:1])

    def report(self, evaluation: Evaluation, dataset: Any) -> list[Section]:
        return [*super().report(evaluation, dataset), *electrons(self, self.state_names())]

    def prepare(self, recipe: Recipe, datasets: Mapping[str, Any]) -> None:
        super().prepare(recipe, datasets)
        if len(self.problems) > 1:
            raise ConfigError(f"data.train: has {len(self.problems)} problems; levels are found of one")

    def metrics(self) -> dict[str, Metric]:
        made = super().metrics()
        energies = made["energies"]
        assert isinstance(energies, Energies)
        return {**made, "energy": Lowest(energies)}

    def summary_metrics(self, evaluation: Evaluation) -> dict[str, float]:
        made = super().summary_metrics(evaluation)
        return made if self.exact is None else {**made, "exact": self.exact[0]}


class Lowest(Metric):
    """The energy of the first state."""

    def __init__(self, energies: Energies) -> None:
        self.energies = energies

    def compute(self) -> float:
        return float(self.energies.values[0])


class SSVQE(Levels):
    """Subspace-search VQE (Nakanishi et al., arXiv 1810.09434): sum_k w_k <b_k|U^+ H U|b_k> is least where the state of
    the largest weight is the ground state, the next the first level above, and so on.

    weights   w, descending and above 0: one for each reference of the model (`pdl_quantum.SubspaceAnsatz`)
    epoch_steps, names   as in `Variational`
    """

    monitor = "val/loss"

    def __init__(
        self, weights: Sequence[Annotated[float, Range(above=0)]], *, epoch_steps: Annotated[int, Range(1)] = 10,
        names: Sequence[str] = (),
    ) -> None:  # fmt: skip
        super().__init__(epoch_steps=epoch_steps, names=names)
        if not weights or any(a <= b for a, b in pairwise(weights)):
            raise ConfigError(f"task: weights={list(weights)} must descend, so that each level has a place of its own")
        self.weights, self.count = np.array(weights, np.float64), len(weights)

    def total(self, energies: Tensor) -> Tensor:
        return (energies * pdl.as_tensor(self.weights)).sum() * (1.0 / float(self.weights.sum()))

    def check_model(self, model: Module, datasets: Mapping[str, Any], recipe: Recipe) -> None:
        super().check_model(model, datasets, recipe)
        if isinstance(model, Deployed):
            return
        if not isinstance(model, SubspaceAnsatz) or model.num_states != self.count:
            raise ConfigError(f"model: task.weights has {self.count} numbers; name a pdl_quantum.SubspaceAnsatz with "
                              "as many references")  # fmt: skip

    def title(self, recipe: Recipe) -> str:
        return f"The {self.count} lowest levels of a Hamiltonian, by one circuit (SSVQE)"


class VQD(Levels):
    """Variational quantum deflation (Higgott, Wang & Brierley, arXiv 1805.08138): level k minimises

        <psi_k|H|psi_k> + penalty sum_(j < k) |<psi_j|psi_k>|^2,

    each with parameters of its own. All levels are trained at once, and for each those below count as fixed.

    levels    how many;    penalty  must be more than the distance of the highest from the lowest
    epoch_steps, names   as in `Variational`

    Energies alone do not tell the best weights, as states may fall together: take train.test_weights=last.
    """

    def __init__(
        self, levels: Annotated[int, Range(1)], *, penalty: Annotated[float, Range(above=0)] = 3.0,
        epoch_steps: Annotated[int, Range(1)] = 10, names: Sequence[str] = (),
    ) -> None:  # fmt: skip
        super().__init__(epoch_steps=epoch_steps, names=names)
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

    def title(self, recipe: Recipe) -> str:
        return f"The {self.count} lowest levels of a Hamiltonian, by deflation (VQD)"


def overlaps(states: Tensor) -> Tensor:
    """|<psi_j|psi_k>|^2 at [k, j] for j < k, else 0, of states [K, 2, 2^n] (real, imaginary); no gradient to j."""
    real, imaginary, fixed = states[:, 0], states[:, 1], states.detach()
    a, b = fixed[:, 0].T, fixed[:, 1].T
    squares = (real @ a + imaginary @ b) ** 2 + (imaginary @ a - real @ b) ** 2
    return squares * pdl.as_tensor(np.tril(np.ones((states.shape[0],) * 2), -1))


__all__ = ["SSVQE", "VQD", "overlaps"]
