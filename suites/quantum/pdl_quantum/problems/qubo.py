"""Quadratic functions of bits (QUBO), and the Ising sums that they are on qubits."""

from __future__ import annotations

from typing import Any

import numpy as np

from pdl.errors import UsageError
from pdl_quantum.circuits import PauliSum

Array = np.ndarray


class QUBO:
    """x^T Q x + offset over bits x in {0, 1}^n: quadratic unconstrained binary optimisation, to be minimised.

    matrix   Q [n, n], any; kept as its symmetric part, whose diagonal holds what is linear (x^2 = x)

    On qubits x_q is (1 - Z_q) / 2 (Lucas, "Ising formulations of many NP problems", arXiv 1302.5843).
    """

    def __init__(self, matrix: Any, offset: float = 0.0) -> None:
        given = np.array(matrix, np.float64)
        if given.ndim != 2 or given.shape[0] != given.shape[1] or not len(given):
            raise UsageError(f"QUBO: a matrix {given.shape}; give [n, n], a row for each bit")
        if not np.isfinite(given).all() or not np.isfinite(offset):
            raise UsageError("QUBO: the matrix or the offset has values that are not finite")
        self.matrix, self.offset = (given + given.T) / 2, float(offset)

    @property
    def num_variables(self) -> int:
        """n."""
        return len(self.matrix)

    def value(self, bits: Any) -> Array:
        """Values at bit strings [..., n], float64 [...]."""
        x = np.asarray(bits, np.float64)
        if x.shape[-1:] != (self.num_variables,):
            raise UsageError(f"QUBO: bit strings {x.shape} for {self.num_variables} variables")
        made: Array = ((x @ self.matrix) * x).sum(-1) + self.offset
        return made

    def ising(self) -> PauliSum:
        """The same as a sum of 1, Z and ZZ."""
        n, q = self.num_variables, self.matrix
        pairs = q - np.diag(np.diag(q))
        terms = {_word(n): self.offset + float(np.diag(q).sum() / 2 + pairs.sum() / 4)}
        terms |= {_word(n, i): float(-q[i, i] / 2 - pairs[i].sum() / 2) for i in range(n)}
        terms |= {_word(n, i, j): float(q[i, j] / 2) for i in range(n) for j in range(i + 1, n)}
        constant = {_word(n): terms.pop(_word(n))}
        return PauliSum(n, constant | PauliSum(n, terms).simplified().terms)

    @staticmethod
    def from_ising(sum_: PauliSum) -> QUBO:
        """The QUBO of a sum of 1, Z and ZZ; UsageError where there are other terms."""
        n = sum_.num_qubits
        matrix, offset = np.zeros((n, n)), 0.0
        for word, factor in sum_.terms.items():
            at, value = [q for q, letter in enumerate(word) if letter != "I"], complex(factor)
            if set(word) - set("IZ") or len(at) > 2 or abs(value.imag) > 1e-12:
                raise UsageError(f"{value:.4g} {word} is in no QUBO; it has real multiples of 1, Z and ZZ")
            offset += value.real
            for q in at:
                matrix[q, q] -= 2 * value.real
            if len(at) == 2:
                matrix[at[0], at[1]] += 4 * value.real
        return QUBO(matrix, offset)

    def __repr__(self) -> str:
        pairs = int(np.count_nonzero(np.triu(self.matrix, 1)))
        return f"QUBO({self.num_variables} variables, {pairs} pairs, offset {self.offset:.6g})"


def _word(n: int, *qubits: int) -> str:
    letters = ["I"] * n
    for q in qubits:
        letters[q] = "Z"
    return "".join(letters)
