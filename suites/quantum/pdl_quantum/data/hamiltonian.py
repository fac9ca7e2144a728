"""Hamiltonians that are given, or random."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice, product
from typing import Annotated

import numpy as np

from pdl.errors import DataError, UsageError
from pdl.hints import Range
from pdl_quantum.circuits import PauliSum
from pdl_quantum.data.eigenproblems import Eigenproblems
from pdl_quantum.eigenproblem import Eigenproblem
from pdl_quantum.spectrum import Sector, levels

SOLVED = 14
"""The most qubits for which the exact energy is computed."""


class Hamiltonian(Eigenproblems):
    """A sum of products of Pauli matrices.

    terms   {"ZZ": 1.0, "XI": 0.5}: a letter for each qubit, the first is qubit 0;    name  for people
    """

    def __init__(self, terms: Mapping[str, float], name: str = "Hamiltonian") -> None:
        if not terms:
            raise DataError("a Hamiltonian without terms: give {word: coefficient}, such as {ZZ: 1.0, XI: 0.5}")
        try:
            made = PauliSum(len(next(iter(terms))), {word: float(value) for word, value in terms.items()})
        except UsageError as error:
            raise DataError(str(error)) from None
        super().__init__([solved(name, made)])


class RandomHamiltonian(Eigenproblems):
    """`terms` different products of Pauli matrices, the identity not among them, with coefficients uniform in [-1, 1):
    both sampled by NumPy's default generator from `seed`, the words first.

    num_qubits  letters of each product
    """

    def __init__(
        self, num_qubits: Annotated[int, Range(1, 10)], terms: Annotated[int, Range(1)], seed: Annotated[int, Range(0)]
    ) -> None:
        words = ["".join(letters) for letters in islice(product("IXYZ", repeat=num_qubits), 1, None)]
        if terms > len(words):
            raise DataError(f"{terms} terms on {num_qubits} qubits: there are {len(words)} words")
        rng = np.random.default_rng(seed)
        chosen = rng.choice(len(words), terms, replace=False)
        values = rng.uniform(-1.0, 1.0, terms)
        made = PauliSum(num_qubits, {words[k]: float(value) for k, value in zip(chosen, values, strict=True)})
        super().__init__([solved(f"random {num_qubits}-qubit Hamiltonian, seed {seed}", made)])


def solved(name: str, hamiltonian: PauliSum) -> Eigenproblem:
    """A problem with its exact energy, where that is quick to compute."""
    n = hamiltonian.num_qubits
    return Eigenproblem(name, hamiltonian, levels(hamiltonian, Sector(n))[0] if n <= SOLVED else None)
