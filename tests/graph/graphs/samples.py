"""Small graphs to test with."""

from __future__ import annotations

import numpy as np

from pdl_graph import Graph


def random_graph(
    rng: np.random.Generator, nodes: int = 6, features: int = 3, edge_features: int | None = None
) -> Graph:
    """A directed graph with random edges, some of them twice and some to their own node; node 0 gets none."""
    edges = int(rng.integers(nodes, 3 * nodes))
    source, target = rng.integers(0, nodes, edges), rng.integers(1, max(nodes, 2), edges) if nodes > 1 else None
    target = np.zeros(edges, np.int64) if target is None else target
    attr = None if edge_features is None else rng.normal(size=(edges, edge_features)).astype(np.float32)
    x = rng.normal(size=(nodes, features)).astype(np.float32)
    return Graph.from_edges(source, target, nodes, x=x, edge_attr=attr)


def matrix(graph: Graph) -> np.ndarray:
    """The adjacency [N, N], by receiving and sending nodes, edges counted."""
    made = np.zeros((graph.num_nodes, graph.num_nodes))
    np.add.at(made, (graph.targets, graph.indices), 1 if graph.edge_weight is None else graph.edge_weight)
    return made


def permuted(graph: Graph, order: np.ndarray) -> Graph:
    """The same graph, its node order[i] now called i."""
    place = np.argsort(order)
    source, target = graph.edges()
    return Graph.from_edges(place[source], place[target], graph.num_nodes, x=graph.x[order], edge_attr=graph.edge_attr)
