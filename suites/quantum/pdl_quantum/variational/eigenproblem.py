"""What a variational task learns from: problems instead of samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pdl.data import Dataset, Sample, Subset
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


class Eigenproblems(Dataset):
    """Problems of one kind and size as a data set: sample i is {"problem": Eigenproblem}. One circuit answers all of
    them, each with parameters of its own."""

    def __init__(self, problems: Sequence[Eigenproblem]) -> None:
        self.problems = list(problems)

    def __len__(self) -> int:
        return len(self.problems)

    def __getitem__(self, index: int) -> Sample:
        return {"problem": self.problems[index]}


def problems_of(dataset: Any) -> list[Eigenproblem]:
    """The problems of a data set, or of a part of one; DataError where it has others, or where their sizes differ."""
    base = dataset
    while isinstance(base, Subset):
        base = base.dataset
    if not isinstance(base, Eigenproblems):
        kind = type(base).__name__
        raise DataError(f"{kind} holds no problems of variational circuits; give one such as pdl_quantum.data.Molecule")
    found = [dataset[index]["problem"] for index in range(len(dataset))]
    first = found[0]
    for each in found:
        if each.num_qubits != first.num_qubits or each.facts != first.facts:
            raise DataError(
                f"{first.name} ({first.num_qubits} qubits) and {each.name} ({each.num_qubits} qubits) differ in more "
                "than their coefficients, so one circuit does not fit both; train them in runs of their own"
            )
    return found


__all__ = ["Eigenproblem", "Eigenproblems", "problems_of"]
