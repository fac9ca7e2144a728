"""Molecules from integrals: files, active spaces, PySCF; against published energies and against PySCF itself."""

from __future__ import annotations

import builtins
from pathlib import Path

import numpy as np
import pytest

from pdl.config import load
from pdl.errors import ConfigError, DataError, PackageError, UsageError
from pdl.workflow import train
from pdl_quantum.chemistry import tapered
from pdl_quantum.chemistry.integrals import Integrals
from pdl_quantum.circuits import PauliSum
from pdl_quantum.data import Atoms, Molecule
from pdl_quantum.data import atoms as by_pyscf
from pdl_quantum.data.molecule import one

H2 = """&FCI NORB=2,NELEC=2,MS2=0,
  ORBSYM=1,5,
  ISYM=1,
&END
  0.6744887664  1 1 1 1
  0.1812888082  2 1 2 1
  0.6634680964  2 2 1 1
  0.6973937674  2 2 2 2
 -1.2524635737  1 1 0 0
 -0.4759487172  2 2 0 0
 -0.5782028978  1 0 0 0
  0.7137539936  0 0 0 0
"""  # H2 at 0.7414 angstrom, STO-3G


def test_fcidump_of_h2(tmp_path: Path) -> None:
    (tmp_path / "FCIDUMP").write_text(H2)
    found, known = one(str(tmp_path / "FCIDUMP")), one("H2", 0.7414)
    assert found.hartree_fock == pytest.approx(known.hartree_fock, abs=1e-8)
    assert found.levels(4) == pytest.approx(known.levels(4), abs=1e-8)
    assert {word for word, _ in found.hamiltonian.terms.items()} == set(known.hamiltonian.terms)
    assert Molecule(str(tmp_path / "FCIDUMP")).problems[0].exact == pytest.approx(-1.1372701, abs=1e-6)


def test_npz_is_the_same(tmp_path: Path) -> None:
    (tmp_path / "FCIDUMP").write_text(H2)
    from pdl_quantum.data.fcidump import read_fcidump

    read = read_fcidump(tmp_path / "FCIDUMP")
    np.savez(tmp_path / "h2.npz", one_body=read.one, two_body=read.two, constant=read.constant, num_electrons=2)
    assert one(str(tmp_path / "h2.npz")).levels()[0] == pytest.approx(-1.1372701, abs=1e-6)
    np.savez(tmp_path / "bad.npz", one_body=read.one, two_body=read.two.transpose(0, 2, 1, 3), constant=0.0,
             num_electrons=2)  # fmt: skip
    with pytest.raises(DataError, match="in chemists' order"):
        one(str(tmp_path / "bad.npz"))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("&FCI", "FCI"), "begins with &FCI"),
        (("NORB=2", "NORB=0"), "NORB=0 must be"),
        (("MS2=0", "MS2=0,IUHF=1"), "IUHF"),
        (("2 2 2 2", "2 2 2 3"), ":8: .*0 to 2"),
        (("0.6973937674", "x"), "no `value i j k l`"),
        (("NELEC=2", "NELEC=3"), "3 electrons, 0 of them unpaired"),
    ],
)
def test_faults_of_a_file_are_told(change: tuple[str, str], said: str, tmp_path: Path) -> None:
    (tmp_path / "FCIDUMP").write_text(H2.replace(*change))
    with pytest.raises(DataError, match=said):
        one(str(tmp_path / "FCIDUMP"))


@pytest.mark.parametrize("settings", [{"mapping": "parity"}, {"mapping": "bravyi_kitaev"},
                                      {"mapping": "parity", "reduced": True}], ids=str)  # fmt: skip
