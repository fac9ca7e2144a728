"""Molecules as SMILES, with numbers measured of them; ESOL and BBBP ship with pdl-graph."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import numpy as np

from pdl.data import Dataset, StandIn, digest
from pdl.data.dataset import Dealing
from pdl.data.faults import fault
from pdl.errors import ConfigError, DataError, UsageError
from pdl.hints import Range
from pdl.runtime import tables
from pdl_graph.data.graphs import GraphSet
from pdl_graph.data.scaffold import random_split, scaffold_of, scaffold_split
from pdl_graph.data.store import locate, shared
from pdl_graph.graph import Graph
from pdl_graph.steps.molecules import MoleculeForm, parsed, rdkit

Name = Literal["ESOL", "FreeSolv", "Lipophilicity", "BBBP"]
Split = Literal["train", "val", "test"]
SPLITS: tuple[Split, ...] = get_args(Split)
COLUMNS = ("graphs", "smiles", "scaffolds", "rows")  # of a molecule, with its targets
UNKNOWN = ("", "nan", "na")


@dataclass(frozen=True)
class Known:
    """A data set of MoleculeNet (Wu et al., arXiv 1703.00564): its file, and the columns that are learned."""

    file: str
    targets: tuple[str, ...]


KNOWN: Mapping[str, Known] = {
    "ESOL": Known("delaney-processed.csv", ("measured log solubility in mols per litre",)),
    "FreeSolv": Known("SAMPL.csv", ("expt",)),
    "Lipophilicity": Known("Lipophilicity.csv", ("exp",)),
    "BBBP": Known("BBBP.csv", ("BBBP",)),
}


@dataclass(frozen=True)
class Read:
    """What a file holds: SMILES, graphs, targets float32 [N, T] and scaffolds; the lines left out, and why."""

    smiles: Sequence[str]
    graphs: Sequence[Graph]
    targets: np.ndarray
    scaffolds: Sequence[str]
    left_out: Sequence[str]


class Molecules(GraphSet):
    """Molecules and numbers known of them, in the rows of a table with a header.

    name        ESOL (1,128 molecules: logarithm of the solubility in water, mol/l), FreeSolv (642: free energy of
                hydration, kcal/mol), Lipophilicity (4,200: log D at pH 7.4), BBBP (2,039: whether one passes the
                blood-brain barrier); ESOL and BBBP ship with pdl-graph. None: the file at `path`
    split       train, val or test; None: all
    splitting   "scaffold" (`pdl_graph.data.scaffold.scaffold_split`): the test has other ring systems than the
                training, and is harder; or "random". 80, 10 and 10 %
    seed        of the random split
    path        a file *.csv or *.tsv, also with .gz
    smiles      the column with the SMILES
    targets     the columns to learn. A cell that is empty or nan is not known; rows where none is known are left out
    unreadable  SMILES that RDKit does not read: "fault" stops and names the first of them, "skip" leaves them out
    elements, atoms, bonds  what is read of atoms and bonds: see `pdl_graph.steps.molecules.MoleculeForm`

    Needs RDKit: pip install "pdl-graph[molecules]". PackageError without it; DataError with the line for what is wrong.
    """

    def __init__(
        self,
        name: Name | None = None,
        split: Split | None = None,
        *,
        splitting: Literal["scaffold", "random"] = "scaffold",
        seed: Annotated[int, Range(0)] = 0,
        path: str | Path | None = None,
        smiles: str = "smiles",
        targets: Sequence[str] | None = None,
        unreadable: Literal["fault", "skip"] = "fault",
        elements: Sequence[str] | None = None,
        atoms: Sequence[str] | None = None,
        bonds: Sequence[str] | None = None,
    ) -> None:
        rdkit()
        given = {"elements": elements, "atoms": atoms, "bonds": bonds}
        form = MoleculeForm.read({key: value for key, value in given.items() if value is not None})
        self.path, self.names = _place(name, path), _targets(name, targets)
        about = ("molecules", form, smiles, tuple(self.names), unreadable)
        self.held = shared(self.path, about, lambda: _read(self.path, smiles, self.names, form, unreadable))
        self.molecules = form
        rows = np.arange(len(self.held.graphs))
        if split is not None:
            parts = scaffold_split(self.held.scaffolds) if splitting == "scaffold" else random_split(len(rows), seed)
            rows = np.flatnonzero(parts == SPLITS.index(split))
        self.rows, self.targets = rows, self.held.targets[rows]
        self.graphs = [self.held.graphs[i] for i in rows.tolist()]
        self.smiles = [self.held.smiles[i] for i in rows.tolist()]
        self.scaffolds = [self.held.scaffolds[i] for i in rows.tolist()]
        self.split, self.splitting = split, splitting

    # -- folds ---------------------------------------------------------------------------------------------------------
    def dealing(self, by: str | None = None) -> Dealing:
        """As `splitting` says: at random, or those of one scaffold together."""
        if self.splitting == "random":
            return Dealing("cut at random")
        groups = np.unique(self.scaffolds, return_inverse=True)[1].reshape(-1)
        return Dealing(f"those of one of its {groups.max() + 1:,} scaffolds together", groups=groups)

    @classmethod
    def pooled(cls, datasets: Sequence[Any]) -> Dataset:
        """The molecules of all of them; they must have the same targets, and be read in the same way."""
        first = datasets[0]
        if any((each.names, each.molecules) != (first.names, first.molecules) for each in datasets):
            raise UsageError("the splits of the recipe differ in targets, or in what is read of atoms and bonds")
        if len({(each.split, each.path) for each in datasets}) < len(datasets):
            raise UsageError(f"two splits of the recipe are the same molecules of {first.path}")
        columns = [[one for each in datasets for one in getattr(each, name)] for name in COLUMNS]
        made: Dataset = first._with(columns, np.concatenate([each.targets for each in datasets]))
        return made

    def dealt(self, rows: np.ndarray, before: np.ndarray) -> Dataset:
        """These molecules as a data set of their own."""
        assert self.targets is not None
        columns = [[getattr(self, name)[i] for i in rows.tolist()] for name in COLUMNS]
        return self._with(columns, self.targets[rows])

    def _with(self, columns: Sequence[Sequence[Any]], targets: np.ndarray) -> Molecules:
        """This data set with other molecules."""
        made = copy.copy(self)
        made.graphs, made.smiles, made.scaffolds, made.rows = columns  # type: ignore[assignment]
        made.targets = targets
        return made

    def path_of(self, index: int) -> str:
        return str(self.path)

    @property
    def fingerprint(self) -> str:
        assert self.targets is not None
        return digest(type(self).__name__, repr(self.molecules), *self.names, *self.smiles, self.targets)

    @classmethod
    def stand_in(cls, folder: Path, settings: Mapping[str, Any]) -> StandIn:
        """Molecules of ESOL, with their solubility for every target."""
        esol = KNOWN["ESOL"]
        own = _targets(settings.get("name"), settings.get("targets"))
        column = settings.get("smiles", "smiles")
        rows = [row for _, row in tables.rows(_shipped(esol))]
        file = folder / "molecules.csv"
        lines = [",".join([row["smiles"].strip(), *[row[esol.targets[0]]] * len(own)]) for row in rows[::3]]
        file.write_text("\n".join([",".join([column, *own]), *lines, ""]), "utf-8")
        what = f"{len(lines)} molecules of ESOL"
        return StandIn({"name": None, "path": str(file), "targets": own, "smiles": column}, what)


def _targets(name: str | None, given: Sequence[str] | None) -> list[str]:
    """The columns to learn."""
    found = list(given or (KNOWN[name].targets if name is not None and name in KNOWN else ()))
    if not found or len(set(found)) < len(found):
        raise ConfigError(f"Molecules: targets={found} must name the columns to learn, each once, as in [solubility]")
    return found


def _shipped(known: Known) -> Path:
    return Path(str(resources.files("pdl_graph.data") / "files" / f"{known.file}.gz"))


def _place(name: str | None, path: str | Path | None) -> Path:
    if path is not None:
        return locate(path)
    if name is None:
        raise ConfigError(f"Molecules: give path, a table with SMILES, or name, one of {', '.join(KNOWN)}")
    known = KNOWN[name]
    own = _shipped(known)
    return own if own.is_file() else locate(Path("chem") / known.file, f"graph/{name.lower()}", also=(known.file,))


def _read(path: Path, column: str, targets: Sequence[str], form: MoleculeForm, unreadable: str) -> Read:
    smiles: list[str] = []
    graphs: list[Graph] = []
    values: list[list[float]] = []
    scaffolds: list[str] = []
    left_out: list[str] = []
    for line, row in tables.rows(path):
        if column not in row or not set(targets) <= row.keys():
            what = f"columns are {', '.join(row)[:200]}; expected {', '.join([column, *targets])}"
            raise fault(path, what, "correct smiles and targets of the recipe, or the header", line=1)
        values_of = [_number(path, int(line), name, row[name]) for name in targets]
        if all(map(math.isnan, values_of)):
            left_out.append(f"{line}: no target is known")
            continue
        text = row[column].strip()
        try:
            molecule = parsed(text)
        except DataError as error:
            if unreadable == "fault":
                advice = "correct it, or say unreadable: skip to leave such rows out"
                raise fault(path, str(error), advice, line=int(line)) from None
            left_out.append(f"{line}: {error}")
            continue
        smiles.append(text)
        graphs.append(_graph(form, molecule, text))
        values.append(values_of)
        scaffolds.append(scaffold_of(molecule))
    if not graphs:
        raise fault(path, "no molecules", "expected a header, and a row for each molecule")
    return Read(smiles, graphs, np.array(values, np.float32), scaffolds, left_out)


def _graph(form: MoleculeForm, molecule: Any, smiles: str) -> Graph:
    found = form.of(molecule, smiles)
    ends = np.asarray(found.source), np.asarray(found.target)
    return Graph.from_edges(*ends, len(found.names), directed=False, x=found.features, edge_attr=found.attributes)


def _number(path: Path, line: int, name: str, text: str) -> float:
    if text.strip().lower() in UNKNOWN:
        return math.nan
    try:
        value = float(text)
    except ValueError:
        value = math.inf
    if not math.isfinite(value):
        raise fault(path, f"{name} is {text!r}; a target is a number, or empty where it is not known",
                    "correct it", line=line)  # fmt: skip
    return value
