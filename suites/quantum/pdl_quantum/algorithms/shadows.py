"""Classical shadows of random Pauli measurements (arXiv 2002.08953): many local observables from few shots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pdl.errors import UsageError
from pdl_quantum.circuits import Circuit, PauliSum, sample, states

Array = np.ndarray
LETTERS = "XYZ"


@dataclass(frozen=True, eq=False)
class PauliShadow:
    """Measurements of every qubit along X, Y or Z, chosen at random for each shot.

    bases   uint8 [shots, n]: 0, 1, 2 for X, Y, Z;    outcomes  int8 [shots, n]: 1 or -1
    """

    bases: Array
    outcomes: Array

    @staticmethod
    def measure(state: Any, shots: int, *, seed: int = 0) -> PauliShadow:
        """Of a state complex [2^n]; shots along the same axes are sampled from the same rotated state."""
        z = checked_state(state, shots)
        n = len(z).bit_length() - 1
        rng = np.random.default_rng(seed)
        bases = rng.integers(0, 3, (shots, n), dtype=np.uint8)
        outcomes = np.zeros((shots, n), np.int8)
        kinds, which = np.unique(bases, axis=0, return_inverse=True)
        shifts = np.arange(n - 1, -1, -1)
        for number, axes in enumerate(kinds):
            mine = np.flatnonzero(which.ravel() == number)
            turned = states(_to_z(axes), initial=z)[0]
            samples = sample(turned, len(mine), seed=int(rng.integers(1 << 62)))
            outcomes[mine] = 1 - 2 * (samples[:, None] >> shifts & 1)
        return PauliShadow(bases, outcomes)

    @property
    def num_qubits(self) -> int:
        """n."""
        return int(self.bases.shape[1])

    def __len__(self) -> int:
        return len(self.bases)

    def estimates(self, word: str) -> Array:
        """An unbiased estimate of a Pauli word's expectation by each shot, float64 [shots]: the product of 3 times the
        outcomes where all axes on its qubits are the word's, else 0."""
        if len(word) != self.num_qubits or set(word) - set("IXYZ"):
            raise UsageError(f"{word!r:.60} is no word of {self.num_qubits} letters I, X, Y, Z")
        at = [q for q, letter in enumerate(word) if letter != "I"]
        hit = (self.bases[:, at] == [LETTERS.index(word[q]) for q in at]).all(1)
        made: Array = np.where(hit, self.outcomes[:, at].prod(1, dtype=np.float64), 0.0) * 3.0 ** len(at)
        return made

    def expectation(self, observable: PauliSum, *, groups: int = 1) -> float:
        """The median of the means over so many groups of shots (1: the mean). Its error is below e with chance 1 - d
        for groups = 2 ln(2/d) of 34 max |O|^2 / e^2 shots, where |P|^2 <= 3^k for words on k qubits."""
        if not observable.hermitian:
            raise UsageError("a shadow estimates observables; this sum has complex coefficients")
        values = sum(complex(c).real * self.estimates(word) for word, c in observable.terms.items())
        return median_of_means(np.asarray(values), groups)


def checked_state(state: Any, shots: int = 1) -> Array:
    """A state complex128 [2^n]; UsageError where it is none, or without shots."""
    z = np.asarray(state, np.complex128).ravel()
    n = len(z).bit_length() - 1
    if len(z) != 1 << n or n < 1 or not np.isclose(np.linalg.norm(z), 1):
        raise UsageError(f"a state of {len(z)} amplitudes and length {np.linalg.norm(z):.6g}; give 2^n of length 1")
    if shots < 1:
        raise UsageError(f"shots={shots}; give 1 or more")
    return z


def _to_z(axes: Sequence[int]) -> Circuit:
    """The turns after which Z is read where X, Y or Z was meant."""
    circuit = Circuit(len(axes))
    for qubit, axis in enumerate(axes):
        if axis == 0:
            circuit.h(qubit)
        elif axis == 1:
            circuit.sdg(qubit).h(qubit)
    return circuit


def median_of_means(values: Array, groups: int) -> float:
    """Of values [shots], in order, in groups of nearly the same size."""
    if not 1 <= groups <= len(values):
        raise UsageError(f"groups={groups} of {len(values)} shots; give 1 to {len(values)}")
    return float(np.median([part.mean() for part in np.array_split(values, groups)]))


def shots_needed(locality: int, observables: int, error: float, failure: float = 0.01) -> tuple[int, int]:
    """(shots, groups) for which all of so many Pauli words on at most `locality` qubits are within `error` with chance
    1 - `failure`: theorem 1 of arXiv 2002.08953 with the shadow norm 3^locality of a word."""
    if not 0 < failure < 1 or not error > 0 or locality < 0 or observables < 1:
        raise UsageError(f"locality={locality}, observables={observables}, error={error}, failure={failure}: nothing "
                         "is asked of a shadow so")  # fmt: skip
    groups = int(np.ceil(2 * np.log(2 * observables / failure)))
    return groups * int(np.ceil(34 * 3.0**locality / error**2)), groups
