"""SMILES to graphs, the splits of molecules, and what is wrong with their files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdl.errors import ConfigError, DataError, PackageError, UsageError
from pdl.runtime.steps import Sample
from pdl.workflow.selftest import run
from pdl_graph.data import Molecules
from pdl_graph.data.scaffold import random_split, scaffold_split
from pdl_graph.steps.graphs import Form
from pdl_graph.steps.molecules import MoleculeForm, SmilesInput

Chem = pytest.importorskip("rdkit.Chem", reason='needs RDKit: pip install "pdl-graph[molecules]"')


def messages(form: MoleculeForm, kind: str, row: Any) -> set[str]:
    """The columns of a row that are not 0."""
    return {name for name, value in zip(form.columns(kind), row, strict=True) if value}


def test_atoms_and_bonds_are_told_by_name() -> None:
    form = MoleculeForm(atoms=("element", "charge", "hydrogens", "hybridisation", "chirality", "ring"), elements=("C",))
    graph = form.graph("C[C@@H]([NH3+])/C=C/c1ccccc1")
    assert list(graph.names)[:4] == ["C0", "C1", "N2", "C3"]
    atoms = [messages(form, "atoms", row) for row in graph.features]  # type: ignore[union-attr]
    assert atoms[1] == {"element C", "charge 0", "hydrogens 1", "hybridisation SP3", "chirality R"}
    assert atoms[2] == {"element other", "charge 1", "hydrogens 3", "hybridisation SP3", "chirality none"}
    assert atoms[5] == {"element C", "charge 0", "hydrogens 0", "hybridisation SP2", "chirality none", "ring"}
    ends = list(zip(graph.source.tolist(), graph.target.tolist(), strict=True))
    bonds = {end: messages(form, "bonds", row) for end, row in zip(ends, graph.attributes, strict=True)}  # type: ignore[arg-type]
    assert bonds[0, 1] == {"type SINGLE", "stereo NONE"}
    assert bonds[3, 4] == {"type DOUBLE", "conjugated", "stereo E"}
    assert bonds[5, 6] == {"type AROMATIC", "conjugated", "ring", "stereo NONE"}
    assert len(ends) == 11
    assert graph.features.shape == (11, len(form.columns("atoms")))  # type: ignore[union-attr]
    assert messages(form, "bonds", form.graph(r"C/C=C\C").attributes[1]) == {"type DOUBLE", "stereo Z"}  # type: ignore[index]


@pytest.mark.parametrize("smiles", ["C[C@H](N)C(=O)O", "OC(=O)/C=C\\c1ccc(Cl)cc1", "[Na+].[O-]c1ccccc1", "C"])
def test_how_a_molecule_is_written_does_not_matter(smiles: str) -> None:
    """Rows of atoms, and of atom, bond, atom, are the same however the SMILES begins."""
    form, molecule = MoleculeForm(), Chem.MolFromSmiles(smiles)
    seen = set()
    for start in range(molecule.GetNumAtoms()):
        graph = form.graph(Chem.MolToSmiles(molecule, rootedAtAtom=start, canonical=False))
        x, bonds = graph.features, graph.attributes
        assert x is not None
        assert bonds is not None
        ends = [sorted((x[a].tobytes(), x[b].tobytes())) for a, b in zip(graph.source, graph.target, strict=True)]
        edges = sorted((*end, bond.tobytes()) for end, bond in zip(ends, bonds, strict=True))
        seen.add((tuple(sorted(row.tobytes() for row in x)), tuple(edges)))
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("smiles", "why"),
    [
        ("", "is no SMILES: expected text"),
        ("C" * 10_001, "1 to 10,000 letters"),
        ("C(C", "its syntax is wrong"),
        ("CN(C)(C)C", "Explicit valence for atom # 1 N, 4"),
        ("c1cccc1", "kekulize"),
    ],
)
def test_what_is_no_molecule_is_told(smiles: str, why: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(DataError, match=why):
        MoleculeForm().graph(smiles)
    assert capfd.readouterr().err == ""


def test_a_form_is_checked_and_survives_plain_values() -> None:
    form = MoleculeForm(("C", "O"), ("element", "mass"), ())
    assert MoleculeForm.read(form.plain()) == form
    assert form.columns("atoms") == ["element C", "element O", "element other", "mass"]
    assert form.graph("CO").attributes.shape == (1, 0)  # type: ignore[union-attr]
    for wrong in ({"atoms": ["colour"]}, {"atoms": []}, {"bonds": ["type", "type"]}, {"elements": []}, {"atom": []}):
        with pytest.raises(UsageError):
            MoleculeForm.read(wrong)


def test_the_step_gives_what_nets_are_trained_with() -> None:
    data = Molecules("ESOL")
    x, bonds = len(data.molecules.columns("atoms")), len(data.molecules.columns("bonds"))  # type: ignore[union-attr]
    for number in (0, 4, 700):
        graph, smiles = data.graphs[number], data.smiles[number]
        found = {part: SmilesInput(part).parse(smiles, Sample()) for part in ("x", "indptr", "indices", "attributes")}
        assert (found["x"] == graph.x).all()
        assert (found["indptr"] == graph.indptr).all()
        assert (found["indices"] == graph.indices).all()
        assert (found["attributes"] == graph.edge_attr).all()
    lone = Form(x, attributes=bonds).arrays(MoleculeForm().graph("[Na+].[Cl-]"))
    assert lone["indptr"].tolist() == [0, 0, 0]
    assert lone["attributes"].shape == (0, bonds)


def test_the_step_reads_files(tmp_path: Path) -> None:
    step = SmilesInput("x")
    (tmp_path / "a.csv").write_text("name,SMILES\nethanol, CCO\nbroken,C(\n")
    (tmp_path / "a.smi").write_text("CCO ethanol\n\nCC(=O)O\tacid\n")
    (tmp_path / "b.csv").write_text("name,structure\na,CCO\n")
    assert [each.name for each in step.file(tmp_path / "a.smi")] == ["CCO", "CC(=O)O"]
    rows = list(step.file(tmp_path / "a.csv"))
    assert step.parse(rows[0].item, Sample()).shape == (3, 43)
    assert step.title(rows[1].item).strip() == "C("
    with pytest.raises(DataError, match=r"b.csv:2: columns are name, structure; expected smiles"):
        list(step.file(tmp_path / "b.csv"))
    with pytest.raises(DataError, match="is no molecule"):
        step.parse({"pair": "a"}, Sample())


def test_scaffolds_are_split_largest_first() -> None:
    names = ["a"] * 6 + ["b"] * 2 + ["c"] * 2 + ["d", "e", "f", "g", "h", "i", "j", "k", "l", "m"]
    parts = scaffold_split(names)  # 20: train up to 16, val up to 18
    assert parts[:10].tolist() == [0] * 10
    assert parts[10:].tolist() == [2, 2, 1, 1, 0, 0, 0, 0, 0, 0]  # of equally many, the last one first
    assert scaffold_split(["a"] * 17 + ["b"] * 3).tolist() == [1] * 17 + [0] * 3  # does not fit into train
    assert np.bincount(random_split(101, 3)).tolist() == [80, 10, 11]
    assert (random_split(101, 3) != random_split(101, 4)).any()


@pytest.mark.parametrize(("name", "sizes"), [("ESOL", (902, 113, 113)), ("BBBP", (1631, 204, 204))])
def test_sets_that_ship(name: Any, sizes: tuple[int, ...]) -> None:
    splits: Any = ("train", "val", "test")
    sets = [Molecules(name, split, unreadable="skip") for split in splits]
    assert tuple(map(len, sets)) == sizes
    rings = [{each.held.scaffolds[i] for i in each.rows} for each in sets]
    assert not rings[0] & rings[2]
    assert not rings[0] & rings[1]
    assert len(sets[0].held.left_out) == {"ESOL": 0, "BBBP": 11}[name]
    drawn = [Molecules(name, split, unreadable="skip", splitting="random", seed=1) for split in splits]
    assert sorted(np.concatenate([each.rows for each in drawn])) == list(range(sum(sizes)))
    assert sets[0].fingerprint != sets[1].fingerprint


def test_faults_of_files_have_a_line(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text("smiles,a,b\nCCO,1,\nCCC,,\nC(,2,3\nCO,nan,4\n")
    kept = Molecules(path=path, targets=["a", "b"], unreadable="skip")
    assert kept.smiles == ["CCO", "CO"]
    np.testing.assert_array_equal(kept.targets, [[1, np.nan], [np.nan, 4]])  # type: ignore[arg-type]
    assert [each.split(":")[0] for each in kept.held.left_out] == ["3", "4"]
    with pytest.raises(DataError, match=r"own.csv:4: 'C\(' is no SMILES .* unreadable: skip"):
        Molecules(path=path, targets=["a"])
    with pytest.raises(DataError, match=r"own.csv:1: columns are smiles, a, b; expected smiles, c"):
        Molecules(path=path, targets=["c"])
    path.write_text("smiles,a\nCCO,low\n")
    with pytest.raises(DataError, match=r"own.csv:2: a is 'low'"):
        Molecules(path=path, targets=["a"])
    path.write_text("smiles,a\n")
    with pytest.raises(DataError, match="no molecules"):
        Molecules(path=path, targets=["a"])
    for about in ({"path": path}, {"path": path, "targets": ["a", "a"]}, {"targets": ["a"]}):
        with pytest.raises(ConfigError):
            Molecules(**about)  # type: ignore[arg-type]


def test_without_rdkit_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "rdkit", None)
    for use in (lambda: Molecules("ESOL"), lambda: SmilesInput("x").parse("CCCCCCCO", Sample())):
        with pytest.raises(PackageError, match=r'pip install "pdl-graph\[molecules\]"'):
            use()
    outcome = run("graph/esol_gin", folder=tmp_path)
    assert (outcome.status, outcome.step) == ("skipped", "data")
    assert "pip install" in outcome.reason
