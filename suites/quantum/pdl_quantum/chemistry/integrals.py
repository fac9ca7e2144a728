"""Molecular integrals over spatial orbitals, and the Hamiltonian that they make."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from pdl.errors import DataError
from pdl_quantum.chemistry.fermions import FermionSum, Product
from pdl_quantum.chemistry.hamiltonian import MolecularHamiltonian
from pdl_quantum.chemistry.mappings import jordan_wigner

Array = np.ndarray
NOTHING = 1e-12


@dataclass(frozen=True)
class Integrals:
    """Real integrals of n spatial orbitals, in Hartree; the first are occupied in the Hartree-Fock state.

    name
    one   h_pq [n, n], symmetric;    two  (pq|rs) [n, n, n, n], in chemists' order, with its eight symmetries
    constant   repulsion of the nuclei, and energy of electrons that are left out
    num_electrons;    spin  electrons with spin up beyond those with spin down
    """

    name: str
    one: Array
    two: Array
    constant: float
    num_electrons: int
    spin: int = 0

    def __post_init__(self) -> None:
        n = len(self.one)
        if self.one.shape != (n, n) or self.two.shape != (n,) * 4 or not n:
            raise DataError(f"{self.name}: integrals {self.one.shape} and {self.two.shape}; expected [n, n] and "
                            "[n, n, n, n]")  # fmt: skip
        if not (np.isfinite(self.one).all() and np.isfinite(self.two).all() and np.isfinite(self.constant)):
            raise DataError(f"{self.name}: there are integrals that are no finite numbers")
        for what, array, axes in (("h_pq", self.one, (1, 0)), ("(pq|rs)", self.two, (1, 0, 2, 3)),
                                  ("(pq|rs)", self.two, (2, 3, 0, 1))):  # fmt: skip
            if not np.allclose(array, array.transpose(axes), atol=1e-8):
                raise DataError(f"{self.name}: {what} lacks its symmetries; real orbitals have h_pq = h_qp and "
                                "(pq|rs) = (qp|rs) = (rs|pq), in chemists' order")  # fmt: skip
        if (self.num_electrons - self.spin) % 2 or not 0 <= self.spin <= self.num_electrons < 2 * n:
            raise DataError(f"{self.name}: {self.num_electrons} electrons, {self.spin} of them unpaired, in {n} "
                            "orbitals: that cannot be")  # fmt: skip

    def active(self, num_electrons: int, num_orbitals: int) -> Integrals:
        """The lowest orbitals doubly occupied and left out, as many as leave `num_electrons`; of those above the first
        `num_orbitals` are kept."""
        core, odd = divmod(self.num_electrons - num_electrons, 2)
        if odd or core < 0 or not 0 < num_orbitals <= len(self.one) - core:
            raise DataError(
                f"{self.name}: an active space of {num_electrons} electrons in {num_orbitals} orbitals does not fit "
                f"into {self.num_electrons} electrons in {len(self.one)} orbitals"
            )
        inner, kept = slice(0, core), slice(core, core + num_orbitals)
        within = self.two[inner, inner, inner, inner]
        constant = 2 * np.trace(self.one[inner, inner])
        constant += 2 * np.einsum("iijj->", within) - np.einsum("ijji->", within)
        field = 2 * np.einsum("pqii->pq", self.two[:, :, inner, inner])
        field -= np.einsum("piiq->pq", self.two[:, inner, inner, :])
        one = (self.one + field)[kept, kept]
        constant = self.constant + float(constant)
        return Integrals(self.name, one, self.two[kept, kept, kept, kept], constant, num_electrons, self.spin)

    def fermions(self) -> FermionSum:
        """H = sum h_pq a_p^+ a_q + 1/2 sum (pq|rs) a_p^+ a_r^+ a_s a_q over orbitals and spins; mode 2 p is orbital p
        with spin up, 2 p + 1 with spin down."""
        return FermionSum(2 * len(self.one), self._terms())

    def _terms(self) -> Iterator[tuple[Product, complex]]:
        yield (), self.constant
        for p, q in zip(*np.nonzero(np.abs(self.one) > NOTHING), strict=True):
            for spin in (0, 1):
                yield ((int(2 * p + spin), True), (int(2 * q + spin), False)), float(self.one[p, q])
        for p, q, r, s in zip(*np.nonzero(np.abs(self.two) > NOTHING), strict=True):
            for a, b in product((0, 1), repeat=2):
                first, second = (int(2 * p + a), int(2 * q + a)), (int(2 * r + b), int(2 * s + b))
                if first[0] != second[0] and first[1] != second[1]:
                    operators = ((first[0], True), (second[0], True), (second[1], False), (first[1], False))
                    yield operators, 0.5 * float(self.two[p, q, r, s])

    def hartree_fock(self) -> float:
        """The energy of the lowest orbitals occupied: the Hartree-Fock energy, if the orbitals are such."""
        down = (self.num_electrons - self.spin) // 2
        up = down + self.spin
        energy = self.constant
        for count in (up, down):
            energy += float(np.trace(self.one[:count, :count]))
            same = self.two[:count, :count, :count, :count]
            energy += 0.5 * float(np.einsum("iijj->", same) - np.einsum("ijji->", same))
        return energy + float(np.einsum("iijj->", self.two[:up, :up, :down, :down]))

    def hamiltonian(self, exact: float | None = None, length: float | None = None) -> MolecularHamiltonian:
        """As qubits, by Jordan-Wigner."""
        return MolecularHamiltonian(
            self.name, jordan_wigner(self.fermions()), self.num_electrons, self.hartree_fock(), exact, length, self.spin
        )
