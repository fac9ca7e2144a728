"""Graphs of users: a folder with nodes and edges as tables, or one that `Graph.save` wrote."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

from pdl.data import check_ratios, stratified_split
from pdl.data.dataset import StandIn
from pdl.data.faults import fault
from pdl.errors import ConfigError
from pdl.hints import Range
from pdl.runtime.arrays import read_array
from pdl_graph.data import standin
from pdl_graph.data.base import NodeData
from pdl_graph.data.columns import Table, find_table, numbered, places, read_table
from pdl_graph.data.npz import read_arrays
from pdl_graph.data.store import locate, naming, shared
from pdl_graph.features import features_from_csr, identity_features, normalize_rows
from pdl_graph.graph import Graph
from pdl_graph.steps.graph_folder import ENDS, NO_ATTRIBUTES, NO_FEATURES
from pdl_graph.storage import HEADER

FAR = 100  # a class with a number from here on is a name, unless there are many


class GraphFolder(NodeData):
    """The nodes of a graph in a folder of tables (.csv, .tsv, also .gz; .parquet with pyarrow):

        edges  source, target[, weight, type, and further numbers, which become edge_attr]: the names of nodes
        nodes  id[, label or labels, split, type, name, and further numbers, which are the features]; without the table
               the nodes are those that edges name, in that order

    features.npy (float [N, F]) or features.npz (a matrix that scipy.sparse.save_npz wrote) may hold the features
    instead. label is a class: text, or a whole number from 0 on (-1 is unknown; numbers with wide gaps are names);
    labels are several, parted by spaces; empty: unknown.
    A folder that `Graph.save` wrote is opened as memory maps, for graphs larger than memory.

    path       the folder; a relative one is also looked for under PDL_DATA and its folder graph
    split      a name in the column split (train, val, test, ...), or in `ratios`; None: all nodes with a label
    ratios     {train: 0.6, val: 0.2, test: 0.2} of the nodes with a label, drawn with `seed`, of each class the same
               share; instead of the column
    directed   False: a row stands for both directions; each pair counts once
    target     "class", or "number": labels are numbers to predict
    normalize  divide each row of features by its sum
    identity   nodes without features have rows of the identity matrix, so that a net learns something of each; it then
               answers for these nodes alone
    """

    def __init__(
        self,
        path: str | Path,
        split: str | None = None,
        *,
        ratios: Mapping[str, float] | None = None,
        seed: Annotated[int, Range(0)] = 0,
        directed: bool = False,
        target: Literal["class", "number"] = "class",
        normalize: bool = False,
        identity: bool = False,
    ) -> None:
        found = locate(path)
        how: dict[str, Any] = {"directed": directed, "target": target, "normalize": normalize, "identity": identity}
        graph = shared(found, ("folder", *how.values()), lambda: read_graph(found, **how))
        if ratios is None:
            super().__init__(graph, split, path=found)
            return
        super().__init__(graph, None, path=found)
        parts = check_ratios("GraphFolder", ratios)
        if split is not None and split not in parts:
            raise ConfigError(f"GraphFolder: split={split!r} is none of the ratios {', '.join(parts)}")
        if split is not None:
            labels = self.labels if self.labels is not None else np.zeros(len(self), np.int64)
            self.split, self.nodes = split, self.nodes[stratified_split(labels, parts, split, seed=seed)]

    @classmethod
    def stand_in(cls, folder: Path, settings: Mapping[str, Any]) -> StandIn:
        standin.write_folder(folder / "graph")
        return StandIn({"path": str(folder / "graph")}, standin.WHAT)


def read_graph(
    folder: Path,
    *,
    directed: bool = False,
    target: Literal["class", "number"] = "class",
    normalize: bool = False,
    identity: bool = False,
) -> Graph:
    """The graph of a folder; see `GraphFolder`. It needs no labels."""
    if (folder / HEADER).is_file():
        graph = Graph.open(folder)
    elif folder.is_dir():
        graph = _tables(folder, directed, target)
    else:
        raise fault(folder, "is no folder", "give the folder of nodes.csv and edges.csv")
    if graph.x is None:
        return graph.with_(x=identity_features(graph.num_nodes)) if identity else graph
    return graph.with_(x=normalize_rows(graph.x)) if normalize else graph


def _tables(folder: Path, directed: bool, target: str) -> Graph:
    edge_file, node_file = find_table(folder, "edges"), find_table(folder, "nodes")
    if edge_file is None:
        raise fault(folder, "has no edges.csv", "give it one, with the columns source and target")
    edges = read_table(edge_file)
    absent = [end for end in ENDS if end not in edges.columns]
    if absent:
        what = f"has no column {absent[0]!r}, only {', '.join(edges.columns)}"
        raise fault(edge_file, what, "name the columns source and target", line=1)
    ends = [numbered(edges, end) for end in ENDS]
    nodes = None if node_file is None else read_table(node_file)
    names = _first_seen(*ends) if nodes is None else _ids(nodes)
    if not len(names):
        raise fault(edge_file, "names no node", "give it edges, or the folder a nodes.csv")
    joined = _numbers(edges, names, ends, node_file)
    about = {} if nodes is None else _about_nodes(nodes, target)
    x = _feature_file(folder, len(names))
    if x is not None:
        about["x"] = x
    with naming(folder):
        graph = Graph.from_edges(
            joined[0], joined[1], len(names), directed=directed, names=names, **about, **_about_edges(edges)
        )
    return graph if directed else graph.coalesce("first")


def _first_seen(source: np.ndarray, target: np.ndarray) -> np.ndarray:
    both = np.stack([source, target], 1).ravel()
    _, first = np.unique(both, return_index=True)
    return both[np.sort(first)]


def _ids(nodes: Table) -> np.ndarray:
    if "id" not in nodes.columns:
        what = f"has no column 'id', only {', '.join(nodes.columns)}"
        raise fault(nodes.path, what, "name the column of the nodes' names id", line=1)
    names = numbered(nodes, "id")
    _, first, counts = np.unique(names, return_index=True, return_counts=True)
    if (counts > 1).any():
        name = names[first[counts > 1].min()]
        row = int(np.flatnonzero(names == name)[1])
        raise nodes.fault(row, f"node {str(name)!r} stands here twice", "keep one of them")
    return names


def _numbers(edges: Table, names: np.ndarray, ends: list[np.ndarray], node_file: Path | None) -> np.ndarray:
    """The numbers of the nodes at both ends, int64 [2, E]."""
    found = np.stack([places(names, end) for end in ends])
    bad = np.flatnonzero((found < 0).any(0))
    if len(bad):
        row = int(bad[0])
        name = ends[int(found[0, row] >= 0)][row]
        more = f" ({len(bad)} such rows)" if len(bad) > 1 else ""
        where = node_file.name if node_file else "nodes.csv"
        raise edges.fault(row, f"node {str(name)!r} is not in {where}{more}", "add it there, or leave the edge out")
    return found


# -- what is known of nodes and edges ----------------------------------------------------------------------------------
def _about_nodes(nodes: Table, target: str) -> dict[str, Any]:
    about: dict[str, Any] = {}
    columns = [name for name in nodes.columns if name not in NO_FEATURES]
    if columns:
        about["x"] = np.stack([nodes.numbers(name) for name in columns], 1)
    if "labels" in nodes.columns:
        about["y"], about["classes"] = _several(nodes)
    elif "label" in nodes.columns:
        about["y"], about["classes"] = _label_numbers(nodes) if target == "number" else _labels(nodes.text("label"))
    if "split" in nodes.columns:
        splits = np.array(nodes.text("split"), str)
        about["masks"] = {name: splits == name for name in dict.fromkeys(splits.tolist()) if name}
    if "type" in nodes.columns:
        about["node_type"] = _labels(nodes.text("type"))[0]
    return about


def _about_edges(edges: Table) -> dict[str, Any]:
    about: dict[str, Any] = {}
    if "weight" in edges.columns:
        about["edge_weight"] = edges.numbers("weight", "a weight")
    if "type" in edges.columns:
        about["edge_type"] = _labels(edges.text("type"))[0]
    columns = [name for name in edges.columns if name not in NO_ATTRIBUTES]
    if columns:
        about["edge_attr"] = np.stack([edges.numbers(name, "an attribute of edges") for name in columns], 1)
    return about


def _labels(text: list[str]) -> tuple[np.ndarray, list[str]]:
    """(classes by number, -1 where empty; their names): whole numbers keep their value, names are sorted. Years and the
    like are names: there would be a class for every number below."""
    names = sorted({each for each in text if each})
    if all(_whole(each) for each in names if each != "-1"):
        names = sorted((each for each in names if each != "-1"), key=int)
        text = ["" if each == "-1" else each for each in text]
        if not names or int(names[-1]) < max(FAR, 10 * len(names)):
            return np.array([int(each) if each else -1 for each in text], np.int64), []
    number = {"": -1, **{name: i for i, name in enumerate(names)}}
    return np.array([number[each] for each in text], np.int64), names


def _whole(text: str) -> bool:
    return text.isascii() and text.isdigit() and (text == "0" or text[0] != "0")


def _several(nodes: Table) -> tuple[np.ndarray, list[str]]:
    held = [each.split() for each in nodes.text("labels")]
    names = sorted({name for each in held for name in each}, key=lambda name: (not name.isdigit(), len(name), name))
    number = {name: i for i, name in enumerate(names)}
    y = np.zeros((len(held), len(names)), bool)
    for row, each in enumerate(held):
        y[row, [number[name] for name in each]] = True
    return y, names


def _label_numbers(nodes: Table) -> tuple[np.ndarray, list[str]]:
    text = nodes.text("label")
    y = np.full((len(text), 1), np.nan, np.float32)
    rows = np.flatnonzero([each != "" for each in text])
    lines = [nodes.lines[row] for row in rows.tolist()] if len(nodes.lines) else ()
    y[rows, 0] = Table(nodes.path, {"label": [text[row] for row in rows]}, lines).numbers("label", "a target")
    return y, []


def _feature_file(folder: Path, nodes: int) -> Any:
    """What features.npy or features.npz holds, or None."""
    plain, sparse = folder / "features.npy", folder / "features.npz"
    if sparse.is_file():
        held = read_arrays(sparse, {"format": "SU", "shape": "iu", "indptr": "iu", "indices": "iu", "data": "fiub"})
        if str(held["format"].item()).strip("b'") != "csr":
            raise fault(sparse, f"is stored by {held['format'].item()!r}", "save matrix.tocsr()")
        rows, width = held["shape"].tolist()
        if rows != nodes:
            raise fault(sparse, f"has {rows} rows for {nodes} nodes", "give each node one row")
        _check_finite(sparse, held["data"])
        return features_from_csr(held["indptr"], held["indices"], held["data"], width, path=sparse)
    if not plain.is_file():
        return None
    try:
        x = read_array(plain)
    except (ValueError, OSError) as error:
        raise fault(plain, f"is no array of numbers: {error}", "save it again (numpy.save)") from error
    if x.ndim != 2 or len(x) != nodes or x.dtype.kind not in "fiub":
        raise fault(plain, f"holds {x.dtype} {x.shape}", f"give numbers [{nodes}, F], a row for each node")
    _check_finite(plain, x)
    return x


def _check_finite(path: Path, values: np.ndarray) -> None:
    bad = np.argwhere(~np.isfinite(values))
    if len(bad):
        row = int(bad[0][0])
        raise fault(path, f"has {len(bad)} numbers that are not finite", "give finite features", index=row)
