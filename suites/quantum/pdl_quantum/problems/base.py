"""`BinaryProblem`: a cost of bit strings, as a Hamiltonian to minimise."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np

from pdl_quantum.circuits import PauliSum
from pdl_quantum.problems import diagonal
from pdl_quantum.problems.bits import bits_of, text_of
from pdl_quantum.problems.qubo import QUBO
from pdl_quantum.problems.search import local_search

Array = np.ndarray


@dataclass(frozen=True)
class Kept:
    """Rules about how many bits are 1, and the cost without what enforces them.

    groups   disjoint sets of bits;    ones  how many of each are 1;    hamiltonian  equal to the cost where they hold
    """

    groups: list[list[int]]
    ones: list[int]
    hamiltonian: PauliSum


class BinaryProblem:
    """The least value of a cost over bit strings, a qubit for each bit.

    A subclass says what a bit string stands for (`decode`), which ones stand for anything (`valid`), and how good it is
    in the problem's own units (`value`).

    hamiltonian   the cost, a sum of products of Z;    measure  what `value` is called: "cut", "length", "cost"
    sense         whether a larger `value` is better ("max") or a smaller one
    expected      what the `value` of an expected energy is called, where it has one of its own
    ruled         whether there are bit strings that stand for nothing
    """

    expected: ClassVar[str | None] = None
    ruled: ClassVar[bool] = False
    measure: ClassVar[str] = "cost"
    sense: ClassVar[Literal["min", "max"]] = "min"

    def __init__(self, hamiltonian: PauliSum) -> None:
        diagonal.require_diagonal(hamiltonian)
        self.hamiltonian = hamiltonian

    @property
    def num_qubits(self) -> int:
        """How many bits."""
        return self.hamiltonian.num_qubits

    @cached_property
    def qubo(self) -> QUBO:
        """The cost as a quadratic function of bits; UsageError where it is of higher order."""
        return QUBO.from_ising(self.hamiltonian)

    @property
    def bit_names(self) -> list[str]:
        """What each bit says where it is 1."""
        return [str(q) for q in range(self.num_qubits)]

    @property
    def kept(self) -> Kept | None:
        """The rules that a circuit can keep by itself, where there are such."""
        return None

    # -- of bit strings [..., n] ---------------------------------------------------------------------------------------
    def energy(self, bits: Any) -> Array:
        """The cost, which is minimised, float64 [...]."""
        return diagonal.values(self.hamiltonian, bits)

    def valid(self, bits: Any) -> Array:
        """Whether they keep to the problem's rules, bool [...]."""
        return np.ones(np.shape(bits)[:-1], bool)

    def value(self, bits: Any) -> Array:
        """How good they are in the problem's units, float64 [...]; NaN where not valid."""
        return self.energy(bits)

    def decode(self, bits: Any) -> dict[str, Any]:
        """What one bit string [n] stands for, as plain values."""
        return {"ones": np.flatnonzero(bits).tolist()}

    def value_of_energy(self, energy: float) -> float:
        """The `value` that goes with an expected energy, rules aside."""
        return energy

    def energy_scale(self) -> tuple[float, float]:
        """(scale, shift): value = energy scale + shift, rules aside."""
        shift = self.value_of_energy(0.0)
        return self.value_of_energy(1.0) - shift, shift

    # -- what is best --------------------------------------------------------------------------------------------------
    @cached_property
    def best(self) -> diagonal.Least:
        """The least energy and the bit strings that have it, by trying all (`diagonal.MOST` qubits at most)."""
        return diagonal.least(self.hamiltonian)

    @cached_property
    def worst(self) -> float:
        """The greatest energy."""
        return -diagonal.least(-self.hamiltonian).value

    def ratio(self, energy: float) -> float:
        """How good an expected energy is: 1 the best, 0 the worst bit string's."""
        span = self.worst - self.best.value
        return 1.0 if span == 0 else (self.worst - energy) / span

    @cached_property
    def optimum(self) -> float:
        """The `value` of the best bit strings; NaN where these are not valid, so that penalties are too small."""
        return float(self.value(bits_of(self.best.indices[0], self.num_qubits)))

    def best_of(self, bits: Any) -> int:
        """Which of bit strings [K, n] is best, by value where valid, else by energy."""
        found, energy = self.value(bits), self.energy(bits)
        if np.isnan(found).all():
            return int(energy.argmin())
        return int(np.nanargmax(found) if self.sense == "max" else np.nanargmin(found))

    def classical(self, seed: int = 0) -> dict[str, Array]:
        """What classical methods find, bits [n] by the method's name."""
        return {"local search": local_search(self.energy, self.num_qubits, seed=seed)}

    def describe(self, bits: Any) -> dict[str, Any]:
        """A bit string with its meaning, energy and value, as plain values."""
        given, found = np.asarray(bits), float(self.value(bits))
        return {
            "bits": text_of(given),
            self.measure: None if np.isnan(found) else found,
            "energy": float(self.energy(given)),
            "valid": bool(self.valid(given)),
            **self.decode(given),
        }
