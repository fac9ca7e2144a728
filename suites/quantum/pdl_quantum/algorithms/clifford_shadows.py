"""Classical shadows of random Clifford measurements (arXiv 2002.08953): fidelities, and observables on all qubits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pdl.errors import UsageError
from pdl_quantum.algorithms.shadows import checked_state, median_of_means
from pdl_quantum.circuits import PauliSum

Array = np.ndarray
Word = tuple[int, int]
"""A Pauli product as (x, z): bits of the qubits with X or Y, and of those with Y or Z."""
MOST = 12


@dataclass(frozen=True, eq=False)
class CliffordShadow:
    """The stabiliser states that measurements in uniformly random stabiliser bases gave, complex128 [shots, 2^n].

    A random Clifford circuit and a measurement of all qubits is a measurement in such a basis: of n independent Pauli
    products that commute, all sets of which are equally likely. They are measured one after the other.
    """

    states: Array

    @staticmethod
    def measure(state: Any, shots: int, *, seed: int = 0) -> CliffordShadow:
        """Of a state complex [2^n], n up to 12."""
        z = checked_state(state, shots)
        n, rng = len(z).bit_length() - 1, np.random.default_rng(seed)
        if n > MOST:
            raise UsageError(f"{n} qubits: the stabiliser states are kept as vectors, for {MOST} at most")
        made = np.empty((shots, len(z)), complex)
        for shot in range(shots):
            behind = z
            for word in random_basis(n, rng):
                behind = _measured(behind, word, float(rng.random()))
            made[shot] = behind
        return CliffordShadow(made)

    def __len__(self) -> int:
        return len(self.states)

    def estimates(self, observable: PauliSum) -> Array:
        """An unbiased estimate of an observable O by each shot, float64 [shots]: (2^n + 1) <s|O|s> - tr O. Its variance
        is at most 3 tr O^2, for a word other than the identity 2^n + 1 at most."""
        size = self.states.shape[1]
        trace = complex(observable.terms.get("I" * observable.num_qubits, 0.0)).real * size
        return (size + 1) * observable.expectation(self.states) - trace

    def expectation(self, observable: PauliSum, *, groups: int = 1) -> float:
        """The median of the means over so many groups of shots."""
        return median_of_means(self.estimates(observable), groups)

    def fidelity(self, target: Any, *, groups: int = 1) -> float:
        """An estimate of |<t|z>|^2 with a state t complex [2^n]; its variance is at most 3, whatever n."""
        t = checked_state(target)
        if len(t) != self.states.shape[1]:
            raise UsageError(f"a state of {len(t)} amplitudes, and shadows of {self.states.shape[1]}")
        return median_of_means((len(t) + 1) * np.abs(self.states @ t.conj()) ** 2 - 1, groups)


def random_basis(n: int, rng: np.random.Generator) -> list[Word]:
    """n independent Pauli products that commute, so that all the groups that such make are equally likely.

    Each is drawn evenly of what commutes with those before it and with their partners (with which they do not
    commute), then gets a partner itself.
    """
    chosen: list[Word] = []
    partners: list[Word] = []

    def random_word() -> Word:
        x, z = (int(rng.integers(1 << n)) for _ in range(2))
        for g, d in zip(chosen, partners, strict=True):
            clash, other = _anticommute((x, z), g), _anticommute((x, z), d)
            x, z = x ^ clash * d[0] ^ other * g[0], z ^ clash * d[1] ^ other * g[1]
        return x, z

    while len(chosen) < n:
        word = random_word()
        if word == (0, 0):
            continue
        partner = random_word()
        while not _anticommute(word, partner):
            partner = random_word()
        chosen.append(word)
        partners.append(partner)
    return chosen


def _anticommute(a: Word, b: Word) -> int:
    return ((a[0] & b[1]).bit_count() + (a[1] & b[0]).bit_count()) & 1


def _measured(z: Array, word: Word, draw: float) -> Array:
    """The state behind a measurement of a Pauli product, 1 if the draw is below its chance."""
    flipped = np.arange(len(z)) ^ word[0]
    signs = 1 - 2 * (np.bitwise_count(flipped & word[1]) & 1).astype(np.float64)
    acted = 1j ** (word[0] & word[1]).bit_count() * signs * z[flipped]
    up = (1 + float(np.vdot(z, acted).real)) / 2
    made: Array = z + acted if draw < up else z - acted
    return made / np.linalg.norm(made)
