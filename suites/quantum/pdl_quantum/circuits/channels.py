"""Quantum channels by Kraus operators: rho -> sum_k K rho K^dagger (Nielsen & Chuang, chapter 8).

    Circuit(2).h(0).channel(depolarizing(0.01), 0).cx(0, 1).channel(depolarizing(0.02, 2), 0, 1)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from itertools import product
from typing import Any

import numpy as np

from pdl.errors import UsageError
from pdl.suites import suggest
from pdl_quantum.circuits.gates import PAULIS

Array = np.ndarray
MOST_QUBITS = 2
"""Qubits of a channel: over both indices of a density matrix it is a matrix of twice as many, and the engine's are of
four."""


@dataclass(frozen=True, eq=False)
class Channel:
    """A completely positive map that keeps the trace, of one or two qubits.

    name    of the function that made it, or "kraus";    arguments  that function's arguments
    kraus   operators complex [K, 2^k, 2^k], the first qubit the most significant of their index
    paulis  {word: probability} where the operators are products of Pauli matrices, else empty
    """

    name: str
    kraus: Array
    arguments: Mapping[str, Any] = field(default_factory=dict)
    paulis: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        size = self.kraus.shape[-1] if self.kraus.ndim == 3 else 0
        if size not in (2, 4) or self.kraus.shape[1] != size or not len(self.kraus):
            raise UsageError(f"channel {self.name}: Kraus operators {self.kraus.shape}; give [K, 2, 2], or [K, 4, 4] "
                             "for two qubits")  # fmt: skip
        off = np.abs(np.einsum("kji,kjl->il", self.kraus.conj(), self.kraus) - np.eye(size)).max()
        if not off < 1e-8:
            raise UsageError(f"channel {self.name}: its Kraus operators are not complete, sum K^dagger K differs from "
                             f"the identity by {off:.3g}")  # fmt: skip

    @property
    def num_qubits(self) -> int:
        """Qubits that it acts on."""
        return 1 if self.kraus.shape[-1] == 2 else 2

    @cached_property
    def superoperator(self) -> Array:
        """sum_k K x conj(K) [4^k, 4^k]: on rho's entries in rows, row index before column index."""
        size = self.kraus.shape[-1]
        made = np.einsum("kij,klm->iljm", self.kraus, self.kraus.conj())
        return made.reshape(size * size, size * size)

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(f'{key}={value}' for key, value in self.arguments.items())})"


def kraus_channel(kraus: Any) -> Channel:
    """A channel by its Kraus operators [K, d, d], d = 2 or 4; UsageError where sum K^dagger K is not the identity."""
    try:
        return Channel("kraus", np.array(kraus, complex))
    except (TypeError, ValueError):
        raise UsageError("channel: Kraus operators must be matrices of one size") from None


def bit_flip(p: float) -> Channel:
    """X with probability p."""
    return _mixed("bit_flip", {"p": float(p)}, {"X": _chance("bit_flip", "p", p)})


def phase_flip(p: float) -> Channel:
    """Z with probability p."""
    return _mixed("phase_flip", {"p": float(p)}, {"Z": _chance("phase_flip", "p", p)})


def bit_phase_flip(p: float) -> Channel:
    """Y with probability p."""
    return _mixed("bit_phase_flip", {"p": float(p)}, {"Y": _chance("bit_phase_flip", "p", p)})


def depolarizing(p: float, num_qubits: int = 1) -> Channel:
    """rho -> (1 - p) rho + p I/2^k for k = 1 or 2 qubits: each of the 4^k - 1 products of Pauli matrices but the
    identity with probability p/4^k. 0 <= p <= 4^k/(4^k - 1); at p = 1 nothing is left of the state."""
    if num_qubits not in (1, 2):
        raise UsageError(f"depolarizing: {num_qubits} qubits; give 1 or 2")
    words = ["".join(letters) for letters in product("IXYZ", repeat=num_qubits)]
    p = _chance("depolarizing", "p", p, len(words) / (len(words) - 1))
    return _mixed("depolarizing", {"p": p, "num_qubits": num_qubits}, {word: p / len(words) for word in words[1:]})


def pauli_channel(probabilities: Mapping[str, float]) -> Channel:
    """Products of Pauli matrices by their probabilities: {"X": 0.01, "Z": 0.02}, or words of two letters; the rest of
    the probability leaves the state as it is."""
    words = {str(word): _chance("pauli_channel", str(word), p) for word, p in probabilities.items()}
    sizes = {len(word) for word in words}
    if len(sizes) != 1 or not sizes <= {1, 2} or any(set(word) - set("IXYZ") for word in words):
        raise UsageError(f"pauli_channel: {sorted(words)} must be words of I, X, Y, Z, all of one letter or all of two")
    if sum(words.values()) > 1 + 1e-12:
        raise UsageError(f"pauli_channel: probabilities that sum to {sum(words.values()):.6g}; give at most 1")
    return _mixed("pauli_channel", {"probabilities": dict(words)}, words)


def amplitude_damping(gamma: float) -> Channel:
    """|1> falls to |0> with probability gamma: energy lost to surroundings at temperature 0."""
    g = _chance("amplitude_damping", "gamma", gamma)
    return Channel("amplitude_damping", _damping(g, 0.0), {"gamma": g})


