"""Unitary coupled cluster with singles and doubles (Peruzzo et al., arXiv 1304.3061; Romero et al., arXiv 1701.02691).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pdl.errors import UsageError
from pdl.hints import Inferred, Range, part
from pdl_quantum.chemistry.excitations import Excitation, excitations
from pdl_quantum.circuits import Angle, Circuit, PauliSum


@part
def uccsd(
    num_qubits: Annotated[int, Range(2)],
    num_electrons: Annotated[int, Range(1)],
    *,
    repeats: Annotated[int, Range(1)] = 1,
    restricted: bool = False,
    symmetries: Sequence[str] = (),
) -> Circuit:
    """The Hartree-Fock state, then exp(theta_k A_k) for every single and double excitation, in `repeats` first-order
    Trotter steps of exp(sum_k theta_k A_k). Jordan-Wigner; even qubits hold spins up, odd ones down.

    restricted   excitations that are one another with spins turned around share a parameter (closed shells)
    symmetries   as in `excitations`

    The parameter is `theta` [P]; every factor is exact, so the number of electrons and the spin along z are kept.
    """
    circuit = hartree_fock(num_qubits, num_electrons)
    chosen = doubles_first(excitations(num_qubits, num_electrons, symmetries=symmetries))
    places = shared(chosen) if restricted else [(number, 1) for number in range(len(chosen))]
    circuit.parameter("theta", (1 + max(number for number, _ in places),))
    for _ in range(repeats):
        for each, (number, sign) in zip(chosen, places, strict=True):
            rotate(circuit, each.generator(num_qubits), Angle("theta", number) * (sign / repeats))
    return circuit


@part
def after_hartree_fock(circuit: Annotated[Circuit, Inferred("num_qubits")], occupied: str) -> Circuit:
    """The Hartree-Fock state, then another circuit, such as `pdl_quantum.templates.hardware_efficient` with
    `entangler="cz"`, which leaves that state where all angles are 0.

    occupied   its qubits, such as "1100": those of the occupations in the problem's mapping (from the data)
    """
    if len(occupied) != circuit.num_qubits or set(occupied) - {"0", "1"}:
        raise UsageError(f"occupied={occupied!r} must have a 0 or 1 for each of {circuit.num_qubits} qubits")
    ones = [qubit for qubit, bit in enumerate(occupied) if bit == "1"]
    start = Circuit(circuit.num_qubits)
    return (start.x(*ones) if ones else start).append(circuit)


@part
def hartree_fock(num_qubits: int, num_electrons: int) -> Circuit:
    """The lowest spin orbitals occupied."""
    return Circuit(num_qubits).x(*range(num_electrons))


def rotate(circuit: Circuit, generator: PauliSum, angle: Angle) -> Circuit:
    """exp(angle A) of an anti-Hermitian sum A of words that commute: the product of their exponentials."""
    for word, factor in generator.terms.items():
        qubits = [qubit for qubit, letter in enumerate(word) if letter != "I"]
        letters = "".join(word[qubit] for qubit in qubits)
        circuit.pauli(angle * (-2 * complex(factor).imag), letters, *qubits)
    return circuit


def doubles_first(chosen: Sequence[Excitation]) -> list[Excitation]:
    """Doubles before singles: the singles then turn the orbitals of a correlated state."""
    return sorted(chosen, key=lambda each: -len(each.before))


def shared(chosen: Sequence[Excitation]) -> list[tuple[int, int]]:
    """(number, sign) of each one's parameter, where those that spins turned around exchange have the same."""
    found: dict[Excitation, int] = {}
    places = []
    for each in chosen:
        other, sign = each.flipped()
        fresh = other not in found
        found[each] = len(set(found.values())) if fresh else found[other]
        places.append((found[each], 1 if fresh else sign))
    return places
