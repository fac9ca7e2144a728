"""Operations on edges: sort, induce subgraphs, reverse, merge, count, concatenate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from pdl.compressed import from_coo
from pdl.data.faults import fault
from pdl.errors import UsageError
from pdl.ops import CSR
from pdl_graph import analysis
from pdl_graph.batch import GraphBatch
from pdl_graph.features import stack_rows, take_rows
from pdl_graph.ranges import ranges

if TYPE_CHECKING:
    from pdl_graph.graph import Graph

Array = np.ndarray
Merge = Literal["sum", "mean", "max", "min", "first"]
EDGE = ("edge_weight", "edge_attr", "edge_type")
NODE = ("y", "node_type")
MOST = 2**31 - 1  # nodes, which int32 numbers
_SPARSE = 2**27  # nodes beyond a count that was not given are taken for a mistake from here on, where edges are few
_HALF = np.int64(2**32 - 1)


# -- order -------------------------------------------------------------------------------------------------------------
def by_target(source: Array, target: Array, n: int) -> tuple[Array, Array]:
    """(indptr int64 [n + 1], indices int32 [E]) of edges without attributes, sorted by target and then by source.

    One array of E numbers of 64 bits is sorted in place: 8 bytes an edge beyond the result.
    """
    key = target.astype(np.int64)
    key <<= 32
    key |= source
    key.sort()
    return by_key(key, n)


def by_key(key: Array, n: int) -> tuple[Array, Array]:
    """The same of edges as `target << 32 | source`, int64 [E] and sorted; the array is used up."""
    indptr = np.searchsorted(key, np.arange(n + 1, dtype=np.int64) << 32)
    key &= _HALF
    return indptr, key.astype(np.int32)


def check_ids(source: Array, target: Array, n: int | None = None) -> int:
    """The number of nodes, which without `n` is that of the largest id. DataFault unless these are two columns of whole
    numbers from 0 to n - 1."""
    if source.shape != target.shape or source.ndim != 1:
        what = f"edges need two columns of one length, got {source.shape} and {target.shape}"
        raise fault(None, what, "give source and target of each edge")
    if len(source) and not (source.dtype.kind in "iu" and target.dtype.kind in "iu"):
        raise fault(None, f"the ends of edges are {source.dtype} and {target.dtype}", "give whole numbers")
    largest = max(int(source.max()), int(target.max())) if len(source) else -1
    given, n = n is not None, largest + 1 if n is None else n
    if not isinstance(n, int | np.integer) or n < 0:
        raise UsageError(f"num_nodes={n!r} must be a number of nodes, or None")
    if n > MOST or (not given and n > max(_SPARSE, _SPARSE // 2**20 * len(source))):
        what = f"{len(source):,} edges with ids up to {largest:,}: every number below is a node, too"
        raise fault(None, what, f"number the nodes anew (numpy.unique, return_inverse=True); {MOST:,} nodes at most")
    if len(source) and (min(source.min(), target.min()) < 0 or largest >= n):
        bad = int(np.flatnonzero((source < 0) | (target < 0) | (source >= n) | (target >= n))[0])
        what = f"edge {bad} joins {source[bad]} and {target[bad]}, but the graph has {n} nodes, 0 to {n - 1}"
        raise fault(None, what, "give more nodes, or leave the edge out", index=bad)
    return int(n)


def check_lengths(graph: Graph) -> None:
    """DataFault unless every array has a row for each node, or each edge."""
    for names, count, thing in (((*NODE, "x"), graph.num_nodes, "nodes"), (EDGE, graph.num_edges, "edges")):
        for name in names:
            held = getattr(graph, name)
            if held is not None and held.shape[0] != count:
                what = f"{name} has {held.shape[0]} rows for {count} {thing}"
                raise fault(None, what, f"give {name} a row for each of the {thing}")
    for name, mask in graph.masks.items():
        if mask.shape != (graph.num_nodes,):
            what = f"the mask {name!r} has shape {mask.shape} for {graph.num_nodes} nodes"
            raise fault(None, what, "give one yes or no for each node")
    if len(graph.names) not in (0, graph.num_nodes):
        raise fault(None, f"{len(graph.names)} names for {graph.num_nodes} nodes", "name every node, or none")


# -- other graphs ------------------------------------------------------------------------------------------------------
def with_edges(graph: Graph, source: Array, target: Array, at: Array | None, **edge: Any) -> Graph:
    """The same nodes with other edges; `at` says which of the graph's edges each is (for its attributes)."""
    n = graph.num_nodes
    if at is not None:
        edge = {k: getattr(graph, k)[at] for k in EDGE if getattr(graph, k) is not None} | edge
    if edge:
        indptr, indices, order = from_coo(target, source, (n, n), ascending=True)
        edge = {k: v[order] for k, v in edge.items()}
    else:
        indptr, indices = by_target(source, target, n)
    return replace(graph, indptr=indptr, indices=indices, **{**dict.fromkeys(EDGE), **edge})