def test_mappings_keep_ground_and_hartree_fock_energies(settings: dict) -> None:
    for source in ("H2", "H3+"):
        problem, molecule = Molecule(source, **settings).problems[0], one(source)
        assert problem.num_qubits == molecule.num_qubits - 2 * bool(settings.get("reduced"))
        values = np.linalg.eigvalsh(problem.hamiltonian.matrix())
        assert np.abs(values - molecule.exact).min() < 1e-10
        state = np.zeros((1, 1 << problem.num_qubits), complex)
        state[0, int(problem.facts["occupied"], 2)] = 1
        assert problem.hamiltonian.expectation(state)[0] == pytest.approx(molecule.hartree_fock, abs=1e-10)
        assert "num_electrons" not in problem.facts


@pytest.mark.parametrize(("source", "qubits"), [("H2", 1), ("H3+", 3), ("LiH", 8)])
def test_tapering_keeps_the_ground_state(source: str, qubits: int) -> None:
    """Bravyi et al. (arXiv 1701.08213): H2 on a single qubit."""
    problem, molecule = Molecule(source, tapered=True).problems[0], one(source)
    assert problem.num_qubits == qubits
    assert np.linalg.eigvalsh(problem.hamiltonian.matrix())[0] == pytest.approx(molecule.exact, abs=1e-9)
    state = np.zeros((1, 1 << qubits), complex)
    state[0, int(problem.facts["occupied"], 2)] = 1
    assert problem.hamiltonian.expectation(state)[0] == pytest.approx(molecule.hartree_fock, abs=1e-9)


def test_what_is_no_symmetry_is_refused() -> None:
    with pytest.raises(UsageError, match="should keep its value"):
        tapered(PauliSum(2, {"XI": 1.0, "ZZ": 0.5}), ["ZI"], [0, 0])
    with pytest.raises(DataError, match="goes with the mapping jordan_wigner"):
        Molecule("H2", mapping="parity", tapered=True)


def test_uccsd_asks_for_jordan_wigner(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"pdl_quantum.uccsd needs num_electrons, .* the data gives num_qubits"):
        train(load("quantum/h2_vqe", ["+data.train.mapping=parity"]), run=tmp_path / "run", progress=False)


def test_two_qubits_are_enough_for_h2(tmp_path: Path) -> None:
    found = train(load("quantum/h2_parity_vqe"), run=tmp_path / "run", progress=False).metrics
    assert found["energy_error"] < 1e-5


def test_atoms_by_pyscf() -> None:
    """Hartree-Fock and full configuration interaction of H2 as published; an active space of O2, an open shell, against
    PySCF's own."""
    pytest.importorskip("pyscf", reason="PySCF is optional")
    from pyscf import gto, mcscf, scf

    found = Atoms("H 0 0 0; H 0 0 0.7414").molecule
    assert found.hartree_fock == pytest.approx(-1.1166844, abs=1e-6)
    assert found.levels()[0] == pytest.approx(-1.1372702, abs=1e-6)
    atoms = "O 0 0 0; O 0 0 1.2"
    small = Atoms(atoms, spin=2, active=[4, 3]).molecule
    field = scf.ROHF(gto.M(atom=atoms, spin=2, basis="sto-3g", verbose=0)).run(conv_tol=1e-12)
    assert small.hartree_fock == pytest.approx(field.e_tot, abs=1e-8)
    assert small.levels()[0] == pytest.approx(mcscf.CASCI(field, 3, (3, 1)).kernel()[0], abs=1e-8)
    assert small.occupied == [1, 1, 1, 0, 1, 0]
    with pytest.raises(DataError, match="takes it for no molecule"):
        Atoms("Q 0 0 0")


def test_without_pyscf_a_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def absent(name: str, *arguments, **options):
        if name.startswith("pyscf"):
            raise ImportError(name)
        return real(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(PackageError, match=r"pdl-quantum\[chemistry\]"):
        by_pyscf.integrals("H 0 0 0; H 0 0 1", "sto-3g")


def test_an_active_space_must_fit() -> None:
    made = Integrals("x", np.zeros((3, 3)), np.zeros((3,) * 4), 0.0, 4)
    assert made.active(2, 2).num_electrons == 2
    for wrong in ((3, 2), (6, 3), (2, 3), (2, 0)):
        with pytest.raises(DataError, match="does not fit"):
            made.active(*wrong)
