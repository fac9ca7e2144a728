"""Inputs of the op tables, from one generator: a case that is added moves the numbers of those behind it (`draws` makes
generators for a table of its own)."""

from __future__ import annotations

import numpy as np

from pdl.testing import Case, draws, forward

RNG = np.random.default_rng(20)


def f(*shape: int, low: float = -1.0, high: float = 1.0) -> np.ndarray:
    """A float64 input, uniform in [low, high)."""
    return RNG.uniform(low, high, shape)


def distinct(*shape: int, gap: float = 0.1) -> np.ndarray:
    """A float64 input whose values lie `gap` apart in random order, away from 0: no ties and no kinks near them."""
    n = int(np.prod(shape))
    return (RNG.permutation(n) - n / 2 + 0.37).reshape(shape) * gap


def c(*shape: int) -> np.ndarray:
    """A complex128 input."""
    return f(*shape) + 1j * f(*shape)


def i(*shape: int, high: int = 5, low: int = 0) -> np.ndarray:
    """An int64 input in [low, high)."""
    return RNG.integers(low, high, shape)


def b(*shape: int) -> np.ndarray:
    """A bool input."""
    return RNG.random(shape) < 0.5


__all__ = ["RNG", "Case", "b", "c", "distinct", "draws", "f", "forward", "i"]
