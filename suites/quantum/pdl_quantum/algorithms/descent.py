"""Losses of a circuit's parameters, lowered by the shared optimisers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from pdl import nn, optim
from pdl.errors import UsageError
from pdl.tensor import Tensor
from pdl_quantum.circuits import Circuit

Array = np.ndarray
Method = Callable[[nn.Parameter], optim.Optimizer]


@dataclass
class Fit:
    """What a descent came to.

    parameters   float64 [P], those of the least loss;    loss  there;    losses  of every step
    """

    parameters: Array
    loss: float
    losses: list[float] = field(default_factory=list)


def angles(circuit: Circuit, seed: int, scale: float = 2 * np.pi) -> Array:
    """Parameters to begin with, float64 [P], evenly in [0, scale)."""
    return np.random.default_rng(seed).random(circuit.num_parameters) * scale


def descend(
    loss: Callable[[Tensor], Tensor],
    start: Array,
    *,
    steps: int = 200,
    lr: float = 0.1,
    tolerance: float = 0.0,
    optimizer: Method | None = None,
) -> Fit:
    """Lower a loss from some parameters [P] by Adam, or by another optimiser, and keep the best.

    loss       parameters as a tensor [P] -> a tensor with one element
    tolerance  stop once a step changes the loss by no more than this
    """
    if steps < 1:
        raise UsageError(f"steps={steps}; give 1 or more")
    theta = nn.Parameter(np.array(start, np.float64))
    method = optim.Adam([theta], lr=lr) if optimizer is None else optimizer(theta)
    best = Fit(theta.detach().numpy().copy(), np.inf)
    for _ in range(steps):
        method.zero_grad()
        found = loss(theta)
        value = float(found.detach().numpy())
        best.losses.append(value)
        if value < best.loss:
            best.parameters, best.loss = theta.detach().numpy().copy(), value
        if len(best.losses) > 1 and abs(best.losses[-2] - value) <= tolerance:
            break
        found.backward()
        method.step()
    return best


def best_of(starts: int, seed: int, descent: Callable[[int], Fit]) -> Fit:
    """The best of descents from the seeds seed, seed + 1, ...: losses of circuits have local minima."""
    if starts < 1:
        raise UsageError(f"starts={starts}; give 1 or more")
    return min((descent(seed + k) for k in range(starts)), key=lambda found: found.loss)
