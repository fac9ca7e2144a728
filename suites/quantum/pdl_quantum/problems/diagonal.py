"""Sums of products of Z as functions of bit strings: their values, and their least ones by trying all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pdl.errors import UsageError
from pdl_quantum.circuits import PauliSum

Array = np.ndarray
MOST, BLOCK = 28, 18
"""The most qubits whose states are all tried, and how many of them a block of states has (2^18 values: 2 MB)."""
KEPT = 1 << 16
"""How many of the best states are kept."""


def require_diagonal(sum_: PauliSum) -> None:
    """UsageError unless it is a real function of bit strings."""
    strange = next((word for word in sum_.terms if set(word) & set("XY")), None)
    if strange is not None:
        raise UsageError(f"{strange} is not diagonal; a cost of bit strings is a sum of products of Z")
    if not sum_.hermitian:
        raise UsageError("the cost has complex coefficients; give real ones")


def values(sum_: PauliSum, bits: Any) -> Array:
    """The sum's values at bit strings [..., n], float64 [...]."""
    require_diagonal(sum_)
    given = np.asarray(bits)
    if given.shape[-1:] != (sum_.num_qubits,):
        raise UsageError(f"bit strings {given.shape} for {sum_.num_qubits} qubits")
    signs = 1.0 - 2.0 * given.reshape(-1, sum_.num_qubits)
    made = np.zeros(len(signs))
    for word, factor in sum_.terms.items():
        chosen = [q for q, letter in enumerate(word) if letter == "Z"]
        made += complex(factor).real * signs[:, chosen].prod(1)
    return made.reshape(given.shape[:-1])


def table(sum_: PauliSum) -> Array:
    """The values at all basis states, float64 [2^n], by a fast Walsh-Hadamard transform of the coefficients: n 2^n
    additions, however many terms there are."""
    require_diagonal(sum_)
    return _transformed(_masks(sum_), sum_.num_qubits)


def from_table(made: Any, *, tolerance: float = 1e-14) -> PauliSum:
    """The sum whose values at all basis states these are, float64 [2^n]: the transform back."""
    given = np.array(made, np.float64)
    n = len(given).bit_length() - 1
    if given.shape != (1 << n,) or n < 1:
        raise UsageError(f"a table {given.shape}; give 2^n values")
    found = _transformed(dict(enumerate(given.tolist())), n) / len(given)
    kept = np.flatnonzero(np.abs(found) > tolerance)
    return PauliSum(n, {_word(int(mask), n): float(found[mask]) for mask in kept})


def _word(mask: int, n: int) -> str:
    return "".join("Z" if mask >> (n - 1 - q) & 1 else "I" for q in range(n))


@dataclass(frozen=True)
class Least:
    """The least value of a sum, and the basis states int64 that have it, ascending (at most `KEPT`)."""

    value: float
    indices: Array


def least(sum_: PauliSum, *, tolerance: float = 1e-9) -> Least:
    """The least value over all 2^n bit strings, block by block; 2^20 of them take tens of milliseconds.

    tolerance   values that are so much above the least, relative to the sum's size, count as least, too
    """
    require_diagonal(sum_)
    n, masks = sum_.num_qubits, _masks(sum_)
    if n > MOST:
        raise UsageError(f"trying all 2^{n} bit strings would take too long; 2^{MOST} are the most")
    low = min(n, BLOCK)
    slack = tolerance * max(1.0, sum(map(abs, masks.values())))
    best, found = np.inf, np.zeros(0, np.int64)
    for high in range(1 << (n - low)):
        inner: dict[int, float] = {}
        for mask, factor in masks.items():
            sign = -1.0 if (mask >> low & high).bit_count() & 1 else 1.0
            inner[mask & (1 << low) - 1] = inner.get(mask & (1 << low) - 1, 0.0) + sign * factor
        made = _transformed(inner, low)
        lowest = float(made.min())
        if lowest > best + slack:
            continue
        if lowest < best - slack:
            best, found = lowest, np.zeros(0, np.int64)
        here = np.flatnonzero(made <= best + slack) + (high << low)
        found = np.concatenate([found, here])[:KEPT]
    return Least(best, found)


def _masks(sum_: PauliSum) -> dict[int, float]:
    """Coefficients by the bits of an index that their product reads."""
    n, made = sum_.num_qubits, dict[int, float]()
    for word, factor in sum_.terms.items():
        mask = sum(1 << (n - 1 - q) for q, letter in enumerate(word) if letter == "Z")
        made[mask] = made.get(mask, 0.0) + complex(factor).real
    return made


def _transformed(masks: dict[int, float], n: int) -> Array:
    """sum_m c_m (-1)^popcount(m & x) for all x < 2^n."""
    made = np.zeros(1 << n)
    made[list(masks)] = list(masks.values())
    for bit in range(n):
        pairs = made.reshape(-1, 2, 1 << bit)
        a, b = pairs[:, 0].copy(), pairs[:, 1]
        pairs[:, 0] += b
        np.subtract(a, b, out=pairs[:, 1])
    return made
