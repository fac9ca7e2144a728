"""Circuits that keep the number of electrons, beside UCCSD: Givens rotations, and k-UpCCGSD."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Annotated

from pdl.hints import Range, part
from pdl_quantum.chemistry.excitations import Excitation, excitations
from pdl_quantum.chemistry.uccsd import doubles_first, hartree_fock, rotate
from pdl_quantum.circuits import Circuit


@part
def givens(
    num_qubits: Annotated[int, Range(2)],
    num_electrons: Annotated[int, Range(1)],
    *,
    layers: Annotated[int, Range(1)] = 1,
    symmetries: Sequence[str] = (),
) -> Circuit:
    """The Hartree-Fock state, then Givens rotations by all double and single excitations of qubits (Arrazola et al.,
    arXiv 2104.05695): as UCCSD without the signs of fermions, so gates touch two or four qubits. Jordan-Wigner.

    The parameter is `theta` [layers, excitations]; electrons and spin are kept. `symmetries` as in `excitations`.
    """
    circuit = hartree_fock(num_qubits, num_electrons)
    chosen = doubles_first(excitations(num_qubits, num_electrons, symmetries=symmetries))
    theta = circuit.parameter("theta", (layers, len(chosen)))
    for layer in range(layers):
        for place, each in enumerate(chosen):
            rotate(circuit, each.generator(num_qubits, strings=False), theta[layer, place])
    return circuit


def k_upccgsd(
    num_qubits: Annotated[int, Range(4)], num_electrons: Annotated[int, Range(1)], k: Annotated[int, Range(1)] = 1
) -> Circuit:
    """The Hartree-Fock state, then `k` times exp(theta A) of pairs that go from one orbital to another, and of singles
    between any two (Lee et al., arXiv 1810.02327). Jordan-Wigner.

    The parameters are `pairs` [k, orbital pairs] and `singles` [k, orbital pairs], both spins of a single with the same
    angle, so electrons, spin and its direction are kept.
    """
    circuit = hartree_fock(num_qubits, num_electrons)
    places = list(combinations(range(num_qubits // 2), 2))
    pairs, singles = (circuit.parameter(name, (k, len(places))) for name in ("pairs", "singles"))
    for layer in range(k):
        for place, (p, q) in enumerate(places):
            double = Excitation((2 * p, 2 * p + 1), (2 * q, 2 * q + 1))
            rotate(circuit, double.generator(num_qubits), pairs[layer, place])
            for spin in (0, 1):
                single = Excitation((2 * p + spin,), (2 * q + spin,))
                rotate(circuit, single.generator(num_qubits), singles[layer, place])
    return circuit
