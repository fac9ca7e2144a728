"""Descents over single bits: what a classical computer finds of a QUBO at once."""

from __future__ import annotations

import numpy as np

from pdl_quantum.problems.qubo import QUBO

Array = np.ndarray


def descend(qubo: QUBO, bits: Array) -> Array:
    """Flip the bit that lowers the value most, until none does. Bits uint8 [n] in and out."""
    x, q = bits.astype(np.float64), qubo.matrix
    own = np.diag(q)
    pairs = q - np.diag(own)
    field = own + 2 * pairs @ x  # what setting each bit adds
    while True:
        change = (1 - 2 * x) * field
        k = int(change.argmin())
        if change[k] >= -1e-12:
            return x.astype(np.uint8)
        field += 2 * pairs[k] * (1 - 2 * x[k])
        x[k] = 1 - x[k]


def greedy(qubo: QUBO) -> Array:
    """`descend` from all zeros: bits uint8 [n]."""
    return descend(qubo, np.zeros(qubo.num_variables, np.uint8))


def local_search(qubo: QUBO, *, starts: int = 20, seed: int = 0) -> Array:
    """The best of descents from random bit strings: bits uint8 [n]."""
    rng = np.random.default_rng(seed)
    found = np.stack([descend(qubo, rng.integers(0, 2, qubo.num_variables)) for _ in range(starts)])
    best: Array = found[int(qubo.value(found).argmin())]
    return best


__all__ = ["descend", "greedy", "local_search"]
