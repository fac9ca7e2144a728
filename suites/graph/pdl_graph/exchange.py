"""Graphs to and from networkx and scipy, which are needed only here."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.data.faults import fault
from pdl.errors import UsageError
from pdl_graph.features import dense
from pdl_graph.structure import EDGE

if TYPE_CHECKING:
    from pdl_graph.graph import Graph

Array = np.ndarray


def optional(name: str, what: str) -> Any:
    """A package that users may leave out. UsageError that says how to get it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        raise UsageError(f"{what} needs {package}, which is not installed: pip install {package}") from error


# -- scipy -------------------------------------------------------------------------------------------------------------
def from_scipy(make: type[Graph], adjacency: Any, *, directed: bool, **about: Any) -> Graph:
    """See `Graph.from_scipy`."""
    if not hasattr(adjacency, "tocoo"):
        kind = type(adjacency).__name__
        raise UsageError(f"Graph.from_scipy takes a scipy.sparse matrix, not {kind}; scipy.sparse.csr_matrix makes one")
    matrix = adjacency.tocoo()
    if matrix.shape[0] != matrix.shape[1]:
        raise fault(None, f"the adjacency has shape {matrix.shape}", "give a square matrix, a row for each node")
    weighted = about.pop("weighted", None)
    source, target, value = (np.asarray(each) for each in (matrix.row, matrix.col, matrix.data))
    if weighted is None:
        weighted = bool((value != 1).any())
    if weighted:
        about["edge_weight"] = value.astype(np.float32)
    if not directed:
        _check_symmetric(matrix)
        keep, edge = source <= target, {k: np.asarray(v) for k, v in about.items() if k in EDGE and v is not None}
        if wrong := [k for k, v in edge.items() if len(v) != len(keep)]:
            what = f"{wrong[0]} has {len(edge[wrong[0]])} rows for {len(keep)} entries of the adjacency"
            raise fault(None, what, "give each entry one row")
        source, target = source[keep], target[keep]
        about |= {k: v[keep] for k, v in edge.items()}
    return make.from_edges(source, target, matrix.shape[0], directed=directed, **about)


def _check_symmetric(matrix: Any) -> None:
    apart = (matrix.tocsr() - matrix.T.tocsr()).tocoo()
    bad = np.flatnonzero(apart.data)
    if len(bad):
        i, j = int(apart.row[bad[0]]), int(apart.col[bad[0]])
        what = f"the adjacency is not symmetric: entry [{i}, {j}] is not entry [{j}, {i}]"
        raise fault(None, what, "say directed=True, or give both directions")


def to_scipy(graph: Graph) -> Any:
    """See `Graph.to_scipy`."""
    sparse = optional("scipy.sparse", "Graph.to_scipy")
    value = np.ones(graph.num_edges, np.float32) if graph.edge_weight is None else graph.edge_weight
    shape = (graph.num_nodes, graph.num_nodes)
    return sparse.csc_matrix((value, graph.indices, graph.indptr), shape).tocsr()


# -- networkx ----------------------------------------------------------------------------------------------------------
def to_networkx(graph: Graph) -> Any:
    """See `Graph.to_networkx`."""
    nx = optional("networkx", "Graph.to_networkx")
    edges = graph.once()
    source, target = graph.indices[edges], graph.targets[edges]
    repeated = len(np.unique(target.astype(np.int64) << 32 | source)) < len(edges)
    kind = {(True, False): nx.DiGraph, (True, True): nx.MultiDiGraph, (False, False): nx.Graph}
    made = kind.get((graph.directed, repeated), nx.MultiGraph)()
    names = [_plain(name) for name in graph.names] if len(graph.names) else list(range(graph.num_nodes))
    about = _rows({"x": dense(graph.x), "y": graph.y, "type": graph.node_type}, graph.num_nodes)
    made.add_nodes_from(zip(names, about, strict=True))
    held = {"weight": graph.edge_weight, "attr": graph.edge_attr, "type": graph.edge_type}
    values = _rows({k: None if v is None else v[edges] for k, v in held.items()}, len(edges))
    ends = zip(source.tolist(), target.tolist(), values, strict=True)
    made.add_edges_from((names[i], names[j], value) for i, j, value in ends)
    return made


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _rows(columns: dict[str, Array | None], n: int) -> list[dict[str, Any]]:
    held = {name: values.tolist() for name, values in columns.items() if values is not None}
    return [{name: values[i] for name, values in held.items()} for i in range(n)]


def from_networkx(
    make: type[Graph],
    graph: Any,
    *,
    weight: str | None,
    features: Sequence[str],
    label: str | None,
    edge_features: Sequence[str],
) -> Graph:
    """See `Graph.from_networkx`."""
    if not hasattr(graph, "nodes"):
        raise UsageError(f"Graph.from_networkx takes a networkx graph, not {type(graph).__name__}")
    names = list(graph.nodes)
    number = {name: i for i, name in enumerate(names)}
    nodes, edges = [graph.nodes[name] for name in names], list(graph.edges(data=True))
    source, target = (np.array([number[edge[end]] for edge in edges], np.int64) for end in (0, 1))
    about: dict[str, Any] = {"names": () if names == list(range(len(names))) else tuple(names)}
    if features:
        about["x"] = _matrix(nodes, features, names, "node")
    if label is not None:
        about["y"], about["classes"] = _labels([node.get(label) for node in nodes])
    pairs = [(one, other) for one, other, _ in edges]
    values = [value for *_, value in edges]
    if weight is not None and any(weight in value for value in values):
        about["edge_weight"] = _matrix(values, [weight], pairs, "edge")[:, 0]
    if edge_features:
        about["edge_attr"] = _matrix(values, edge_features, pairs, "edge")
    return make.from_edges(source, target, len(names), directed=graph.is_directed(), **about)


def _matrix(rows: list[dict[str, Any]], wanted: Sequence[str], names: list[Any], thing: str) -> Array:
    """float32 [rows, columns]: numbers, or rows of numbers, side by side."""
    columns = []
    for each in wanted:
        try:
            columns.append(np.array([row[each] for row in rows], np.float32).reshape(len(rows), -1))
        except KeyError:
            lacks = next(name for row, name in zip(rows, names, strict=True) if each not in row)
            raise fault(None, f"{thing} {lacks!r} has no attribute {each!r}", f"give it to every {thing}") from None
        except (ValueError, TypeError) as error:
            raise fault(None, f"attribute {each!r} of {thing}s is no number: {error}", "give numbers") from error
    return np.concatenate(columns, 1)


def _labels(values: list[Any]) -> tuple[Array, tuple[str, ...]]:
    """Classes of nodes, -1 for None, and their names where labels are text; numbers, NaN for None, where any has a
    point."""
    if any(isinstance(value, str) for value in values):
        classes = sorted({str(value) for value in values if value is not None})
        number = {name: i for i, name in enumerate(classes)}
        return np.array([-1 if v is None else number[str(v)] for v in values]), tuple(classes)
    if any(isinstance(value, float | np.floating) for value in values):
        return np.array([np.nan if value is None else value for value in values], np.float32), ()
    return np.array([-1 if value is None else value for value in values], np.int64), ()
