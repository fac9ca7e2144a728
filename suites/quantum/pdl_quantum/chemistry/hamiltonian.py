"""Hamiltonians of molecules as qubits, with what is known of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from pdl.circuits import PauliSum
from pdl.errors import DataError
from pdl_quantum.chemistry.encodings import Mapping, encoded, encoded_bits, reordered, without_parities
from pdl_quantum.chemistry.masks import masks_of, orthogonal, word_of
from pdl_quantum.spectrum import Sector, levels
from pdl_quantum.variational.eigenproblem import Eigenproblem

SMALL = 1e-8
"""Hartree below which a term counts as absent where symmetries are looked for."""


@dataclass(frozen=True)
class MolecularHamiltonian:
    """A molecule's electrons in spin orbitals: qubit 2 i is orbital i with spin up, qubit 2 i + 1 with spin down, |1>
    where it is occupied (Jordan-Wigner). Energies in Hartree, with the repulsion of the nuclei.

    name, hamiltonian
    num_electrons   in these orbitals
    hartree_fock    energy of the lowest orbitals occupied, as its source says; None: not said
    exact           least energy with this many electrons, as its source says; `levels` computes it
    length          of its bond, in angstrom, where it is one of a curve
    spin            electrons with spin up beyond those with spin down
    """

    name: str
    hamiltonian: PauliSum
    num_electrons: int
    hartree_fock: float | None = None
    exact: float | None = None
    length: float | None = None
    spin: int = 0

    def __post_init__(self) -> None:
        if self.spin == 0 and self.num_electrons % 2:
            object.__setattr__(self, "spin", 1)
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
        down = (self.num_electrons - self.spin) // 2
        return Sector(self.num_qubits, up=down + self.spin, down=down)

    def levels(self, count: int = 1) -> list[float]:
        """The lowest energies of such states."""
        return levels(self.hamiltonian, self.sector, count)

    def solved(self) -> MolecularHamiltonian:
        """The same with `exact`, computed where it is not there."""
        return self if self.exact is not None else replace(self, exact=self.levels()[0])

    @property
    def occupied(self) -> list[int]:
        """1 for each spin orbital that the Hartree-Fock state occupies."""
        bits = [0] * self.num_qubits
        for first, count in ((0, self.sector.up), (1, self.sector.down)):
            bits[first : first + 2 * (count or 0) : 2] = [1] * (count or 0)
        return bits

    def problem(self, mapping: Mapping = "jordan_wigner", *, reduced: bool = False) -> Eigenproblem:
        """As a variational task takes it. What it tells of electrons holds for Jordan-Wigner alone: circuits such as
        UCCSD ask for it, and then say that it is missing. `reduced`: by parity, two qubits less (`without_parities`).
        """
        exact = self.solved().exact
        if mapping == "jordan_wigner" and not reduced:
            electrons = {} if self.spin else {"num_electrons": self.num_electrons, "symmetries": self.symmetries}
            return self._as(self.hamiltonian, self.occupied, exact, electrons, self.sector)
        if not reduced:
            bits = encoded_bits(np.array(self.occupied), mapping)
            return self._as(encoded(self.hamiltonian, mapping), bits, exact)
        if mapping != "parity":
            raise DataError(f"{self.name}: only the parity mapping leaves qubits out, not {mapping}")
        order = [*range(0, self.num_qubits, 2), *range(1, self.num_qubits, 2)]
        blocks = encoded(reordered(self.hamiltonian, order), "parity")
        bits = encoded_bits(np.array(self.occupied)[order], "parity")
        kept = np.delete(bits, [self.num_qubits // 2 - 1, self.num_qubits - 1])
        return self._as(without_parities(blocks, self.num_electrons, self.sector.up or 0), kept, exact)

    def _as(
        self, hamiltonian: PauliSum, bits: Any, exact: float | None, electrons: Any = None, sector: Sector | None = None
    ) -> Eigenproblem:
        facts = {"occupied": "".join(map(str, bits)), **(electrons or {})}
        axis = "bond length (angstrom)"
        return Eigenproblem(self.name, hamiltonian, exact, facts, sector=sector, x=self.length, axis=axis)


__all__ = ["MolecularHamiltonian"]
