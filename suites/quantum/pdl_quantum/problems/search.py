"""Descents over single bits: what a classical computer finds at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray
Cost = Callable[[Any], Array]
"""Bit strings [K, n] -> what they cost, float64 [K]."""


def descend(cost: Cost, bits: Array) -> Array:
    """Flip the bit that lowers the cost most, until none does. Bits uint8 [n] in and out."""
    x = np.array(bits, np.uint8)
    here = float(cost(x[None])[0])
    while True:
        near = x ^ np.eye(len(x), dtype=np.uint8)
        costs = cost(near)
        k = int(costs.argmin())
        if costs[k] >= here - 1e-12 * max(1.0, abs(here)):
            return x
        x, here = near[k], float(costs[k])


def greedy(cost: Cost, n: int) -> Array:
    """`descend` from all zeros: bits uint8 [n]."""
    return descend(cost, np.zeros(n, np.uint8))


def local_search(cost: Cost, n: int, *, starts: int = 20, seed: int = 0) -> Array:
    """The best of descents from random bit strings: bits uint8 [n]."""
    rng = np.random.default_rng(seed)
    found = np.stack([descend(cost, rng.integers(0, 2, n)) for _ in range(starts)])
    best: Array = found[int(cost(found).argmin())]
    return best
