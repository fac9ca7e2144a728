"""Inputs of the op tables: each table draws from a generator of its own, so that its numbers hang on no other table."""

from __future__ import annotations

import numpy as np

from pdl.testing import Case, draws, forward


class Draws:
    """Makers of inputs (`pdl.testing.draws` has two of them): a case that is added moves the numbers of those behind
    it in the same table."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def f(self, *shape: int, low: float = -1.0, high: float = 1.0) -> np.ndarray:
        """A float64 input, uniform in [low, high)."""
        return self.rng.uniform(low, high, shape)

    def distinct(self, *shape: int, gap: float = 0.1) -> np.ndarray:
        """A float64 input whose values lie `gap` apart in random order, away from 0: no ties and no kinks near them."""
        n = int(np.prod(shape))
        return (self.rng.permutation(n) - n / 2 + 0.37).reshape(shape) * gap

    def c(self, *shape: int) -> np.ndarray:
        """A complex128 input."""
        return self.f(*shape) + 1j * self.f(*shape)

    def i(self, *shape: int, high: int = 5, low: int = 0) -> np.ndarray:
        """An int64 input in [low, high)."""
        return self.rng.integers(low, high, shape)

    def b(self, *shape: int) -> np.ndarray:
        """A bool input."""
        return self.rng.random(shape) < 0.5


__all__ = ["Case", "Draws", "draws", "forward"]
