"""Evolution in time by product formulas."""

from __future__ import annotations

from typing import Annotated, Any

from pdl.errors import UsageError
from pdl.hints import Range, part
from pdl_quantum.circuits import Circuit, PauliSum
from pdl_quantum.circuits.angles import angle_of
from pdl_quantum.templates.patterns import require_count
from pdl_quantum.templates.words import require_hermitian, turn_word

MOST_ORDER = 8  # 2 * 5^3 passes over the terms for a step


@part
def trotter(
    hamiltonian: PauliSum, time: Any, steps: Annotated[int, Range(1)] = 1, *, order: Annotated[int, Range(1)] = 1
) -> Circuit:
    """exp(-i time H), nearly: `steps` times the product of the exponentials of H's terms (Trotter), or Suzuki's
    symmetric products of an even order k, whose error falls with time^(k+1) / steps^k (arXiv math-ph/0506007).

    time    a number, a `Parameter`, its name or entry;    order  1, 2, 4, 6 or 8

    Terms act in the order of the sum; where one meets itself the two are one. The constant of H is a phase, kept for
    those who control the circuit. Errors: UsageError for other orders, and coefficients that are not real.
    """
    require_count("trotter", steps=steps)
    require_hermitian("trotter", "hamiltonian", hamiltonian)
    if order not in (1, *range(2, MOST_ORDER + 1, 2)):
        raise UsageError(f"trotter: order {order!r}; give 1, 2, 4, 6 or {MOST_ORDER}")
    terms = [(word, complex(factor).real) for word, factor in hamiltonian.terms.items()]
    constant = "I" * hamiltonian.num_qubits
    moving = [(word, factor) for word, factor in terms if word != constant]
    once = _formula(moving, order, 1.0 / steps)
    angle, circuit = angle_of(time), Circuit(hamiltonian.num_qubits)
    for word, share in _merged(once * steps):
        turn_word(circuit, word, angle * (2 * share))
    if hamiltonian.terms.get(constant):
        turn_word(circuit, constant, angle * (2 * complex(hamiltonian.terms[constant]).real))
    return circuit


def _formula(terms: list[tuple[str, float]], order: int, share: float) -> list[tuple[str, float]]:
    """(word, coefficient times its share of the time) of one step."""
    if order == 1:
        return [(word, factor * share) for word, factor in terms]
    if order == 2:
        half = _formula(terms, 1, share / 2)
        return half + half[::-1]
    p = 1 / (4 - 4 ** (1 / (order - 1)))
    outer, inner = _formula(terms, order - 2, p * share), _formula(terms, order - 2, (1 - 4 * p) * share)
    return outer * 2 + inner + outer * 2


def _merged(product: list[tuple[str, float]]) -> list[tuple[str, float]]:
    made: list[tuple[str, float]] = []
    for word, share in product:
        if made and made[-1][0] == word:
            made[-1] = (word, made[-1][1] + share)
        else:
            made.append((word, share))
    return made
