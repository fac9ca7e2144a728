"""The variational quantum eigensolver for molecules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pdl.report import Section, table
from pdl.train import Recipe
from pdl.train.loop import Evaluation
from pdl_quantum.chemistry.mappings import jordan_wigner
from pdl_quantum.chemistry.operators import electron_number, spin_squared, spin_z
from pdl_quantum.variational import Ansatz, Variational
from pdl_quantum.variational.report import PROBLEMS

COUNTED = {"electrons": electron_number, "S_z": spin_z, "S^2": spin_squared}


class VQE(Variational):
    """The ground state of a molecule (Peruzzo et al., arXiv 1304.3061): `Variational`, with energies in Hartree. The
    report counts the electrons of the states and their spin."""

    def report(self, evaluation: Evaluation, dataset: Any) -> list[Section]:
        return [*super().report(evaluation, dataset), *electrons(self, self.state_names())]

    def title(self, recipe: Recipe) -> str:
        return "Ground state of a molecule, by a circuit that was trained (VQE)"


def electrons(task: Variational, names: Sequence[str]) -> list[Section]:
    """Number and spin of the electrons of each state, where qubits are spin orbitals (Jordan-Wigner)."""
    model = task.ansatz
    if not isinstance(model, Ansatz) or task.problems[0].sector is None:
        return []
    states = model.states()[:PROBLEMS]
    counted = [jordan_wigner(make(model.circuit.num_qubits)).expectation(states) for make in COUNTED.values()]
    rows = [(name, *(_eight(column[row]) for column in counted)) for row, name in enumerate(names[: len(states)])]
    return [Section("Electrons", table(rows, head=("state of", *COUNTED)))]


def _eight(number: float) -> str:
    """With eight places; what rounds to 0 has no sign."""
    return f"{round(number, 8) + 0.0:.8f}"


__all__ = ["VQE", "electrons"]
