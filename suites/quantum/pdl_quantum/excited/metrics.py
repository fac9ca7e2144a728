"""The energy of the lowest level."""

from __future__ import annotations

from pdl.train import Metric
from pdl_quantum.variational.metrics import Energies


class Lowest(Metric):
    """The energy of the first state."""

    def __init__(self, energies: Energies) -> None:
        self.energies = energies

    def compute(self) -> float:
        return float(self.energies.values[0])
