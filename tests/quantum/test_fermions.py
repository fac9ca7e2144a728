"""Fermions and their mappings: anticommutation relations, and equal spectra."""

from __future__ import annotations

import numpy as np
import pytest

from pdl.errors import UsageError
from pdl_quantum.chemistry import (
    FermionSum,
    bravyi_kitaev,
    electron_number,
    excitations,
    jordan_wigner,
    parity,
    spin_squared,
    spin_z,
)
from pdl_quantum.chemistry.mappings import mapped, mapped_bits, reordered, without_parities
from pdl_quantum.chemistry.masks import orthogonal, span
from pdl_quantum.chemistry.uccsd import uccsd
from pdl_quantum.circuits import PauliSum
from pdl_quantum.data.molecule import one
from pdl_quantum.spectrum import Sector, levels

MAPS = [jordan_wigner, parity, bravyi_kitaev]


@pytest.mark.parametrize("mapping", MAPS)
@pytest.mark.parametrize("n", [1, 3, 6])
def test_modes_anticommute(mapping, n: int) -> None:
    a = [mapping(FermionSum.product(n, str(p))).matrix() for p in range(n)]
    for p in range(n):
        for q in range(n):
            np.testing.assert_allclose(a[p] @ a[q] + a[q] @ a[p], 0, atol=1e-14)
            np.testing.assert_allclose(
                a[p] @ a[q].conj().T + a[q].conj().T @ a[p], np.eye(1 << n) * (p == q), atol=1e-14
            )


def random_sum(n: int, seed: int) -> FermionSum:
    rng, made = np.random.default_rng(seed), FermionSum(n)
    for _ in range(12):
        modes = rng.integers(0, n, 4)
        made = made + FermionSum(n, {tuple((int(m), bool(rng.integers(2))) for m in modes): rng.standard_normal()})
    return made + made.adjoint()


@pytest.mark.parametrize("mapping", [parity, bravyi_kitaev])
def test_mappings_have_the_spectrum_of_jordan_wigner(mapping) -> None:
    each = random_sum(5, 3)
    wanted, found = (np.linalg.eigvalsh(m(each).matrix()) for m in (jordan_wigner, mapping))
    np.testing.assert_allclose(found, wanted, atol=1e-12)


def test_normal_order_changes_no_operator() -> None:
    each = random_sum(4, 5)
    ordered = each.normal_ordered()
    np.testing.assert_allclose(jordan_wigner(ordered).matrix(), jordan_wigner(each).matrix(), atol=1e-13)
    for product in ordered.terms:
        assert list(product) == sorted(product, key=lambda operator: (not operator[1], -operator[0]))
    assert FermionSum.product(2, "0 0^").normal_ordered().terms == {(): 1.0, ((0, True), (0, False)): -1.0}


def test_bravyi_kitaev_touches_few_qubits() -> None:
    """A hopping term of 16 modes: a string of Z of all between by Jordan-Wigner, O(log n) qubits here."""
    hop = FermionSum.product(16, "1^ 14") + FermionSum.product(16, "14^ 1")
    longest = {m: max(len(w.replace("I", "")) for w in m(hop).terms) for m in (jordan_wigner, bravyi_kitaev)}
    assert longest[jordan_wigner] == 14
    assert longest[bravyi_kitaev] <= 8


def test_two_qubits_go_where_parities_are_kept() -> None:
    """H2: four spin orbitals on two qubits (as in arXiv 1701.08213), the same energies for two electrons."""
    molecule = one("H2", 0.7414)
    blocked = reordered(molecule.hamiltonian, [0, 2, 1, 3])  # spins up, then spins down
    reduced = without_parities(mapped(blocked, "parity"), 2, 1)
    assert reduced.num_qubits == 2
    wanted = levels(molecule.hamiltonian, Sector(4, 1, 1), 4)
    np.testing.assert_allclose(np.linalg.eigvalsh(reduced.matrix()), wanted, atol=1e-12)
    with pytest.raises(UsageError, match="should keep its value; order the modes"):
        without_parities(molecule.hamiltonian, 2, 1)


def test_modes_in_another_order() -> None:
    """As if the operators had been numbered so from the beginning."""
    each, order = random_sum(5, 7), [3, 0, 4, 1, 2]
    place = {mode: k for k, mode in enumerate(order)}
    renamed = FermionSum(5, {tuple((place[m], up) for m, up in p): c for p, c in each.terms.items()})
    found = reordered(jordan_wigner(each), order)
    np.testing.assert_allclose(found.matrix(), jordan_wigner(renamed).matrix(), atol=1e-13)


def test_mapped_bits_are_those_of_the_state() -> None:
    """The Hartree-Fock state has its energy in every mapping."""
    molecule = one("LiH")
    occupied = np.array([1] * 4 + [0] * 8, np.uint8)
    for mapping in ("jordan_wigner", "parity", "bravyi_kitaev"):
        bits = mapped_bits(occupied, mapping)
        state = np.zeros((1, 1 << 12), complex)
        state[0, int("".join(map(str, bits)), 2)] = 1
        energy = mapped(molecule.hamiltonian, mapping).expectation(state)[0]
        assert energy == pytest.approx(molecule.hartree_fock, abs=1e-10)


def test_spans_over_two_elements() -> None:
    vectors = [0b1100, 0b0110, 0b1010]
    assert span(vectors) == [0b1010, 0b0110]
    assert sorted(orthogonal(vectors, 4)) == [0b0001, 0b1110]


def test_generators_are_antihermitian_and_their_words_commute() -> None:
    for each in excitations(6, 2):
        generator = each.generator(6)
        matrix = generator.matrix()
        np.testing.assert_allclose(matrix, -matrix.conj().T, atol=1e-14)
        words = [PauliSum(6, {word: 1.0}).matrix() for word in generator.terms]
        assert all(np.allclose(a @ b, b @ a) for a in words for b in words)


def test_excitations_are_counted() -> None:
    """Singles and doubles that keep the spin: LiH 16 and 76 (Romero et al., arXiv 1701.02691, count so)."""
    chosen = excitations(12, 4)
    assert [sum(len(each.before) == k for each in chosen) for k in (1, 2)] == [16, 76]
    assert uccsd(12, 4).num_parameters == 92
    with pytest.raises(UsageError, match="leave nothing to excite"):
        excitations(4, 4)


def test_electrons_and_spins_are_counted() -> None:
    """The four levels of H2 with two electrons: a singlet, a triplet and two more singlets."""
    molecule = one("H2", 0.7414)
    inside = molecule.sector.indices()
    _, vectors = np.linalg.eigh(molecule.hamiltonian.matrix()[np.ix_(inside, inside)])
    states = np.zeros((4, 16), complex)
    states[:, inside] = vectors.T
    found = [jordan_wigner(make(4)).expectation(states) for make in (electron_number, spin_z, spin_squared)]
    np.testing.assert_allclose(found, [[2] * 4, [0] * 4, [0, 2, 0, 0]], atol=1e-12)


@pytest.mark.parametrize("make", [electron_number, spin_z, spin_squared])
def test_hamiltonians_keep_what_is_counted(make) -> None:
    h, counted = one("H3+").hamiltonian.matrix(), jordan_wigner(make(6)).matrix()
    np.testing.assert_allclose(h @ counted, counted @ h, atol=1e-7)  # its file leaves out terms below 5e-8
