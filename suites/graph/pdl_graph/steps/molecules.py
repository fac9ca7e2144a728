"""Molecules: how a SMILES string becomes a graph of atoms and bonds, through RDKit, and the input step that
reads one.

RDKit is imported when the first molecule is read; nothing else of pdl needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from pdl.dtype import Array
from pdl.errors import DataError, PackageError, UsageError
from pdl.runtime import tables
from pdl.runtime.steps import Input
from pdl.runtime.steps.arguments import flag
from pdl_graph.steps.graph_folder import GraphFolder
from pdl_graph.steps.graphs import Form, GraphArrays, opened

ELEMENTS = ("B", "C", "N", "O", "F", "Si", "P", "S", "Cl", "Se", "Br", "I")
MAX_LENGTH = 10_000  # letters of a SMILES: a protein of a thousand residues has fewer

Group = tuple[tuple[str, ...], Callable[[Any], Any]]
"""The values that a property may have, and what reads it; none of them is "other", the last column. A property with no
values but its own name is a number or a yes (1) or no (0)."""

ATOMS: dict[str, Group] = {
    "element": (ELEMENTS, lambda atom: atom.GetSymbol()),
    "degree": (("0", "1", "2", "3", "4", "5"), lambda atom: str(atom.GetDegree())),
    "charge": (("-1", "0", "1"), lambda atom: str(atom.GetFormalCharge())),
    "hydrogens": (("0", "1", "2", "3", "4"), lambda atom: str(atom.GetTotalNumHs())),
    "hybridisation": (("SP", "SP2", "SP3", "SP3D", "SP3D2"), lambda atom: str(atom.GetHybridization())),
    "chirality": (("none", "R", "S"), lambda atom: atom.GetProp("_CIPCode") if atom.HasProp("_CIPCode") else "none"),
    "aromatic": ((), lambda atom: atom.GetIsAromatic()),
    "ring": ((), lambda atom: atom.IsInRing()),
    "mass": ((), lambda atom: atom.GetMass() / 100),
}
"""What can be read of an atom. Its neighbours that are no hydrogens are its degree; chirality is R or S by the rules of
Cahn, Ingold and Prelog, which do not depend on how a SMILES was written; mass is in 100 u."""

BONDS: dict[str, Group] = {
    "type": (("SINGLE", "DOUBLE", "TRIPLE", "AROMATIC"), lambda bond: str(bond.GetBondType())),
    "conjugated": ((), lambda bond: bond.GetIsConjugated()),
    "ring": ((), lambda bond: bond.IsInRing()),
    "stereo": (("NONE", "ANY", "Z", "E"), lambda bond: str(bond.GetStereo()).removeprefix("STEREO")),
}
"""What can be read of a bond."""


@dataclass(frozen=True)
class MoleculeForm:
    """How molecules become graphs: the features of atoms and of bonds, as names of `ATOMS` and `BONDS`, side by side.

    A property with values is one-hot, the last of its columns for any other value; hydrogens are counted at the atoms
    that hold them and are no nodes, unless a SMILES says more of one, such as [2H].

    elements  the values of "element"
    """

    elements: tuple[str, ...] = ELEMENTS
    atoms: tuple[str, ...] = tuple(ATOMS)
    bonds: tuple[str, ...] = tuple(BONDS)

    def __post_init__(self) -> None:
        for what, given, known in (("atoms", self.atoms, ATOMS), ("bonds", self.bonds, BONDS)):
            unknown = [name for name in given if not isinstance(name, str) or name not in known]
            if unknown or len(set(given)) < len(given):
                raise UsageError(f"{what}={list(given)!r:.90} must be some of {', '.join(known)}, each once")
        good = all(isinstance(name, str) and 0 < len(name) <= 3 for name in self.elements)
        if not self.atoms or not good or not 0 < len(set(self.elements)) == len(self.elements):
            raise UsageError(f"elements={list(self.elements)!r:.90} must be symbols such as C and Cl, each once")

    @staticmethod
    def read(plain: Mapping[str, Any]) -> MoleculeForm:
        """From `plain`; UsageError for what is none."""
        fields = MoleculeForm.__dataclass_fields__
        if not plain.keys() <= fields.keys() or not all(isinstance(value, list | tuple) for value in plain.values()):
            raise UsageError(f"{dict(plain)!r:.90} must have lists of names under {', '.join(fields)}")
        return MoleculeForm(**{name: tuple(value) for name, value in plain.items()})

    def plain(self) -> dict[str, Any]:
        """As plain values."""
        return {name: list(getattr(self, name)) for name in self.__dataclass_fields__}

    def columns(self, kind: str) -> list[str]:
        """What stands in the columns of "atoms" or "bonds": "element C", ..., "element other", ..., "aromatic"."""
        groups = self._groups(kind)
        values = {name: (*group[0], "other") if group[0] else () for name, group in groups.items()}
        return [f"{name} {value}" if value else name for name in groups for value in values[name] or ("",)]

    def _groups(self, kind: str) -> dict[str, Group]:
        known = {**ATOMS, "element": (self.elements, ATOMS["element"][1])} if kind == "atoms" else BONDS
        return {name: known[name] for name in getattr(self, kind)}

    def table(self, kind: str, things: Sequence[Any]) -> Array:
        """float32 [things, columns] of RDKit's atoms or bonds."""
        groups = self._groups(kind).values()
        widths = [len(values) + 1 if values else 1 for values, _ in groups]
        found = np.zeros((len(things), sum(widths)), np.float32)
        for (values, read), width, end in zip(groups, widths, accumulate(widths), strict=True):
            if not values:
                found[:, end - 1] = [read(each) for each in things]
                continue
            place = {value: end - width + number for number, value in enumerate(values)}
            found[np.arange(len(things)), [place.get(read(each), end - 1) for each in things]] = 1
        return found

    def graph(self, smiles: str) -> GraphFolder:
        """The graph of a molecule: its atoms, named C0, O1, ... in the order of the SMILES; each bond once. DataError,
        saying why, for what is no SMILES of a molecule."""
        return self.of(parsed(smiles), smiles)

    def of(self, molecule: Any, called: str) -> GraphFolder:
        """The same of RDKit's molecule."""
        atoms, bonds = list(molecule.GetAtoms()), list(molecule.GetBonds())
        names = [f"{atom.GetSymbol()}{number}" for number, atom in enumerate(atoms)]
        ends = np.array([(b.GetBeginAtomIdx(), b.GetEndAtomIdx()) for b in bonds], np.int64).reshape(-1, 2)
        return GraphFolder(
            called, names, self.table("atoms", atoms), self.columns("atoms"), ends[:, 0].copy(), ends[:, 1].copy(),
            None, self.table("bonds", bonds),
        )  # fmt: skip


