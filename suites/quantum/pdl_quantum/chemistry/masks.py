"""Pauli words as two bit masks, X^x Z^z, where bit n - 1 - q is qubit q: products are arithmetic of integers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pdl_quantum.circuits import PauliSum

Masks = tuple[int, int]


def masks_of(word: str) -> tuple[Masks, complex]:
    """((x, z), factor) of a word: P = factor X^x Z^z, for Y = i X Z."""
    x = z = 0
    for letter in word:
        x, z = x << 1 | (letter in "XY"), z << 1 | (letter in "YZ")
    return (x, z), 1j ** (x & z).bit_count()


def word_of(masks: Masks, num_qubits: int) -> tuple[str, complex]:
    """(word, factor) of X^x Z^z = factor P."""
    x, z = masks
    letters = (("I", "Z"), ("X", "Y"))
    word = "".join(letters[x >> q & 1][z >> q & 1] for q in range(num_qubits - 1, -1, -1))
    return word, (-1j) ** (x & z).bit_count()


def times(a: Mapping[Masks, complex], b: Mapping[Masks, complex]) -> dict[Masks, complex]:
    """The product of two sums: Z^z X^x = (-1)^|x & z| X^x Z^z."""
    made: dict[Masks, complex] = {}
    for (x, z), left in a.items():
        for (u, v), right in b.items():
            key = x ^ u, z ^ v
            sign = -1 if (z & u).bit_count() & 1 else 1
            made[key] = made.get(key, 0.0) + sign * left * right
    return made


def sum_of(terms: Mapping[Masks, complex], num_qubits: int, tolerance: float = 1e-12) -> PauliSum:
    """A `PauliSum` without negligible coefficients; real ones are floats."""
    made: dict[str, complex] = {}
    for masks, value in terms.items():
        word, factor = word_of(masks, num_qubits)
        number = complex(value * factor)
        if abs(number) > tolerance:
            made[word] = number.real if abs(number.imag) <= tolerance else number
    return PauliSum(num_qubits, made)


def terms_of(paulis: PauliSum) -> dict[Masks, complex]:
    """A `PauliSum` by masks."""
    made: dict[Masks, complex] = {}
    for word, value in paulis.terms.items():
        masks, factor = masks_of(word)
        made[masks] = made.get(masks, 0.0) + value * factor
    return made


def span(vectors: Iterable[int]) -> list[int]:
    """A basis of what these bit vectors span over GF(2), reduced: each leading bit stands in one of them alone."""
    basis: list[int] = []
    for vector in vectors:
        left = reduced(vector, basis)
        if left:
            top = 1 << left.bit_length() - 1
            basis = [each ^ left if each & top else each for each in basis]
            basis = sorted([*basis, left], reverse=True)
    return basis


def reduced(vector: int, basis: Iterable[int]) -> int:
    """A vector reduced by those of a basis (over GF(2)); 0 if it lies in their span."""
    for each in basis:
        if vector >> each.bit_length() - 1 & 1:
            vector ^= each
    return vector


def orthogonal(vectors: Iterable[int], bits: int) -> list[int]:
    """A basis of all bit vectors whose inner product with each of these is even."""
    basis = span(vectors)
    leading = {each.bit_length() - 1 for each in basis}
    found = []
    for free in range(bits - 1, -1, -1):
        if free not in leading:
            row = 1 << free
            for each in basis:
                if each >> free & 1:
                    row |= 1 << each.bit_length() - 1
            found.append(row)
    return found
