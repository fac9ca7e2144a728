"""What the tasks of several levels of a Hamiltonian share."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from pdl.errors import ConfigError
from pdl.train import Evaluation, Metric, Recipe, Reporter
from pdl_quantum.excited.metrics import Lowest
from pdl_quantum.excited.report import LevelsReporter
from pdl_quantum.variational.metrics import Energies
from pdl_quantum.variational.task import Variational


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

    def reporter(self) -> Reporter:
        return LevelsReporter(self)
