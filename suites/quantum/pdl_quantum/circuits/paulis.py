"""Sums of products of Pauli matrices: observables and Hamiltonians."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cached_property

import numpy as np

from pdl.errors import UsageError
from pdl.kernels import memory
from pdl.kernels import statevector as kernels

Array = np.ndarray
_PRODUCT = {"XY": ("Z", 1j), "YX": ("Z", -1j), "YZ": ("X", 1j), "ZY": ("X", -1j), "ZX": ("Y", 1j), "XZ": ("Y", -1j)}


class PauliSum:
    """sum_k c_k P_k, P_k a product of X, Y and Z on some qubits of n.

        PauliSum(2, {"ZZ": 0.5, "XI": -1.0})       # by words, the first letter is qubit 0
        PauliSum.single(4, "X0 Y3", 0.25)          # by letters and qubits

    num_qubits   n;    terms  {word of n letters: coefficient}
    """

    def __init__(self, num_qubits: int, terms: Mapping[str, complex] | Iterable[tuple[str, complex]] = ()) -> None:
        self.num_qubits = int(num_qubits)
        self.terms: dict[str, complex] = {}
        for word, factor in terms.items() if isinstance(terms, Mapping) else terms:
            if len(word) != self.num_qubits or set(word) - set("IXYZ"):
                raise UsageError(f"{word!r:.40} is no word of {num_qubits} letters I, X, Y, Z")
            self.terms[word] = self.terms.get(word, 0.0) + factor

    @staticmethod
    def single(num_qubits: int, word: str, factor: complex = 1.0) -> PauliSum:
        """One product by letters and qubits, "X0 Z2"; "" is the identity."""
        letters = ["I"] * num_qubits
        for part in word.split():
            if part[:1] not in ("I", "X", "Y", "Z") or not part[1:].isdigit() or int(part[1:]) >= num_qubits:
                raise UsageError(f"{part!r} is no letter I, X, Y or Z with a qubit below {num_qubits}")
            letters[int(part[1:])] = part[0]
        return PauliSum(num_qubits, {"".join(letters): factor})

    # -- algebra -------------------------------------------------------------------------------------------------------
    def __add__(self, other: PauliSum | complex) -> PauliSum:
        if not isinstance(other, PauliSum):
            other = PauliSum(self.num_qubits, {"I" * self.num_qubits: other})
        if other.num_qubits != self.num_qubits:
            raise UsageError(f"sums on {self.num_qubits} and on {other.num_qubits} qubits do not add")
        return PauliSum(self.num_qubits, [*self.terms.items(), *other.terms.items()])

    __radd__ = __add__

    def __mul__(self, other: PauliSum | complex) -> PauliSum:
        if not isinstance(other, PauliSum):
            return PauliSum(self.num_qubits, {word: factor * other for word, factor in self.terms.items()})
        made = []
        for a, x in self.terms.items():
            for b, y in other.terms.items():
                word, factor = _times(a, b)
                made.append((word, x * y * factor))
        return PauliSum(self.num_qubits, made)

    def __rmul__(self, other: complex) -> PauliSum:
        return self * other

    def __neg__(self) -> PauliSum:
        return self * -1.0

    def __sub__(self, other: PauliSum | complex) -> PauliSum:
        return self + (other * -1.0)

    def simplified(self, tolerance: float = 1e-12) -> PauliSum:
        """Without terms that are as good as 0."""
        return PauliSum(self.num_qubits, {w: c for w, c in self.terms.items() if abs(c) > tolerance})

    @cached_property
    def hermitian(self) -> bool:
        """Whether all coefficients are real."""
        return all(abs(complex(c).imag) < 1e-12 for c in self.terms.values())

    @cached_property
    def real_text(self) -> str:
        """Its terms as JSON, with the real parts of their coefficients."""
        terms = {word: float(complex(c).real) for word, c in self.terms.items()}
        return json.dumps(terms, separators=(",", ":"))

    def matrix(self) -> Array:
        """The matrix, complex [2^n, 2^n]: for small n."""
        made: Array = self.apply(np.eye(1 << self.num_qubits, dtype=complex)).T
        return made

    # -- on states -----------------------------------------------------------------------------------------------------
    @cached_property
    def _stream(self) -> tuple[Array, Array]:
        """What `kernels.pauli` reads."""
        return stream_of(self.num_qubits, ((word, factor, 0) for word, factor in self.terms.items()))[:2]

    def apply(self, z: Array) -> Array:
        """H z for states complex [B, 2^n]: an array of their size."""
        return self.applied(z)[0]

    def applied(self, z: Array) -> tuple[Array, Array]:
        """(H z, Re <z|H|z> float64 [B]) in one pass over states complex [B, 2^n]."""
        wide = padded(z, self.num_qubits)
        out, energies = memory.empty(wide.shape, wide.dtype), np.empty(len(wide))
        kernels.pauli(out, wide, *self._stream, energies)
        return (out if wide is z else np.ascontiguousarray(out[:, : 1 << self.num_qubits])), energies

    def expectation(self, z: Array) -> Array:
        """<z|H|z> of states complex [B, 2^n], float64 [B]; H must be Hermitian."""
        if not self.hermitian:
            raise UsageError("an expectation asks for real coefficients; this sum has others")
        wide = padded(z, self.num_qubits)
        out = np.empty(len(wide))
        kernels.expectation(out, wide, *self._stream)
        return out

    def __repr__(self) -> str:
        shown = " + ".join(f"{complex(c).real:.6g} {w}" for w, c in list(self.terms.items())[:4])
        more = " + ..." if len(self.terms) > 4 else ""
        return f"PauliSum({self.num_qubits} qubits, {len(self.terms)} terms: {shown}{more})"


def stream_of(num_qubits: int, terms: Iterable[tuple[str, complex, int]]) -> tuple[Array, Array, Array]:
    """(stream, values, whose each value is) of products (word, factor, whose), as `kernels.pauli` reads them: those
    that flip the same bits together. Bit n - 1 - q of an index is qubit q."""
    groups: dict[int, tuple[list[tuple[int, float, int]], list[tuple[int, float, int]]]] = {}
    for word, factor, whose in terms:
        flips = sum(1 << (num_qubits - 1 - q) for q, letter in enumerate(word) if letter in "XY")
        signs = sum(1 << (num_qubits - 1 - q) for q, letter in enumerate(word) if letter in "YZ")
        value = complex(factor) * 1j ** word.count("Y")
        real, imaginary = groups.setdefault(flips, ([], []))
        if value.real:
            real.append((signs, value.real, whose))
        if value.imag:
            imaginary.append((signs, value.imag, whose))
    words, values, owners = [len(groups)], list[float](), list[int]()
    for flips, (real, imaginary) in groups.items():
        words += [flips, len(real), len(imaginary)]
        for signs, number, whose in (*real, *imaginary):
            words += [signs, len(values)]
            values.append(number)
            owners.append(whose)
    return np.array(words, np.int64), np.array(values, np.float64), np.array(owners, np.int64)


def padded(z: Array, num_qubits: int) -> Array:
    """States [B, 2^n], with qubits that stay 0 where they have too few for the kernels."""
    if z.shape[1] != 1 << num_qubits:
        raise UsageError(f"states of {z.shape[1]} amplitudes, and a sum on {num_qubits} qubits")
    if num_qubits >= kernels.LEAST:
        return z
    wide = np.zeros((len(z), 1 << kernels.LEAST), z.dtype)
    wide[:, : z.shape[1]] = z
    return wide


def _times(a: str, b: str) -> tuple[str, complex]:
    word, factor = [], 1.0 + 0j
    for x, y in zip(a, b, strict=True):
        if x == "I" or y == "I" or x == y:
            word.append("I" if x == y else y if x == "I" else x)
        else:
            letter, sign = _PRODUCT[x + y]
            word.append(letter)
            factor *= sign
    return "".join(word), factor
