"""Initial angles: ramps, and interpolated angles of fewer layers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pdl.tensor import Tensor
from pdl_quantum.algorithms.descent import descend
from pdl_quantum.circuits import Circuit, PauliSum
from pdl_quantum.ops import circuit_expectation

Array = np.ndarray


def field(cost: PauliSum) -> float:
    """The root mean square, over qubits, of the field that a bit feels: what one unit of gamma is to be, whatever the
    size of the coefficients. 1 for a cost without any."""
    squares = [0.0] * cost.num_qubits
    for word, factor in cost.terms.items():
        for q, letter in enumerate(word):
            squares[q] += abs(complex(factor)) ** 2 if letter == "Z" else 0.0
    return float(np.sqrt(np.mean(squares))) or 1.0


def ramp(layers: int, gamma: float, beta: float) -> tuple[Array, Array]:
    """(gamma [p], beta [p]) of an anneal from the mixer to the cost: gamma_k = gamma (k - 1/2)/p, and beta_k falls as
    -beta (1 - (k - 1/2)/p) (arXiv 2101.05742). The sign is that of a state that is the mixer's highest."""
    share = (np.arange(layers) + 0.5) / layers
    return gamma * share, -beta * (1 - share)


def interpolated(angles: Array) -> Array:
    """p angles as p + 1 (INTERP, arXiv 1812.01041): the k-th is (k-1)/p of the one before and the rest of its own."""
    p = len(angles)
    share = np.arange(p + 1) / p
    before, own = np.concatenate([[0.0], angles]), np.concatenate([angles, [0.0]])
    made: Array = share * before + (1 - share) * own
    return made


def grown(
    build: Callable[[int], Circuit], cost: PauliSum, layers: int, first: tuple[Array, Array], *, steps: int, lr: float
) -> tuple[Array, Array]:
    """(gamma [p], beta [p]) of p layers: one is optimised, interpolated to two, these are optimised, and so on.

    build   layers -> the circuit, whose parameters are gamma and beta;    first  angles of one layer
    steps, lr  of Adam for each number of layers but the last
    """
    gamma, beta = first
    for number in range(1, layers):
        circuit = build(number)

        def energy(theta: Tensor, circuit: Circuit = circuit) -> Tensor:
            return circuit_expectation(circuit, [cost], theta.reshape((1, -1))).sum()

        found = descend(energy, np.concatenate([gamma, beta]), steps=steps, lr=lr)
        gamma, beta = (interpolated(part) for part in np.split(found.parameters, 2))
    return gamma, beta
