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

    asked   the combinatorial problem
    """

    asked: problems.BinaryProblem = None  # type: ignore[assignment]  # fields with defaults stand before it


def combinatorial(name: str, asked: problems.BinaryProblem) -> Combinatorial:
    """The variational problem of a combinatorial one; its least energy, where all bit strings can be tried."""
    exact = asked.best.value if asked.num_qubits <= MOST else None
    facts: dict[str, Any] = {"cost": _plain(asked.hamiltonian)}
    if asked.kept is not None:
        facts["kept"] = {"groups": asked.kept.groups, "ones": asked.kept.ones, "cost": _plain(asked.kept.hamiltonian)}
    return Combinatorial(name, asked.hamiltonian, exact, facts, asked=asked)


def _plain(sum_: PauliSum) -> dict[str, float]:
    return {word: float(complex(factor).real) for word, factor in sum_.terms.items()}


__all__ = ["Combinatorial", "combinatorial"]
