"""Qubits that symmetries make superfluous (Bravyi et al., arXiv 1701.08213)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pdl_quantum.chemistry.mappings import transformed, without
from pdl_quantum.chemistry.masks import masks_of, span
from pdl_quantum.circuits import PauliSum


def tapered(paulis: PauliSum, symmetries: Sequence[str], bits: Sequence[int]) -> tuple[PauliSum, list[int]]:
    """A sum, and the bits of a basis state, on a qubit less for each product of Z that the sum commutes with.

    symmetries   such products, as words: "ZIZI";    bits  of a state whose eigenvalues of them are kept

    Each symmetry is made the value of one qubit, by a permutation of basis states, which no term changes then; so the
    result has those eigenvalues of the sum whose states share the symmetries of the given one. UsageError where a word
    is no symmetry.
    """
    n = paulis.num_qubits
    matrix, kept = np.eye(n, dtype=np.uint8), list[int]()
    for mask in span(masks_of(word)[0][1] for word in symmetries):
        pivot = n - mask.bit_length()  # its leading letter, which no other symmetry of the basis has
        matrix[pivot] = [mask >> n - 1 - q & 1 for q in range(n)]
        kept.append(pivot)
    moved = transformed(paulis, matrix, matrix)  # B B = 1: pivots take bits of others alone
    values = (matrix.astype(np.int64) @ np.asarray(bits, np.int64) % 2).tolist()
    made = without(moved, {pivot: values[pivot] for pivot in kept})
    return made, [bit for q, bit in enumerate(values) if q not in kept]
