"""What ADAPT-VQE chooses from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from pdl.hints import Range, part
from pdl_quantum.chemistry.excitations import excitations
from pdl_quantum.chemistry.uccsd import hartree_fock
from pdl_quantum.circuits import Circuit, PauliSum


@dataclass(frozen=True)
class Pool:
    """A circuit to begin with, and anti-Hermitian generators, each of words that commute; `names` are for people."""

    start: Circuit
    generators: tuple[PauliSum, ...]
    names: tuple[str, ...]


@part
def excitation_pool(
    num_qubits: Annotated[int, Range(2)],
    num_electrons: Annotated[int, Range(1)],
    *,
    generalized: bool = False,
    symmetries: Sequence[str] = (),
) -> Pool:
    """Single and double excitations of the Hartree-Fock state (Grimsley et al., arXiv 1812.11173); see `excitations`.
    """
    chosen = excitations(num_qubits, num_electrons, generalized=generalized, symmetries=symmetries)
    return Pool(
        hartree_fock(num_qubits, num_electrons),
        tuple(each.generator(num_qubits) for each in chosen),
        tuple(map(str, chosen)),
    )


def qubit_pool(
    num_qubits: Annotated[int, Range(2)], num_electrons: Annotated[int, Range(1)], *, symmetries: Sequence[str] = ()
) -> Pool:
    """The words of excitations of qubits one by one (qubit-ADAPT: Tang et al., arXiv 1911.10205): short gates, which
    keep the parity of the electrons and not their number."""
    words: dict[str, None] = {}
    for each in excitations(num_qubits, num_electrons, symmetries=symmetries):
        words.update(dict.fromkeys(each.generator(num_qubits, strings=False).terms))
    generators = tuple(PauliSum(num_qubits, {word: 1j}) for word in words)
    return Pool(hartree_fock(num_qubits, num_electrons), generators, tuple(words))