def reverse(graph: Graph) -> Graph:
    """Every edge the other way round."""
    if not graph.directed:
        return graph
    source, target = graph.edges()
    return with_edges(graph, target, source, np.arange(graph.num_edges))


def undirected(graph: Graph, merge: Merge) -> Graph:
    """With every edge in both directions, each pair once."""
    if not graph.directed:
        return graph
    source, target, at = both_ways(*graph.edges(), ordered=any(getattr(graph, name) is not None for name in EDGE))
    return replace(coalesce(with_edges(graph, source, target, at), merge), directed=False)


def both_ways(source: Array, target: Array, *, ordered: bool) -> tuple[Array, Array, Array]:
    """Edges in both directions, and which of the given each is. `ordered`: the two stand one behind the other, so that
    of several edges of a pair the same is the first in either direction."""
    back = np.flatnonzero(source != target)
    at = np.concatenate([np.arange(len(source)), back])
    if ordered:
        order = np.argsort(at, kind="stable")
        backward = order >= len(source)
        at = at[order]
        return np.where(backward, target[at], source[at]), np.where(backward, source[at], target[at]), at
    return np.concatenate([source, target[back]]), np.concatenate([target, source[back]]), at


def without_self_loops(graph: Graph) -> Graph:
    """Without the edges from a node to itself."""
    keep = np.flatnonzero(graph.indices != graph.targets)
    return graph if len(keep) == graph.num_edges else take_edges(graph, keep)


def with_self_loops(graph: Graph) -> Graph:
    """With an edge from every node to itself instead of those that are there."""
    source, target = graph.edges()
    keep, loops = np.flatnonzero(source != target), np.arange(graph.num_nodes)
    edge: dict[str, Any] = {}
    for name, fill in (("edge_weight", 1), ("edge_attr", 0), ("edge_type", 0)):
        if (held := getattr(graph, name)) is not None:
            edge[name] = np.concatenate([held[keep], np.full((len(loops), *held.shape[1:]), fill, held.dtype)])
    return with_edges(graph, np.concatenate([source[keep], loops]), np.concatenate([target[keep], loops]), None, **edge)


def take_edges(graph: Graph, edges: Any) -> Graph:
    """The same nodes with some of the edges."""
    edges = np.unique(_ids("with_edges", edges, graph.num_edges))
    if len(edges) and (edges[0] < 0 or edges[-1] >= graph.num_edges):
        raise UsageError(f"edge {edges[-1] if edges[0] >= 0 else edges[0]} of {graph.num_edges}")
    edge = {k: getattr(graph, k)[edges] for k in EDGE if getattr(graph, k) is not None}
    indptr = np.searchsorted(edges, graph.indptr)
    return replace(graph, indptr=indptr, indices=graph.indices[edges], **edge)


