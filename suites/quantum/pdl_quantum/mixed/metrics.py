"""How close mixed states are."""

from __future__ import annotations

from typing import Any

import numpy as np

from pdl.train import Metric
from pdl_quantum.circuits import fidelity, root_fidelity

Array = np.ndarray
FIDELITIES = ("fidelity", "root_fidelity")


class Fidelity(Metric):
    """Uhlmann's fidelity (tr sqrt(sqrt(a) b sqrt(a)))^2 of the state found and the one wanted; with `root` the trace
    itself, which Nielsen & Chuang and Paddle Quantum call fidelity."""

    def __init__(self, wanted: Array, *, root: bool = False) -> None:
        self.wanted, self.found, self.root = wanted, np.zeros((0, 0)), root

    def update(self, *outputs: Any) -> None:
        self.found = np.asarray(outputs[2])

    def compute(self) -> float:
        return float((root_fidelity if self.root else fidelity)(self.found, self.wanted))


def fidelities(wanted: Array) -> dict[str, Metric]:
    """The metrics `fidelity` and its root, `root_fidelity`."""
    return dict(zip(FIDELITIES, (Fidelity(wanted), Fidelity(wanted, root=True)), strict=True))


class Spectrum(Metric):
    """The diagonal of the state found, falling, float64 [2^n]."""

    def __init__(self) -> None:
        self.values = np.zeros(0)

    def update(self, *outputs: Any) -> None:
        self.values = np.sort(np.real(np.diag(np.asarray(outputs[2]))))[::-1]

    def compute(self) -> Array:
        return self.values


class SpectrumError(Metric):
    """The largest distance of its values from the eigenvalues."""

    def __init__(self, spectrum: Spectrum, exact: Array) -> None:
        self.spectrum, self.exact = spectrum, exact

    def compute(self) -> float:
        return float(np.abs(self.spectrum.values - self.exact).max())
