"""Data sets whose samples are whole graphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pdl.data import Dataset, Sample, digest
from pdl.errors import ConfigError
from pdl_graph.data.base import unwrap
from pdl_graph.graph import Graph
from pdl_graph.steps.molecules import MoleculeForm


class GraphSet(Dataset):
    """Graphs, each with a class or target numbers.

    graphs    the samples
    classes   names of the classes, where there are classes: `labels` int64 [G] numbers them
    names     names of the targets, where these are numbers: `targets` float32 [G, T]; NaN where one is not known
    smiles    of molecules, how each is written, and `molecules` how that became graphs
    """

    foldable = True
    graphs: Sequence[Graph] = ()
    names: Sequence[str] = ()
    targets: np.ndarray | None = None
    smiles: Sequence[str] = ()
    molecules: MoleculeForm | None = None

    def __len__(self) -> int:
        return len(self.graphs)

    def __getitem__(self, index: int) -> Sample:
        sample: dict[str, Any] = {"graph": self.graphs[index]}
        if self.labels is not None:
            sample["label"] = int(self.labels[index])
        if self.targets is not None:
            sample["target"] = self.targets[index]
        return sample

    @property
    def fingerprint(self) -> str:
        answers = self.labels if self.targets is None else self.targets
        sizes = np.array([(graph.num_nodes, graph.num_edges) for graph in self.graphs], np.int64)
        return digest(type(self).__name__, *self.classes, *self.names, sizes, b"" if answers is None else answers)


class Chosen:
    """A `GraphSet` without the samples that `pdl.data.Subset`s and `Few`s leave out."""

    def __init__(self, dataset: Any) -> None:
        base, rows = unwrap(dataset)
        if not isinstance(base, GraphSet):
            raise ConfigError(f"{type(base).__name__} gives no graphs; use a data set such as pdl_graph.data.TUGraphs")
        self.base, self.classes, self.names = base, list(base.classes), list(base.names)
        self.rows = np.arange(len(base)) if rows is None else rows
        self.graphs = [base.graphs[i] for i in self.rows.tolist()]
        self.labels = None if base.labels is None else base.labels[self.rows]
        self.targets = None if base.targets is None else base.targets[self.rows]
        self.molecules = base.molecules
        self.smiles = [base.smiles[i] for i in self.rows.tolist()] if base.molecules is not None else []

    def __len__(self) -> int:
        return len(self.graphs)
