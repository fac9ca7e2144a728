"""A combinatorial problem as a variational one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pdl_quantum import problems
from pdl_quantum.problems.diagonal import MOST
from pdl_quantum.variational.eigenproblem import Eigenproblem


@dataclass(frozen=True)
class Combinatorial(Eigenproblem):
    """A variational problem that knows what its bit strings mean.

    asked   the combinatorial problem
    """

    asked: problems.BinaryProblem = None  # type: ignore[assignment]  # fields with defaults stand before it


def combinatorial(name: str, asked: problems.BinaryProblem) -> Combinatorial:
    """The variational problem of a combinatorial one; its least energy, where all bit strings can be tried."""
    exact = asked.best.value if asked.num_qubits <= MOST else None
    terms = {word: float(complex(factor).real) for word, factor in asked.hamiltonian.terms.items()}
    facts: dict[str, Any] = {"cost": terms}
    if asked.groups:
        facts["groups"] = asked.groups
    return Combinatorial(name, asked.hamiltonian, exact, facts, asked=asked)


__all__ = ["Combinatorial", "combinatorial"]