def _ids(called: str, chosen: Any, count: int) -> Array:
    """Ids, also of a mask over `count`."""
    ids = np.asarray(chosen)
    if ids.dtype == bool and ids.shape == (count,):
        return np.flatnonzero(ids)
    if ids.ndim != 1 or (len(ids) and ids.dtype.kind not in "iu"):
        raise UsageError(f"{called}: give ids, or a mask of {count}; this is {ids.dtype} {ids.shape}")
    return ids if len(ids) else ids.astype(np.int64)


def coalesce(graph: Graph, merge: Merge) -> Graph:
    """Edges between the same nodes, in the same direction and of the same type, made one."""
    if merge not in get_args(Merge):
        raise UsageError(f"merge={merge!r} is none of {', '.join(get_args(Merge))}")
    source, target = graph.edges()
    kind = np.zeros(0) if graph.edge_type is None else graph.edge_type
    order = np.arange(graph.num_edges) if graph.edge_type is None else np.lexsort((kind, source, target))
    columns = [each[order] for each in (source, target, kind) if len(each)]
    first = np.flatnonzero(np.any([np.append(True, np.diff(each) != 0) for each in columns], 0) if columns else [])
    if len(first) == graph.num_edges:
        return graph
    edge: dict[str, Any] = {}
    for name in ("edge_weight", "edge_attr"):
        if (held := getattr(graph, name)) is not None:
            edge[name] = _merged(held[order], first, merge)
    if graph.edge_type is not None:
        edge["edge_type"] = kind[order][first]
    return with_edges(graph, source[order][first], target[order][first], None, **edge)


def _merged(values: Array, first: Array, merge: Merge) -> Array:
    if merge == "first":
        return values[first]
    if merge in ("max", "min"):
        made: Array = {"max": np.maximum, "min": np.minimum}[merge].reduceat(values, first)
        return made
    total = np.add.reduceat(values, first)
    if merge == "mean":
        counts = np.diff(np.append(first, len(values)))
        total = total / counts.reshape(-1, *[1] * (values.ndim - 1))
    return total.astype(values.dtype)


def subgraph(graph: Graph, nodes: Any) -> Graph:
    """The graph of some nodes, in the order given, with the edges among them."""
    nodes = _ids("subgraph", nodes, graph.num_nodes)
    place = np.full(graph.num_nodes, -1, np.int32)
    if len(nodes) and (nodes.min() < 0 or nodes.max() >= graph.num_nodes):
        raise UsageError(f"subgraph: node {nodes[(nodes < 0) | (nodes >= graph.num_nodes)][0]} of {graph.num_nodes}")
    place[nodes] = np.arange(len(nodes))
    if (place[nodes] != np.arange(len(nodes))).any():
        raise UsageError("subgraph: a node is named twice; give each once")
    edges, target = rows_of(graph.indptr, nodes)
    keep = place[graph.indices[edges]] >= 0
    edges, target = edges[keep], target[keep]
    about: dict[str, Any] = {k: None if (held := getattr(graph, k)) is None else held[nodes] for k in NODE}
    about |= {"x": take_rows(graph.x, nodes), "masks": {k: v[nodes] for k, v in graph.masks.items()}}
    few = replace(graph, indptr=np.zeros(len(nodes) + 1, np.int64), names=_names(graph.names, nodes), **about)
    edge = {k: getattr(graph, k)[edges] for k in EDGE if getattr(graph, k) is not None}
    return with_edges(few, place[graph.indices[edges]], target, None, **edge)


def rows_of(indptr: Array, rows: Array) -> tuple[Array, Array]:
    """The edges of some rows, and which of the rows each is of."""
    counts = np.diff(indptr)[rows]
    return ranges(indptr[:-1][rows], counts), np.repeat(np.arange(len(rows)), counts)


def _names(names: Any, nodes: Array) -> Any:
    if isinstance(names, np.ndarray):
        return names[nodes]
    return tuple(names[i] for i in nodes.tolist()) if len(names) else ()


