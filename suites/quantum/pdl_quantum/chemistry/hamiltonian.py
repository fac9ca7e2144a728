"""Hamiltonians of molecules as qubits, with what is known of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from pdl.circuits import PauliSum
from pdl.errors import DataError
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
    """

    name: str
    hamiltonian: PauliSum
    num_electrons: int
    hartree_fock: float | None = None
    exact: float | None = None
    length: float | None = None

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
        """States with `num_electrons` electrons, as many spins up as down (or one more)."""
        down = self.num_electrons // 2
        return Sector(self.num_qubits, up=self.num_electrons - down, down=down)

    def levels(self, count: int = 1) -> list[float]:
        """The lowest energies of such states."""
        return levels(self.hamiltonian, self.sector, count)

    def solved(self) -> MolecularHamiltonian:
        """The same with `exact`, computed where it is not there."""
        return self if self.exact is not None else replace(self, exact=self.levels()[0])

    def problem(self) -> Eigenproblem:
        """As a variational task takes it."""
        return Eigenproblem(
            self.name, self.hamiltonian, self.solved().exact,
            facts={"num_electrons": self.num_electrons, "symmetries": self.symmetries},
            sector=self.sector, x=self.length, axis="bond length (angstrom)",
        )  # fmt: skip


__all__ = ["MolecularHamiltonian"]
