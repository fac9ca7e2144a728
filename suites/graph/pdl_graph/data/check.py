"""Checks of graphs before training: edges, features, weights. `notes` has remarks that are no faults."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pdl.data.faults import Fault
from pdl_graph.batch import SparseFeatures
from pdl_graph.data.base import known
from pdl_graph.graph import Graph

Finding = tuple[str, str, bool]
"""(what, advice, whether it is an error and no warning)."""


def check_graph(graph: Graph, *, path: str | None = None) -> list[Fault]:
    """Faults of a graph: edges twice, one-way edges of an undirected one, features and weights that are no
    finite numbers, features that are the same for all nodes, negative weights; `notes` are warnings too."""
    return [
        Fault(path, None, what, advice, severity="error" if hard else "warning")
        for what, advice, hard in (*_edges(graph), *_numbers(graph), *_noted(graph))
    ]


def notes(graph: Graph) -> list[str]:
    """Remarks on a graph that are no faults: "48 of 3,327 nodes have no edges"."""
    about, n = graph.describe(), graph.num_nodes
    found = []
    if about["isolated nodes"]:
        found.append(f"{about['isolated nodes']:,} of {n:,} nodes have no edges")
    if about["self-loops"]:
        found.append(f"{about['self-loops']:,} edges go from a node to itself")
    if graph.y is not None and (unknown := int((~known(graph.y)).sum())):
        found.append(f"{unknown:,} of {n:,} nodes have no label")
    return found


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


def _keys(source: np.ndarray, target: np.ndarray) -> np.ndarray:
    made: np.ndarray = target.astype(np.int64) << 32 | source
    return made


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


def _noted(graph: Graph) -> Iterator[Finding]:
    for note in notes(graph):
        yield note, "this is no fault, but worth knowing", False
