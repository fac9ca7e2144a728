"""Chains and rings of spins as sums of Pauli products."""

from __future__ import annotations

from collections.abc import Sequence

from pdl.errors import UsageError
from pdl_quantum.circuits import PauliSum


def heisenberg(n: int, *, j: float | Sequence[float] = 1.0, field: float = 0.0, ring: bool = False) -> PauliSum:
    """sum over neighbours of jx XX + jy YY + jz ZZ, and field times the sum of Z.

    j   one coupling for all three, or [jx, jy, jz];    ring  whether the last spin meets the first
    """
    couplings = [float(j)] * 3 if isinstance(j, int | float) else [float(each) for each in j]
    if len(couplings) != 3:
        raise UsageError(f"heisenberg: j has {len(couplings)} couplings; give one, or those of XX, YY and ZZ")
    terms = [(_word(n, {a: letter, b: letter}), c) for a, b in _neighbours(n, ring)
             for letter, c in zip("XYZ", couplings, strict=True) if c]  # fmt: skip
    return PauliSum(n, [*terms, *((_word(n, {q: "Z"}), field) for q in range(n if field else 0))])


def transverse_ising(n: int, *, j: float = 1.0, field: float = 1.0, ring: bool = False) -> PauliSum:
    """-j times the sum of ZZ over neighbours, less field times the sum of X; critical at field = j."""
    terms = [(_word(n, {a: "Z", b: "Z"}), -j) for a, b in _neighbours(n, ring)]
    return PauliSum(n, [*terms, *((_word(n, {q: "X"}), -field) for q in range(n if field else 0))])


def _neighbours(n: int, ring: bool) -> list[tuple[int, int]]:
    if n < 2:
        raise UsageError(f"a chain of {n} spins has no neighbours; give 2 or more")
    return [(q, q + 1) for q in range(n - 1)] + ([(n - 1, 0)] if ring and n > 2 else [])


def _word(n: int, letters: dict[int, str]) -> str:
    return "".join(letters.get(q, "I") for q in range(n))
