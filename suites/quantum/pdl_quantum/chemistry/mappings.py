"""Fermions as qubits: Jordan-Wigner, parity and Bravyi-Kitaev (Seeley, Richard & Love, arXiv 1208.5986).

Each stores the occupations n of the modes as bits m = B n over GF(2): B is the identity for Jordan-Wigner, all ones on
and below the diagonal for parity, a Fenwick tree for Bravyi-Kitaev. So the two others are Jordan-Wigner followed by a
permutation of basis states, and a product X^x Z^z of Pauli matrices becomes X^(B x) Z^(B^-T z).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, get_args

import numpy as np

from pdl.errors import UsageError
from pdl.suites import suggest
from pdl_quantum.chemistry.fermions import FermionSum
from pdl_quantum.chemistry.masks import Masks, sum_of, terms_of, times
from pdl_quantum.circuits import PauliSum

Array = np.ndarray
MappingName = Literal["jordan_wigner", "parity", "bravyi_kitaev"]
MAPPINGS: tuple[str, ...] = get_args(MappingName)


def jordan_wigner(fermions: FermionSum) -> PauliSum:
    """a_p = Z_0 ... Z_(p-1) (X_p + i Y_p) / 2: mode p is qubit p, |1> where it is occupied."""
    n = fermions.num_modes
    ladder = {(mode, up): _ladder(mode, up, n) for mode in range(n) for up in (False, True)}
    found: dict[Masks, complex] = {}
    for product, factor in fermions.terms.items():
        made: dict[Masks, complex] = {(0, 0): factor}
        for operator in product:
            made = times(made, ladder[operator])
        for masks, value in made.items():
            found[masks] = found.get(masks, 0.0) + value
    return sum_of(found, n)


def _ladder(mode: int, up: bool, n: int) -> dict[Masks, complex]:
    """a or a^+ of a mode: X (1 - Z) / 2 or X (1 + Z) / 2 behind the sign of the modes before it."""
    own = 1 << n - 1 - mode
    before = (1 << n) - (own << 1)
    return {(own, before): 0.5, (own, before | own): 0.5 if up else -0.5}


def parity(fermions: FermionSum) -> PauliSum:
    """Qubit p is the parity of the modes up to p."""
    return mapped(jordan_wigner(fermions), "parity")


def bravyi_kitaev(fermions: FermionSum) -> PauliSum:
    """Qubits are partial sums of a Fenwick tree, so an operator touches O(log n) of them."""
    return mapped(jordan_wigner(fermions), "bravyi_kitaev")


def mapping_matrix(mapping: MappingName, num_qubits: int) -> Array:
    """B of a mapping, uint8 [n, n]: bits = B occupations over GF(2)."""
    if mapping not in MAPPINGS:
        raise UsageError(f"there is no mapping {mapping!r}{suggest(str(mapping), MAPPINGS)}")
    made = np.eye(num_qubits, dtype=np.uint8)
    if mapping == "parity":
        return np.tril(np.ones_like(made))
    if mapping == "bravyi_kitaev":
        for bit in range(num_qubits):  # as in a Fenwick tree entry k (from 1) sums the last lowbit(k) up to k
            entry = bit + 1
            made[bit, entry - (entry & -entry) : entry] = 1
    return made


def mapped(paulis: PauliSum, mapping: MappingName) -> PauliSum:
    """A sum that Jordan-Wigner made, in another mapping."""
    matrix = mapping_matrix(mapping, paulis.num_qubits)
    return transformed(paulis, matrix, _inverse(matrix))


def transformed(paulis: PauliSum, matrix: Array, inverse: Array) -> PauliSum:
    """A sum after the permutation of basis states that takes bits n to B n, for B and its inverse over GF(2), uint8
    [n, n]."""
    n = paulis.num_qubits
    columns = [[_mask(each[:, q]) for q in range(n)] for each in (matrix, inverse.T)]
    moved: dict[Masks, complex] = {}
    for (x, z), value in terms_of(paulis).items():
        moved[_through(x, columns[0]), _through(z, columns[1])] = value
    return sum_of(moved, n, 0.0)


def mapped_bits(occupied: Array, mapping: MappingName) -> Array:
    """Occupations uint8 [..., n] as bits of qubits."""
    made: Array = (np.asarray(occupied, np.int64) @ mapping_matrix(mapping, occupied.shape[-1]).T % 2).astype(np.uint8)
    return made


def reordered(paulis: PauliSum, order: Sequence[int]) -> PauliSum:
    """A sum by Jordan-Wigner with its modes in another order: mode order[k] becomes mode k, with the signs of fermions
    that are exchanged."""
    n = paulis.num_qubits
    if sorted(order) != list(range(n)):
        raise UsageError(f"order={list(order)} must have each of the modes 0 to {n - 1} once")
    return sum_of(_exchanged(terms_of(paulis), _exchanges(order), n), n, 0.0)


def _exchanges(order: Sequence[int]) -> list[int]:
    """Neighbours (k, k + 1) to exchange, one after the other, so that 0, 1, ... becomes the order."""
    left, found = list(order), list[int]()
    for end in range(len(left) - 1, 0, -1):
        for k in range(end):
            if left[k] > left[k + 1]:
                left[k], left[k + 1] = left[k + 1], left[k]
                found.append(k)
    return found[::-1]


def _exchanged(terms: dict[Masks, complex], exchanges: Sequence[int], n: int) -> dict[Masks, complex]:
    """Each exchange is a swap behind a controlled Z, by which X_a becomes X_a Z_b."""
    for k in exchanges:
        a, b = 1 << n - 1 - k, 1 << n - 2 - k
        moved = {}
        for (x, z), value in terms.items():
            if x & a and x & b:
                value = -value
            z ^= (a if x & b else 0) ^ (b if x & a else 0)
            moved[_swapped(x, a, b), _swapped(z, a, b)] = value
        terms = moved
    return terms


def _swapped(mask: int, a: int, b: int) -> int:
    return mask ^ (a | b) if bool(mask & a) != bool(mask & b) else mask


def without_parities(paulis: PauliSum, num_electrons: int, num_up: int) -> PauliSum:
    """A sum in the parity mapping on two qubits less (Bravyi et al., arXiv 1701.08213), where modes are ordered all
    spins up, then all spins down: qubit n/2 - 1 is the parity of the spins up, the last that of all; both are known."""
    n = paulis.num_qubits
    try:
        return without(paulis, {n // 2 - 1: num_up % 2, n - 1: num_electrons % 2})
    except UsageError as error:
        order = "order the modes all spins up, then all spins down, and use the parity mapping"
        raise UsageError(f"{error}; {order}") from None


def without(paulis: PauliSum, bits: Mapping[int, int]) -> PauliSum:
    """A sum on fewer qubits: of those that keep their value, by number, a Z becomes 1 or -1. UsageError where one does
    not."""
    terms: list[tuple[str, complex]] = []
    for word, value in paulis.terms.items():
        for qubit, bit in bits.items():
            if word[qubit] in "XY":
                raise UsageError(f"{word} changes qubit {qubit}, which should keep its value")
            value = -value if word[qubit] == "Z" and bit else value
        terms.append(("".join(letter for qubit, letter in enumerate(word) if qubit not in bits), value))
    return PauliSum(paulis.num_qubits - len(bits), terms).simplified()


def _mask(bits: Array) -> int:
    return int("".join(map(str, bits.tolist())), 2)


def _through(mask: int, columns: list[int]) -> int:
    made = 0
    for qubit, column in enumerate(columns):
        if mask >> len(columns) - 1 - qubit & 1:
            made ^= column
    return made


def _inverse(matrix: Array) -> Array:
    """Of a lower triangular matrix with ones on the diagonal, over GF(2)."""
    found = np.eye(len(matrix), dtype=np.uint8)
    for row in range(len(matrix)):
        for below in range(row + 1, len(matrix)):
            if matrix[below, row]:
                found[below] ^= found[row]
    return found
