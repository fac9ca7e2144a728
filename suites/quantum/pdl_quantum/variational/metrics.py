"""Metrics of a trained circuit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pdl.train import Metric

Array = np.ndarray


class Energies(Metric):
    """The energy of each problem, float64 [R]."""

    def __init__(self) -> None:
        self.values = np.zeros(0)

    def update(self, *outputs: Any) -> None:
        self.values = np.array(outputs[0], np.float64)

    def compute(self) -> Array:
        return self.values


class MeanEnergy(Metric):
    """Their mean."""

    def __init__(self, energies: Energies) -> None:
        self.energies = energies

    def compute(self) -> float:
        return float(self.energies.values.mean())


class EnergyError(Metric):
    """The largest of |energy - exact| over the problems."""

    def __init__(self, energies: Energies, exact: Sequence[float]) -> None:
        self.energies, self.exact = energies, np.asarray(exact, np.float64)

    def compute(self) -> float:
        return float(np.abs(self.energies.values - self.exact).max())


class Trained(Metric):
    """The parameters of the circuit, float64 [R, P]."""

    def __init__(self) -> None:
        self.theta = np.zeros((0, 0))

    def update(self, *outputs: Any) -> None:
        self.theta = np.array(outputs[1], np.float64) if len(outputs) > 1 else self.theta

    def compute(self) -> Array:
        return self.theta
