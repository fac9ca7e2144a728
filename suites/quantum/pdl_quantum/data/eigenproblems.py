"""What a variational task learns from: problems instead of samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pdl.data import Dataset, Sample, Subset
from pdl.errors import DataError
from pdl_quantum.eigenproblem import Eigenproblem


class Eigenproblems(Dataset):
    """Problems of one kind and size as a data set: sample i is {"problem": Eigenproblem}. One circuit answers all of
    them, each with parameters of its own.

    problems  the problems, of the same size
    """

    unfoldable = "they are problems to be solved, each by itself; nothing is learned from one for another"

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
