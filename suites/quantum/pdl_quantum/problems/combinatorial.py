"""A combinatorial problem as a variational one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pdl_quantum import problems
from pdl_quantum.circuits import PauliSum
from pdl_quantum.eigenproblem import Eigenproblem
from pdl_quantum.problems.diagonal import MOST


@dataclass(frozen=True)
class Combinatorial(Eigenproblem):
    """A variational problem that knows what its bit strings mean.

    problem   the combinatorial problem
    """

    problem: problems.BinaryProblem = None  # type: ignore[assignment]  # fields with defaults stand before it


def combinatorial(name: str, problem: problems.BinaryProblem) -> Combinatorial:
    """The variational problem of a combinatorial one; its least energy, where all bit strings can be tried."""
    exact = problem.best.value if problem.num_qubits <= MOST else None
    facts: dict[str, Any] = {"cost": _plain(problem.hamiltonian)}
    if problem.kept is not None:
        kept = problem.kept
        facts["kept"] = {"groups": kept.groups, "ones": kept.ones, "cost": _plain(kept.hamiltonian)}
    return Combinatorial(name, problem.hamiltonian, exact, facts, problem=problem)


def _plain(sum_: PauliSum) -> dict[str, float]:
    return {word: float(complex(factor).real) for word, factor in sum_.terms.items()}