# -- several graphs as one ---------------------------------------------------------------------------------------------
def batch_graphs(graphs: Sequence[Graph]) -> GraphBatch:
    """Several graphs as one whose parts are not joined, as nets read it; `graph` says which part each node is of.

    DataFault where some graphs have features or attributes that others lack.
    """
    if not graphs:
        raise UsageError("batch_graphs: no graphs given")
    parts = [graph.adjacency for graph in graphs]
    nodes = np.array([graph.num_nodes for graph in graphs])
    starts = np.cumsum(nodes) - nodes
    joined: dict[str, Any] = {name: _joined(graphs, name) for name in (*EDGE, "node_type")}
    owner = np.repeat(np.arange(len(graphs), dtype=np.int64), nodes)
    return GraphBatch(_side_by_side(parts, starts), stack_rows([g.x for g in graphs]), graph=owner,
                      num_graphs=len(graphs), **joined)  # fmt: skip


def _side_by_side(parts: Sequence[CSR], nodes: Array) -> CSR:
    """The block-diagonal pattern; `nodes` is where the nodes of each part begin."""
    counts = np.array([part.nonzeros for part in parts])
    edges = np.cumsum(counts) - counts
    shift = np.repeat(nodes, counts).astype(np.int32)

    def ends(name: str) -> Array:
        return np.concatenate([[0], *(getattr(p, name)[1:] + e for p, e in zip(parts, edges, strict=True))])

    def ids(name: str, by: Array) -> Array:
        return np.concatenate([getattr(part, name) for part in parts]) + by

    return CSR(
        ends("indptr"), ids("indices", shift), ids("row", shift), ends("t_indptr"), ids("t_indices", shift),
        ids("t_edges", np.repeat(edges, counts).astype(np.int32)),
    )  # fmt: skip


def _joined(graphs: Sequence[Graph], name: str) -> Array | None:
    parts = [getattr(graph, name) for graph in graphs]
    there = [part is not None for part in parts]
    if not any(there):
        return None
    if not all(there):
        what = f"graph {there.index(False)} of a batch has no {name}, graph {there.index(True)} has"
        raise fault(None, what, "give it to all graphs, or to none")
    if len({part.shape[1:] for part in parts}) > 1:
        raise fault(None, f"graphs of one batch have {name} of several widths", "give all graphs the same columns")
    return np.concatenate(parts)


# -- facts -------------------------------------------------------------------------------------------------------------
def components(graph: Graph) -> Array:
    """The part of each node that hangs together (whatever the direction of edges): its smallest node, int64 [N]."""
    number, _ = analysis.components(*graph.edges(), graph.num_nodes)
    return np.unique(number, return_index=True)[1][number]


def describe(graph: Graph) -> dict[str, int]:
    """What a graph has: see `Graph.describe`."""
    loops = graph.indices == graph.targets
    same = np.append(False, (np.diff(graph.indices) == 0) & (np.diff(graph.targets) == 0))[: graph.num_edges]
    sizes = np.bincount(components(graph), minlength=1)
    into, out = graph.in_degree(), graph.out_degree()
    once = (lambda which: int(which.sum())) if graph.directed else lambda which: int((which & ~_back(graph)).sum())
    return {
        "nodes": graph.num_nodes,
        "edges": once(np.ones(graph.num_edges, bool)),
        "components": int((sizes > 0).sum()),
        "largest component": int(sizes.max(initial=0)),
        "isolated nodes": int(((into == 0) & (out == 0)).sum()),
        "self-loops": int(loops.sum()),
        "duplicate edges": once(same),
        "largest degree": int(into.max(initial=0)),
        "features": graph.num_features,
        "classes": graph.num_classes,
    }


def _back(graph: Graph) -> Array:
    """The second direction of each edge of an undirected graph."""
    return np.asarray(graph.indices > graph.targets)