def parsed(smiles: str) -> Any:
    """RDKit's molecule. DataError, saying why, for what is no SMILES of a molecule; PackageError without RDKit."""
    chem, logs = rdkit()
    text = smiles.strip() if isinstance(smiles, str) else ""
    if not text or len(text) > MAX_LENGTH:
        raise DataError(f"{str(smiles)[:60]!r} is no SMILES: expected text of 1 to {MAX_LENGTH:,} letters, as in CCO")
    with logs():
        found = chem.MolFromSmiles(text)
        if found is None:
            raise DataError(f"{smiles[:60]!r} is no SMILES that RDKit reads: {_why(chem, text)}")
    if not found.GetNumAtoms():
        raise DataError(f"{smiles[:60]!r} has no atoms")
    return found


def _why(chem: Any, text: str) -> str:
    """What RDKit has against a SMILES."""
    rough = chem.MolFromSmiles(text, sanitize=False)
    if rough is None:
        return "its syntax is wrong"
    problems = [problem.Message() for problem in chem.DetectChemistryProblems(rough)]
    return "; ".join(problems[:2]) or "it stands for no molecule"


def rdkit() -> tuple[Any, Any]:
    """The module rdkit.Chem, and what silences RDKit's own messages within a `with`."""
    try:
        from rdkit import Chem, rdBase
    except ImportError as error:
        raise PackageError(f'molecules are read by RDKit: pip install "pdl-graph[molecules]" ({error})') from None
    return Chem, rdBase.BlockLogs


class SmilesInput(GraphArrays):
    """A molecule as SMILES -> one of the arrays of a net of whole graphs, by `part`: those of `graphs.Form`.

    An item is the text, or {"smiles": text}; {"graph": folder} is understood as by the step graph. `elements`, `atoms`
    and `bonds` are those of `MoleculeForm`.
    """

    name = "smiles"
    takes, metavar, about = "smiles", "SMILES", "a molecule as SMILES, or a file of them"

    def __init__(
        self,
        part: str,
        elements: Sequence[str] = ELEMENTS,
        atoms: Sequence[str] = tuple(ATOMS),
        bonds: Sequence[str] = tuple(BONDS),
        self_loops: bool = False,
    ) -> None:
        self.molecules = MoleculeForm.read({"elements": elements, "atoms": atoms, "bonds": bonds})
        features, attributes = (len(self.molecules.columns(kind)) for kind in ("atoms", "bonds"))
        super().__init__(part, Form(features, self_loops=flag("self_loops", self_loops), attributes=attributes))

    def graph(self, item: Any) -> GraphFolder:
        if isinstance(item, Mapping) and "graph" in item:
            return opened(item["graph"])
        text = _smiles_of(item) if isinstance(item, Mapping) else item
        if not isinstance(text, str):
            raise DataError(f"{item!r:.60} is no molecule; expected a SMILES such as 'CCO', or {{'smiles': 'CCO'}}")
        return self.molecules.graph(text.strip())

    def title(self, item: Any) -> str:
        """The SMILES, or the folder."""
        if not isinstance(item, Mapping):
            return str(item)
        return str(item["graph"] if "graph" in item else _smiles_of(item))

    def file(self, path: str | Path) -> Iterator[Input]:
        """The rows of a table *.csv or *.tsv with a column smiles; the lines of any other file, or of standard input
        ("-"), a SMILES each, with whatever follows it after white space; of a folder with edges.csv the graph."""
        if Path(path).is_dir():
            return iter([Input(str(path), {"graph": str(path)})])
        return (_row(path, name, each) for name, each in tables.text_lines(path, "smiles"))


def _row(path: str | Path, name: str, each: Any) -> Input:
    text = each.split()[0] if isinstance(each, str) else _smiles_of(each)
    if text is None:
        raise DataError(f"{path}:{name}: columns are {', '.join(each)[:90]}; expected smiles")
    return Input(text, {"smiles": text})


def _smiles_of(row: Mapping[str, Any]) -> Any:
    """What stands under "smiles", however its letters are."""
    return next((value for name, value in row.items() if str(name).strip().lower() == "smiles"), None)
