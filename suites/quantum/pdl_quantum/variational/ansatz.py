"""`Ansatz`: a circuit whose parameters are learned, as a module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np

import pdl
from pdl.errors import ConfigError, UsageError
from pdl.hints import Inferred, Range
from pdl.nn import Buffer, Module, Parameter, init
from pdl_quantum.circuits import Circuit, PauliSum, states
from pdl_quantum.ops import circuit_expectation, pauli_words
from pdl_quantum.ops.pauli_words import LETTERS

Array = np.ndarray
INFERRED = ("num_qubits", "num_electrons", "occupied", "symmetries")


class Ansatz(Module):
    """The state of a circuit, for problems that each have a row of its parameters.

    circuit   made by a template, whose open arguments come from the problem
    initial   "zeros", "normal" (deviation `scale`), "uniform" (within `scale`), or a value for each parameter
    rows      how many problems (from the data)
    terms     Pauli words in their Hamiltonians (from the data): the module keeps these, so that a run can be asked
              for its energy without its data

    theta [rows, P] is float64, as the engine computes. `forward` gives expectations [rows, K] of K observables.
    """

    def __init__(
        self,
        circuit: Annotated[Circuit, Inferred(*INFERRED)],
        *,
        initial: Literal["zeros", "normal", "uniform"] | Sequence[float] = "zeros",
        scale: Annotated[float, Range(above=0)] = 0.1,
        rows: Annotated[int, Range(1)] | None = None,
        terms: Annotated[int, Range(1)] | None = None,
    ) -> None:
        self.fixed, self.rows = circuit, rows or 1
        if not circuit.num_parameters:
            raise ConfigError(f"a circuit without parameters has nothing to learn: {circuit!r}")
        self.theta = Parameter(self._start(initial, scale))
        self.words = Buffer(np.zeros((terms or 0, circuit.num_qubits), np.uint8))
        self.coefficients = Buffer(np.zeros((self.rows, terms or 0), np.float64))

    @property
    def circuit(self) -> Circuit:
        """As it is now."""
        return self.fixed

    def settled(self) -> Ansatz:
        """The model as it is now, with a circuit that stays: what a bundle is made of."""
        return self

    def _start(self, initial: str | Sequence[float], scale: float) -> Array:
        count = self.fixed.num_parameters
        values = pdl.zeros((self.rows, count), dtype=pdl.float64)
        if initial == "normal":
            init.normal_(values, 0.0, scale)
        elif initial == "uniform":
            init.uniform_(values, -scale, scale)
        elif not isinstance(initial, str):
            given = np.asarray(initial, np.float64)
            if given.shape != (count,):
                raise ConfigError(f"initial has {given.size} values, the circuit has {count} parameters")
            values = pdl.as_tensor(np.tile(given, (self.rows, 1)))
        return values.numpy()

    def forward(self, observables: Sequence[PauliSum]) -> pdl.Tensor:
        """Expectations [rows, K]."""
        return circuit_expectation(self.circuit, observables, self.theta)

    @property
    def num_states(self) -> int:
        """How many states it makes: one for each row of parameters."""
        return self.rows

    def energies(self, hamiltonians: Sequence[PauliSum]) -> pdl.Tensor:
        """The expectation of each state's own Hamiltonian, or of the only one, [num_states]."""
        return own(self(hamiltonians), self.num_states)

    def expectations_of(self, words: pdl.Tensor) -> pdl.Tensor:
        """Expectations of Pauli words int64 [N, n] as `pdl_quantum.ops.pauli_words` takes them, [N, num_states]."""
        return pauli_words(self.circuit, self.theta, words)

    def states(self) -> Array:
        """The states as they are now, complex128 [num_states, 2^n]."""
        return states(self.circuit, self.theta.detach().numpy())

    # -- what it was learned from --------------------------------------------------------------------------------------
    def hold(self, hamiltonians: Sequence[PauliSum]) -> None:
        """Keep the Hamiltonians, one for each row."""
        words = list(dict.fromkeys(word for each in hamiltonians for word in each.terms))
        if (len(hamiltonians), len(words)) != self.coefficients.shape:
            raise UsageError(f"{len(hamiltonians)} Hamiltonians of {len(words)} terms, and room for "
                             f"{self.coefficients.shape}")  # fmt: skip
        self.words._data[...] = [[LETTERS.index(letter) for letter in word] for word in words]
        rows = [[complex(each.terms.get(word, 0.0)).real for word in words] for each in hamiltonians]
        self.coefficients._data[...] = rows

    def held(self) -> list[PauliSum]:
        """The Hamiltonians that `hold` was given."""
        words = ["".join(LETTERS[letter] for letter in word) for word in self.words.numpy()]
        return [
            PauliSum(self.circuit.num_qubits, {w: float(c) for w, c in zip(words, row, strict=True) if c})
            for row in self.coefficients.numpy()
        ]


def own(expectations: pdl.Tensor, rows: int) -> pdl.Tensor:
    """Of expectations [rows, rows] of every row's observable in every row's state those that belong together, [rows];
    of [rows, 1] that one."""
    if expectations.shape[1] == 1:
        return expectations[:, 0]
    return (expectations * pdl.as_tensor(np.eye(rows))).sum(axis=1)


def num_terms(hamiltonians: Sequence[PauliSum]) -> int:
    """How many different words they have."""
    return len({word for each in hamiltonians for word in each.terms})
