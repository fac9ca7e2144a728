"""What the report says of a molecule's states: their electrons, and the spin of these."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pdl.report import Section, table
from pdl.train import Evaluation
from pdl_quantum.chemistry.mappings import jordan_wigner
from pdl_quantum.chemistry.operators import electron_number, spin_squared, spin_z
from pdl_quantum.eigenproblem import Eigenproblem
from pdl_quantum.variational.ansatz import Ansatz
from pdl_quantum.variational.report import PROBLEMS, VariationalReporter

COUNTED = {"electrons": electron_number, "S_z": spin_z, "S^2": spin_squared}


class VQEReporter(VariationalReporter):
    """As of any variational problem, and the electrons."""

    def sections(self, evaluation: Evaluation, dataset: Any) -> list[Section]:
        task = self.task
        return [*super().sections(evaluation, dataset), *electrons(task.ansatz, task.problems, task.state_names())]


def electrons(model: Any, problems: Sequence[Eigenproblem], names: Sequence[str]) -> list[Section]:
    """Number and spin of the electrons of each state, where qubits are spin orbitals (Jordan-Wigner)."""
    if not isinstance(model, Ansatz) or problems[0].sector is None:
        return []
    states = model.states()[:PROBLEMS]
    counted = [jordan_wigner(make(model.circuit.num_qubits)).expectation(states) for make in COUNTED.values()]
    rows = [(name, *(_eight(column[row]) for column in counted)) for row, name in enumerate(names[: len(states)])]
    return [Section("Electrons", table(rows, head=("state of", *COUNTED)))]


def _eight(number: float) -> str:
    """With eight places; what rounds to 0 has no sign."""
    return f"{round(number, 8) + 0.0:.8f}"
