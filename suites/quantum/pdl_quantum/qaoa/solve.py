"""A combinatorial problem answered at once, without a run folder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from pdl.tensor import Tensor
from pdl_quantum.algorithms.descent import descend
from pdl_quantum.circuits import sample, states
from pdl_quantum.ops import circuit_expectation
from pdl_quantum.problems import BinaryProblem
from pdl_quantum.problems.bits import bits_of
from pdl_quantum.problems.combinatorial import combinatorial
from pdl_quantum.qaoa.circuit import QAOACircuit

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Answer:
    """What QAOA says of a problem.

    best         the best sampled bit string, uint8 [n]
    description  what it means (`BinaryProblem.describe`)
    energy       the expectation of the cost Hamiltonian
    outcomes     sampled basis states, int64 [K], the most frequent first
    counts       how often each was sampled, int64 [K]
    model        the trained circuit, with its angles
    """

    best: Array
    description: dict[str, Any]
    energy: float
    outcomes: Array
    counts: Array
    model: QAOACircuit


def solve(
    problem: BinaryProblem,
    *,
    layers: int = 8,
    steps: int = 100,
    lr: float = 0.05,
    shots: int = 1024,
    seed: int = 0,
    mixer: Literal["x", "xy"] = "x",
    start: Literal["ramp", "interp"] = "ramp",
) -> Answer:
    """Train a QAOA circuit for a problem, and draw of it.

        solve(MaxCut([(0, 1), (1, 2), (2, 3), (3, 0)])).description["cut"]

    layers, mixer, start  as of `QAOACircuit`;    steps, lr  of Adam;    shots, seed  of the samples
    """
    facts = combinatorial("problem", problem).facts
    model = QAOACircuit(layers, mixer=mixer, start=start, **facts)
    model.grow()

    def energy(theta: Tensor) -> Tensor:
        return circuit_expectation(model.circuit, [problem.hamiltonian], theta.reshape((1, -1))).sum()

    found = descend(energy, model.theta.detach().numpy()[0], steps=steps, lr=lr)
    model.theta._data[...] = found.parameters
    state = states(model.circuit, found.parameters)[0]
    outcomes, counts = np.unique(sample(state, shots, seed=seed), return_counts=True)
    order = np.argsort(-counts, kind="stable")
    bits = bits_of(outcomes[order], problem.num_qubits)
    best = bits[problem.best_of(bits)]
    return Answer(best, problem.describe(best), found.loss, outcomes[order], counts[order], model)
