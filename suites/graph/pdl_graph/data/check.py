"""Look data of graph tasks over before training: labels, features, splits, edges, what leaks.

`check_graph`, `check_nodes` and `check_pairs` return faults; `notes` counts what is worth knowing. Tasks call them from
`Task.check` (`check_recipe` does it for tasks on nodes).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations

import numpy as np

from pdl.data.checks import Progress, Source, open_all
from pdl.data.faults import Fault
from pdl.train import Recipe
from pdl_graph.batch import SparseFeatures
from pdl_graph.data.base import GraphData, NodeData, known, unwrap
from pdl_graph.graph import Graph

Finding = tuple[str, str, bool]
"""(what, advice, whether it is an error and no warning)."""


def check_recipe(recipe: Recipe, progress: Progress | None = None) -> list[Fault]:
    """The faults of a recipe with data sets of nodes: those of its graphs, of each split, and between splits."""
    return check_nodes({split: part.build for split, part in recipe.data.splits.items()}, progress=progress)


def check_nodes(datasets: Mapping[str, Source], *, progress: Progress | None = None) -> list[Fault]:
    """What is wrong with data sets of nodes, by split: a list, empty where all is well.

    of the graph    see `check_graph`; told once for a graph that splits share
    in a split      no nodes, nodes without a label, classes that training lacks, features of another width
    between splits  the same node in two of them; graphs with other edges under the same nodes
    """
    faults: list[Fault] = []
    opened = {split: unwrap(dataset)[0] for split, dataset in open_all(datasets, faults).items() if len(dataset)}
    seen: set[int] = set()
    for split, dataset in opened.items():
        if not isinstance(dataset, GraphData):
            what = f"{type(dataset).__name__} has no graph"
            faults.append(Fault(None, None, what, "use a data set of pdl_graph.data", split=split))
            continue
        if id(dataset.graph) not in seen:
            seen.add(id(dataset.graph))
            faults += check_graph(dataset.graph, path=dataset.path_of(0))
        if isinstance(dataset, NodeData):
            faults += _placed(dataset, split, _split(dataset))
        if progress is not None:
            progress(split, len(dataset), len(dataset))
    nodes = {split: dataset for split, dataset in opened.items() if isinstance(dataset, NodeData)}
    for first, second in combinations(nodes, 2):
        faults += _placed(nodes[second], second, _together(first, nodes[first], nodes[second]))
    return faults


def check_graph(graph: Graph, *, path: str | None = None) -> list[Fault]:
    """What is wrong with a graph: edges twice, one-way edges of an undirected one, features and weights that are no
    finite numbers, features that are the same for all nodes, negative weights; `notes` are warnings too."""
    return [
        Fault(path, None, what, advice, severity="error" if hard else "warning")
        for what, advice, hard in (*_edges(graph), *_numbers(graph), *_told(graph))
    ]


def notes(graph: Graph) -> list[str]:
    """What is worth knowing of a graph and is no fault: "48 of 3,327 nodes have no edges"."""
    about, n = graph.describe(), graph.num_nodes
    found = []
    if about["isolated nodes"]:
        found.append(f"{about['isolated nodes']:,} of {n:,} nodes have no edges")
    if about["self-loops"]:
        found.append(f"{about['self-loops']:,} edges go from a node to itself")
    if graph.y is not None and (unknown := int((~known(graph.y)).sum())):
        found.append(f"{unknown:,} of {n:,} nodes have no label")
    return found


def check_pairs(
    graph: Graph, pairs: np.ndarray, *, split: str, directed: bool | None = None, path: str | None = None
) -> list[Fault]:
    """Pairs of a split (int [P, 2]) that are edges of the graph that messages use: they would be known, not found.

    directed  whether the other direction of an edge counts as another one; by default as the graph says
    """
    pairs = np.asarray(pairs)
    outside = np.flatnonzero(((pairs < 0) | (pairs >= graph.num_nodes)).any(1))
    if len(outside):
        row = int(outside[0])
        what = f"pair {row} joins {pairs[row, 0]} and {pairs[row, 1]}, but the graph has {graph.num_nodes} nodes"
        return [Fault(path, row, what, "correct the pair", split=split)]
    keys = _keys(*graph.edges())
    found = np.isin(_keys(pairs[:, 0], pairs[:, 1]), keys)
    if not (graph.directed if directed is None else directed):
        found |= np.isin(_keys(pairs[:, 1], pairs[:, 0]), keys)
    rows = np.flatnonzero(found)
    if not len(rows):
        return []
    a, b = pairs[rows[0]].tolist()
    what = f"{len(rows)} of {len(pairs)} pairs are edges that messages use (first: {a}, {b})"
    return [Fault(path, int(rows[0]), what, "take them out of the graph, or the numbers are memory", split=split)]


def _keys(source: np.ndarray, target: np.ndarray) -> np.ndarray:
    made: np.ndarray = target.astype(np.int64) << 32 | source
    return made


def _placed(dataset: NodeData, split: str, findings: Iterator[Finding]) -> list[Fault]:
    return [Fault(dataset.path_of(0), None, what, advice, split=split, severity="error" if hard else "warning")
            for what, advice, hard in findings]  # fmt: skip


# -- the graph ---------------------------------------------------------------------------------------------------------
def _edges(graph: Graph) -> Iterator[Finding]:
    source, target = graph.edges()
    if not graph.num_edges:
        yield "the graph has no edges", "give it some, or use a model of rows of features", True
        return
    same = np.flatnonzero((np.diff(source) == 0) & (np.diff(target) == 0))
    if len(same) and graph.edge_type is None:
        a, b = int(source[same[0]]), int(target[same[0]])
        what = f"{len(same):,} edges are there more than once (first: {a} to {b}); they count as often"
        yield what, "keep one of each (Graph.coalesce), unless they are meant", False
    if not graph.directed:
        key = _keys(source, target)  # ascending, as edges are
        lone = np.flatnonzero(~np.isin(_keys(target, source), key))
        if len(lone):
            a, b = int(source[lone[0]]), int(target[lone[0]])
            what = f"{len(lone):,} edges of an undirected graph stand in one direction only (first: {a} to {b})"
            yield what, "give both directions (Graph.undirected), or say that it is directed", True


def _numbers(graph: Graph) -> Iterator[Finding]:
    value = graph.x.value if isinstance(graph.x, SparseFeatures) else graph.x
    if value is not None:
        bad = np.argwhere(~np.isfinite(value))
        if len(bad):
            at = int(bad[0][0])
            node = int(graph.x.pattern.row[at]) if isinstance(graph.x, SparseFeatures) else at
            yield f"{len(bad):,} features are no finite numbers (first: of node {node})", "fill or remove them", True
    if isinstance(graph.x, np.ndarray) and len(graph.x) > 1 and graph.x.shape[1]:
        constant = int((graph.x == graph.x[0]).all(0).sum())
        if constant:
            yield f"{constant:,} of {graph.num_features:,} features are the same for all nodes", "leave them out", False
    for name in ("edge_weight", "edge_attr"):
        held = getattr(graph, name)
        if held is not None and not np.isfinite(held).all():
            yield f"{name} has numbers that are not finite", "fill or remove them", True
    if graph.edge_weight is not None and (graph.edge_weight < 0).any():
        count = int((graph.edge_weight < 0).sum())
        yield f"{count:,} edges have negative weights, which normalised sums cannot take", "use other weights", False


def _told(graph: Graph) -> Iterator[Finding]:
    for note in notes(graph):
        yield note, "this is no fault, but worth knowing", False


# -- splits ------------------------------------------------------------------------------------------------------------
def _split(dataset: NodeData) -> Iterator[Finding]:
    y = dataset.y
    if y is None:
        yield "the nodes have no labels", "give labels, or use a task that needs none", True
        return
    without = dataset.nodes[~known(y)[dataset.nodes]]
    if len(without):
        what = f"{len(without):,} of {len(dataset):,} nodes have no label (first: {_name(dataset.graph, without[0])})"
        yield what, "label them, or take them out of the split", True
    count = len(dataset.classes)
    if y.ndim == 1 and y.dtype.kind in "iu" and count:
        held = y[dataset.nodes]
        if int(held.max(initial=-1)) >= count:
            yield f"label {held.max()} is beyond the {count} classes", "correct the label or the class list", True
            return
        absent = np.flatnonzero(np.bincount(held[held >= 0], minlength=count) == 0)
        if len(absent):
            names = ", ".join(dataset.classes[i] for i in absent[:5].tolist())
            what = f"{len(absent)} of {count} classes have no nodes: {names}"
            yield what, "add nodes, or take the class out", dataset.split == "train"


def _together(first: str, a: NodeData, b: NodeData) -> Iterator[Finding]:
    if a.graph.num_features != b.graph.num_features:
        what = f"{b.graph.num_features} features, {first} has {a.graph.num_features}"
        yield what, "give the nodes of all splits the same features", True
    if list(a.classes) != list(b.classes):
        what = f"{len(b.classes)} classes, {first} has {len(a.classes)}, or other names or another order"
        yield what, "give all splits one class list", True
    if a.graph is b.graph:
        both = np.intersect1d(a.nodes, b.nodes)
        if len(both):
            what = f"{len(both):,} of {len(b):,} nodes are in {first} too (first: {_name(a.graph, both[0])})"
            yield what, "take them out of one of the two, or the measured numbers are memory", True


def _name(graph: Graph, node: int) -> str:
    return str(graph.names[int(node)]) if len(graph.names) else str(int(node))


__all__ = ["check_graph", "check_nodes", "check_pairs", "check_recipe", "notes"]
