"""What data sets of one graph have in common: `GraphData`, and `NodeData` for tasks on its nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from pdl.data import Dataset, Subset, digest
from pdl.data.faults import fault
from pdl.errors import ConfigError
from pdl_graph.graph import Graph

LABELLED = "labelled"


class GraphData(Dataset):
    """A data set with one graph, which all its splits share (the same object); sample i is {"node": i}.

    graph   the whole graph
    path    the file or folder it was read from, if any
    split   which part of it this is, or None
    """

    unfoldable = "nodes and edges of one graph, which every split sees whole; draw splits with other seeds instead"
    graph: Graph
    path: Path | None = None
    split: str | None = None

    def __len__(self) -> int:
        return self.graph.num_nodes

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"node": np.int64(range(len(self))[index])}

    def get_batch(self, indices: np.ndarray) -> dict[str, np.ndarray]:
        """{"node": int64 [N]}."""
        return {"node": np.asarray(indices, np.int64)}

    @property
    def fingerprint(self) -> str:
        return digest(type(self).__name__, self.graph.fingerprint)

    def path_of(self, index: int) -> str | None:
        return None if self.path is None else str(self.path)


class NodeData(GraphData):
    """The nodes of one split of a graph; sample i is {"node": id, "label": class, or a row of classes or numbers}.

    graph  with labels `y`; its `masks` are the splits
    split  the name of a mask; None: all nodes whose label is known, or all nodes where there are no labels at all (then
           samples have none either)
    nodes  int64 [len], ascending: the ids of the split
    """

    def __init__(self, graph: Graph, split: str | None = None, *, path: str | Path | None = None) -> None:
        self.graph, self.split = graph, split
        self.path = None if path is None else Path(path)
        if split is not None and split not in graph.masks:
            have = ", ".join(graph.masks) or "none"
            raise ConfigError(f"{type(self).__name__}: split={split!r}, but the splits of the graph are: {have}")
        if graph.y is None and split is not None:
            raise fault(self.path, "the nodes have no labels", "give labels, or use a task that needs none")
        self.y = graph.y
        every = np.ones(graph.num_nodes, bool) if graph.y is None else known(graph.y)
        self.nodes = np.flatnonzero(every if split is None else graph.masks[split])
        self.classes = class_names(graph)

    def __len__(self) -> int:
        return len(self.nodes)

    def __getitem__(self, index: int) -> dict[str, Any]:
        node = self.nodes[index]
        return {"node": node} if self.y is None else {"node": node, "label": self.y[node]}

    def get_batch(self, indices: np.ndarray) -> dict[str, np.ndarray]:
        """{"node": int64 [N], "label": [N] or [N, K]}."""
        nodes = self.nodes[indices]
        return {"node": nodes} if self.y is None else {"node": nodes, "label": self.y[nodes]}

    @property
    def labels(self) -> np.ndarray | None:
        y = self.y
        return None if y is None or y.ndim != 1 or y.dtype.kind not in "iu" else y[self.nodes]

    @property
    def fingerprint(self) -> str:
        return digest(type(self).__name__, self.graph.fingerprint, self.nodes)


def known(y: np.ndarray) -> np.ndarray:
    """Which nodes have a label, bool [N]: class -1, and rows with a NaN, are none."""
    if y.dtype.kind == "f":
        return ~np.isnan(y).reshape(len(y), -1).any(1)
    return np.asarray(y >= 0) if y.ndim == 1 else np.ones(len(y), bool)


def class_names(graph: Graph) -> list[str]:
    """The names of the classes; where the graph has none, their numbers; nothing where labels are no classes."""
    if len(graph.classes) or graph.y is None or graph.y.dtype.kind == "f":
        return [str(name) for name in graph.classes]
    return [str(number) for number in range(graph.num_classes)]


def unwrap(dataset: Any) -> tuple[Any, np.ndarray | None]:
    """The data set under `pdl.data.Subset`s and `Few`s, and which of its samples they leave (None: all)."""
    rows = None
    while isinstance(dataset, Subset):
        rows = dataset.indices if rows is None else dataset.indices[rows]
        dataset = dataset.dataset
    return dataset, rows


def graph_of(dataset: Any) -> Graph:
    """The graph of a data set, seen through `pdl.data.Few` and `Subset`. ConfigError where it has none."""
    base, _ = unwrap(dataset)
    if not isinstance(getattr(base, "graph", None), Graph):
        raise ConfigError(f"{type(base).__name__} has no graph; use a data set such as pdl_graph.data.Planetoid")
    graph: Graph = base.graph
    return graph


def nodes_of(dataset: Any) -> np.ndarray:
    """The nodes of a data set of nodes, int64, seen through `pdl.data.Few` and `Subset`."""
    base, rows = unwrap(dataset)
    if not isinstance(base, NodeData):
        raise ConfigError(f"{type(base).__name__} gives no nodes; use a data set such as pdl_graph.data.Planetoid")
    return base.nodes if rows is None else base.nodes[rows]
