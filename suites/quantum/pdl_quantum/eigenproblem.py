"""An observable whose lowest eigenvalue is looked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pdl.errors import DataError
from pdl_quantum.circuits import PauliSum
from pdl_quantum.spectrum import Sector, levels


@dataclass(frozen=True)
class Eigenproblem:
    """An observable whose least expectation, its lowest eigenvalue, is looked for.

    name    for people, such as "H2 0.7414"
    hamiltonian   real coefficients
    exact   the least value that counts as right, where it is known (with a constraint: under it)
    facts   plain values that models take where the recipe leaves them open, by the names of their arguments:
            {"num_electrons": 2}; "num_qubits" is known without
    sector  what states it is about, where not all
    x, axis  the place of the problem among others of its kind, and what that is: 0.7414, "bond length (angstrom)"
    """

    name: str
    hamiltonian: PauliSum
    exact: float | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    sector: Sector | None = None
    x: float | None = None
    axis: str = ""

    def __post_init__(self) -> None:
        if not self.hamiltonian.hermitian:
            raise DataError(f"{self.name}: the coefficients of a Hamiltonian must be real")

    @property
    def num_qubits(self) -> int:
        """Of the Hamiltonian."""
        return self.hamiltonian.num_qubits

    def levels(self, count: int) -> list[float]:
        """The lowest energies in its sector, computed."""
        return levels(self.hamiltonian, self.sector or Sector(self.num_qubits), count)
