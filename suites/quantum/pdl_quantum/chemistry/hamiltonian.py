"""Qubit Hamiltonians of molecules, with reference energies."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from pdl.errors import DataError
from pdl_quantum.chemistry import tapering
from pdl_quantum.chemistry.mappings import MappingName, mapped, mapped_bits, reordered, without_parities
from pdl_quantum.chemistry.masks import masks_of, orthogonal, word_of
from pdl_quantum.circuits import PauliSum
from pdl_quantum.eigenproblem import Eigenproblem
from pdl_quantum.spectrum import Sector, levels

SMALL = 1e-8
"""Hartree below which a term counts as absent where symmetries are looked for."""
SOLVED = 16
"""The most spin orbitals for which exact energies are computed by default."""


@dataclass(frozen=True)
class MolecularHamiltonian:
    """A molecule's electrons in spin orbitals: qubit 2 i is orbital i with spin up, qubit 2 i + 1 with spin down, |1>
    where it is occupied (Jordan-Wigner). Energies in Hartree, with the repulsion of the nuclei.

    name, hamiltonian
    num_electrons   in these orbitals
    hartree_fock    energy of the lowest orbitals occupied, as its source says; None: not said
    exact           least energy with this many electrons, as its source says; `levels` computes it
    length          of its bond, in angstrom, where it is one of a curve
    spin            electrons with spin up beyond those with spin down; None: as few as can be
    """

    name: str
    hamiltonian: PauliSum
    num_electrons: int
    hartree_fock: float | None = None
    exact: float | None = None
    length: float | None = None
    spin: int | None = None

    def __post_init__(self) -> None:
        if not 0 < self.num_electrons < self.hamiltonian.num_qubits:
            raise DataError(
                f"{self.name}: {self.num_electrons} electrons in {self.hamiltonian.num_qubits} spin orbitals; there "
                "must be one at least, and room for one more"
            )

    @property
    def num_qubits(self) -> int:
        """Spin orbitals."""
        return self.hamiltonian.num_qubits

    @cached_property
    def symmetries(self) -> list[str]:
        """Products of Z that commute with the Hamiltonian, from which all such follow: parities of the spins up and
        down, and those of the molecule's shape."""
        flips = {masks_of(word)[0][0] for word, value in self.hamiltonian.terms.items() if abs(value) > SMALL}
        return [word_of((0, z), self.num_qubits)[0] for z in orthogonal(flips, self.num_qubits)]

    @property
    def sector(self) -> Sector:
        """States with its numbers of electrons of each spin."""
        unpaired = self.num_electrons % 2 if self.spin is None else self.spin
        down = (self.num_electrons - unpaired) // 2
        return Sector(self.num_qubits, up=down + unpaired, down=down)

    def levels(self, count: int = 1) -> list[float]:
        """The lowest energies of such states."""
        return levels(self.hamiltonian, self.sector, count)

    def solved(self) -> MolecularHamiltonian:
        """The same with `exact`, computed where it is not there and the molecule has at most `SOLVED` spin orbitals."""
        known = self.exact is not None or self.num_qubits > SOLVED
        return self if known else replace(self, exact=self.levels()[0])

    @property
    def occupied(self) -> list[int]:
        """1 for each spin orbital that the Hartree-Fock state occupies."""
        bits = [0] * self.num_qubits
        for first, count in ((0, self.sector.up), (1, self.sector.down)):
            bits[first : first + 2 * (count or 0) : 2] = [1] * (count or 0)
        return bits

    def problem(
        self, mapping: MappingName = "jordan_wigner", *, reduced: bool = False, tapered: bool = False
    ) -> Eigenproblem:
        """As a variational task takes it, by `qubits`. What it tells of electrons holds for Jordan-Wigner, and for the
        lowest spin orbitals occupied: where that is not so, circuits that ask for it say that it is missing."""
        hamiltonian, occupied = self.qubits(mapping, reduced=reduced, tapered=tapered)
        facts: dict[str, Any] = {"occupied": "".join(map(str, occupied))}
        own = mapping == "jordan_wigner" and not tapered
        if own and all(occupied[: self.num_electrons]):
            facts |= {"num_electrons": self.num_electrons, "symmetries": self.symmetries}
        return Eigenproblem(
            self.name, hamiltonian, self.solved().exact, facts,
            sector=self.sector if own else None, x=self.length, axis="bond length (angstrom)",
        )  # fmt: skip

    def qubits(
        self, mapping: MappingName, *, reduced: bool = False, tapered: bool = False
    ) -> tuple[PauliSum, list[int]]:
        """(Hamiltonian, bits of the Hartree-Fock state) in a mapping.

        reduced   by parity, on two qubits less: those of the parities of electrons (`without_parities`)
        tapered   by Jordan-Wigner, on a qubit less for each of `symmetries` (`tapering.tapered`)
        """
        if tapered:
            if mapping != "jordan_wigner" or reduced:
                raise DataError(f"{self.name}: tapered goes with the mapping jordan_wigner, and without reduced")
            return tapering.tapered(self.hamiltonian, self.symmetries, self.occupied)
        if not reduced:
            return mapped(self.hamiltonian, mapping), mapped_bits(np.array(self.occupied), mapping).tolist()
        if mapping != "parity":
            raise DataError(f"{self.name}: only the parity mapping leaves qubits out, not {mapping}")
        order = [*range(0, self.num_qubits, 2), *range(1, self.num_qubits, 2)]
        blocks = mapped(reordered(self.hamiltonian, order), "parity")
        bits = mapped_bits(np.array(self.occupied)[order], "parity")
        kept = np.delete(bits, [self.num_qubits // 2 - 1, self.num_qubits - 1])
        return without_parities(blocks, self.num_electrons, self.sector.up or 0), kept.tolist()
