"""Metrics of a trained QAOA circuit: the expected energy in the problem's units, and samples."""

from __future__ import annotations

from typing import Any

import numpy as np

from pdl.train import Metric
from pdl_quantum.circuits import Circuit, sample, states
from pdl_quantum.problems import BinaryProblem
from pdl_quantum.problems.bits import bits_of
from pdl_quantum.variational.metrics import Energies

Array = np.ndarray


class Expected(Metric):
    """The expected energy in the problem's units."""

    def __init__(self, energies: Energies, problem: BinaryProblem) -> None:
        self.energies, self.problem = energies, problem

    def compute(self) -> float:
        return self.problem.value_of_energy(float(self.energies.values[0]))


class Ratio(Expected):
    """How good the expected energy is: 1 is the best bit string's (`BinaryProblem.ratio`)."""

    def compute(self) -> float:
        return self.problem.ratio(float(self.energies.values[0]))


class Samples(Metric):
    """Bit strings sampled from the state, int64 [K, 2]: the index of a basis state and its count, the most
    frequent first."""

    def __init__(self, circuit: Circuit, shots: int, seed: int) -> None:
        self.circuit, self.shots, self.seed = circuit, shots, seed
        self.chances, self.outcomes, self.counts = np.zeros(0), np.zeros(0, np.int64), np.zeros(0, np.int64)

    def update(self, *outputs: Any) -> None:
        state = states(self.circuit, np.asarray(outputs[1], np.float64)[0])[0]
        self.chances = np.abs(state) ** 2
        outcomes, counts = np.unique(sample(state, self.shots, seed=self.seed), return_counts=True)
        order = np.argsort(-counts, kind="stable")
        self.outcomes, self.counts = outcomes[order], counts[order]

    def compute(self) -> Array:
        return np.stack([self.outcomes, self.counts], 1)


class BestSample(Metric):
    """The value of the best sampled bit string; where none is feasible, the least energy with its penalties."""

    def __init__(self, samples: Samples, problem: BinaryProblem) -> None:
        self.samples, self.problem = samples, problem

    def compute(self) -> float:
        bits = bits_of(self.samples.outcomes, self.problem.num_qubits)
        best = bits[self.problem.best_of(bits)]
        value = float(self.problem.value(best))
        return self.problem.value_of_energy(float(self.problem.energy(best))) if np.isnan(value) else value


class ValidShare(Metric):
    """The share of the shots that keep to the rules."""

    def __init__(self, samples: Samples, problem: BinaryProblem) -> None:
        self.samples, self.problem = samples, problem

    def compute(self) -> float:
        valid = self.problem.valid(bits_of(self.samples.outcomes, self.problem.num_qubits))
        return float(self.samples.counts[valid].sum() / self.samples.counts.sum())


class OptimumProbability(Metric):
    """The probability of all bit strings of the least energy."""

    def __init__(self, samples: Samples, problem: BinaryProblem) -> None:
        self.samples, self.problem = samples, problem

    def compute(self) -> float:
        return float(self.samples.chances[self.problem.best.indices].sum())