def generalized_amplitude_damping(gamma: float, excited: float) -> Channel:
    """With probability gamma a step to the populations (1 - excited, excited) of surroundings at some temperature."""
    g, e = (_chance("generalized_amplitude_damping", n, v) for n, v in (("gamma", gamma), ("excited", excited)))
    return Channel("generalized_amplitude_damping", _damping(g, e), {"gamma": g, "excited": e})


def phase_damping(gamma: float) -> Channel:
    """Coherences shrink by sqrt(1 - gamma), populations stay."""
    g = _chance("phase_damping", "gamma", gamma)
    return Channel("phase_damping", _dephasing(g), {"gamma": g})


def thermal_relaxation(t1: float, t2: float, time: float, excited: float = 0.0) -> Channel:
    """What a qubit suffers in a time: populations go to (1 - excited, excited) as exp(-time/t1), coherences to 0 as
    exp(-time/t2).    t1, t2 > 0 and time >= 0 in one unit, t2 <= 2 t1"""
    if not (t1 > 0 and 0 < t2 <= 2 * t1 and 0 <= time < np.inf):
        raise UsageError(f"thermal_relaxation: t1 {t1}, t2 {t2}, time {time}; t1 must be positive, t2 between 0 and "
                         "2 t1, and the time not negative")  # fmt: skip
    e = _chance("thermal_relaxation", "excited", excited)
    decay = np.exp(-time / t1)
    left = np.exp(-2 * time / t2) / decay if decay > 0 else 0.0  # what damping alone leaves of coherences, squared
    kraus = np.einsum("aij,bjk->abik", _dephasing(max(0.0, 1 - left)), _damping(1 - decay, e)).reshape(-1, 2, 2)
    arguments = {"t1": float(t1), "t2": float(t2), "time": float(time), "excited": e}
    return Channel("thermal_relaxation", _without_zeros(kraus), arguments)


def reset_channel(to_zero: float, to_one: float = 0.0) -> Channel:
    """The qubit is lost and replaced by |0> with probability `to_zero`, by |1> with probability `to_one`."""
    a, b = (_chance("reset_channel", n, v) for n, v in (("to_zero", to_zero), ("to_one", to_one)))
    if a + b > 1 + 1e-12:
        raise UsageError(f"reset_channel: probabilities that sum to {a + b:.6g}; give at most 1")
    kraus = np.zeros((5, 2, 2), complex)
    kraus[0] = max(0.0, 1 - a - b) ** 0.5 * np.eye(2)
    kraus[1, 0, 0] = kraus[2, 0, 1] = a**0.5
    kraus[3, 1, 0] = kraus[4, 1, 1] = b**0.5
    return Channel("reset_channel", _without_zeros(kraus), {"to_zero": a, "to_one": b})


CHANNELS: dict[str, Callable[..., Channel]] = {
    each.__name__: each
    for each in (
        bit_flip, phase_flip, bit_phase_flip, depolarizing, pauli_channel, amplitude_damping,
        generalized_amplitude_damping, phase_damping, thermal_relaxation, reset_channel,
    )
}  # fmt: skip
"""Channels by name."""


def named_channel(name: str, arguments: Mapping[str, Any]) -> Channel:
    """The channel of this name (`CHANNELS`) and arguments: how configs and files say it."""
    if name not in CHANNELS:
        raise UsageError(f"there is no channel {name!r}{suggest(name, CHANNELS)}")
    try:
        return CHANNELS[name](**arguments)
    except TypeError as error:
        raise UsageError(f"channel {name}: {error}") from None


# -- helpers -----------------------------------------------------------------------------------------------------------
def _chance(channel: str, name: str, value: float, most: float = 1.0) -> float:
    if not 0 <= value <= most * (1 + 1e-12):
        raise UsageError(f"{channel}: {name} is {value}; give a probability from 0 to {most:.6g}")
    return float(value)


def _mixed(name: str, arguments: Mapping[str, Any], words: Mapping[str, float]) -> Channel:
    identity = "I" * len(next(iter(words)))
    weights = {identity: max(0.0, 1 - sum(p for word, p in words.items() if word != identity))}
    weights |= {word: p for word, p in words.items() if p > 0 and word != identity}
    kraus = np.array([p**0.5 * reduce(np.kron, [PAULIS[letter] for letter in word]) for word, p in weights.items()])
    return Channel(name, kraus, arguments, weights)


def _damping(gamma: float, excited: float) -> Array:
    """Generalised amplitude damping."""
    kraus = np.zeros((4, 2, 2), complex)
    kraus[0] = (1 - excited) ** 0.5 * np.diag([1, (1 - gamma) ** 0.5])
    kraus[1, 0, 1] = ((1 - excited) * gamma) ** 0.5
    kraus[2] = excited**0.5 * np.diag([(1 - gamma) ** 0.5, 1])
    kraus[3, 1, 0] = (excited * gamma) ** 0.5
    return _without_zeros(kraus)


def _dephasing(gamma: float) -> Array:
    return _without_zeros(np.array([np.diag([1, (1 - gamma) ** 0.5]), np.diag([0, gamma**0.5])], complex))


def _without_zeros(kraus: Array) -> Array:
    return kraus[np.abs(kraus).max((1, 2)) > 0]


def channel_of(what: Channel | Sequence[Any] | Array) -> Channel:
    """A channel, or one of Kraus operators."""
    return what if isinstance(what, Channel) else kraus_channel(what)
