"""The citation graphs of Planetoid (Yang et al., arXiv 1603.08861): Cora, Citeseer, Pubmed."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from pdl.data.dataset import StandIn
from pdl.data.faults import fault
from pdl_graph.batch import SparseFeatures
from pdl_graph.data import standin
from pdl_graph.data.base import NodeData
from pdl_graph.data.npz import read_arrays
from pdl_graph.data.store import locate, naming, shared
from pdl_graph.features import features_from_csr, normalize_rows
from pdl_graph.graph import Graph

CLASSES: dict[str, tuple[str, ...]] = {
    "cora": (
        "Theory", "Reinforcement learning", "Genetic algorithms", "Neural networks", "Probabilistic methods",
        "Case based", "Rule learning",
    ),
    "citeseer": ("AI", "ML", "IR", "DB", "Agents", "HCI"),
    "pubmed": ("Diabetes, experimental", "Diabetes type 1", "Diabetes type 2"),
}  # fmt: skip
RELATIONS = ("cites", "has word", "word of")
_INTEGER = dict.fromkeys(("x_indices", "x_indptr", "x_shape", "y", "edges", "train_idx", "val_idx", "test_idx"), "iu")


class Planetoid(NodeData):
    """Nodes of a citation graph: papers, by the field they belong to; edges are citations, in both directions.

    name       cora (2,708 papers), citeseer (3,327) or pubmed (19,717)
    split      train (20 of each class), val (500), test (1,000): the public split; None: all
    path       of NAME.npz with the arrays x_data, x_indices, x_indptr, x_shape (words of papers, by rows), y,
               edges [E, 2] (each once), train_idx, val_idx, test_idx; by default looked for under PDL_DATA and its
               folder graph
    normalize  divide each row of features by its sum, as Kipf and Welling do
    words      "features" of papers; or "nodes" of a second type, joined with the papers they stand in: no node has
               features then, edges have the types `RELATIONS`, and papers are called 0, 1, ..., words word0, word1, ...
    """

    def __init__(
        self,
        name: Literal["cora", "citeseer", "pubmed"] = "cora",
        split: Literal["train", "val", "test"] | None = None,
        *,
        path: str | Path | None = None,
        normalize: bool = False,
        words: Literal["features", "nodes"] = "features",
    ) -> None:
        found = locate(path if path is not None else f"{name}.npz", f"graph/{name}")
        graph = shared(found, ("planetoid", name, normalize), lambda: _read(found, name, normalize))
        if words == "nodes":
            graph = shared(found, ("planetoid", name, normalize, words), partial(with_words, graph))
        super().__init__(graph, split, path=found)

    @classmethod
    def stand_in(cls, folder: Path, settings: Mapping[str, Any]) -> StandIn:
        file = folder / f"{settings.get('name', 'cora')}.npz"
        standin.write_planetoid(file, len(CLASSES[settings.get("name", "cora")]))
        return StandIn({"path": str(file)}, standin.WHAT)


def with_words(graph: Graph) -> Graph:
    """A graph of papers as one of papers and words: node types 0 and 1, edges of the types `RELATIONS`."""
    x = graph.x
    assert isinstance(x, SparseFeatures)
    n, width = x.shape
    source, target = graph.edges()
    paper, word = x.pattern.row.astype(np.int64), x.pattern.indices.astype(np.int64) + n
    joined = {"cites": (source, target), "has word": (paper, word), "word of": (word, paper)}
    kind = np.repeat(np.arange(len(RELATIONS)), [len(joined[name][0]) for name in RELATIONS])
    ends = [np.concatenate([joined[name][end] for name in RELATIONS]) for end in (0, 1)]
    about: dict[str, Any] = {
        "y": np.concatenate([np.asarray(graph.y), np.full(width, -1)]),
        "node_type": np.repeat([0, 1], [n, width]),
        "masks": {split: np.concatenate([mask, np.zeros(width, bool)]) for split, mask in graph.masks.items()},
        "names": [*map(str, range(n)), *(f"word{i}" for i in range(width))],
        "classes": graph.classes,
    }
    return Graph.from_edges(ends[0], ends[1], n + width, edge_type=kind, **about)


def _read(path: Path, name: str, normalize: bool) -> Graph:
    held = read_arrays(path, {"x_data": "fiu", **_INTEGER})
    rows, width = (int(n) for n in held["x_shape"])
    n = len(held["y"])
    if rows != n:
        raise fault(path, f"features of {rows} nodes, labels of {n}", "give each node one row and one label")
    x = features_from_csr(held["x_indptr"], held["x_indices"], held["x_data"], width, path=path)
    edges = held["edges"]
    if edges.ndim != 2 or edges.shape[1] != 2:
        raise fault(path, f"edges have shape {edges.shape}", "give one row of two nodes for each edge")
    masks = {split: _mask(path, held[f"{split}_idx"], n, split) for split in ("train", "val", "test")}
    x = normalize_rows(x) if normalize else x
    about: dict[str, Any] = {"x": x, "y": held["y"], "masks": masks, "classes": CLASSES[name]}
    with naming(path):
        return Graph.from_edges(edges[:, 0], edges[:, 1], n, directed=False, **about)


def _mask(path: Path, ids: np.ndarray, n: int, split: str) -> np.ndarray:
    if len(ids) and (ids.min() < 0 or ids.max() >= n):
        raise fault(path, f"{split}_idx names node {ids.max()} of {n}", "correct the split")
    mask = np.zeros(n, bool)
    mask[ids] = True
    return mask
