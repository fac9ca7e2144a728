"""Simple methods beside a net: the graph without features, features without the graph, and neither."""

from __future__ import annotations

from typing import Any

import numpy as np

from pdl_graph.batch import SparseFeatures
from pdl_graph.graph import Graph

Array = np.ndarray
ALPHA, ROUNDS = 0.9, 50
RIDGE = 1.0


def majority(targets: Array, num_nodes: int) -> Array:
    """Scores [N, K] of all nodes: how frequent each class is in training."""
    return np.tile(targets.mean(0), (num_nodes, 1))


def label_propagation(graph: Graph, nodes: Array, targets: Array) -> Array:
    """Scores [N, K] from the labels of `nodes` [n, K] and the edges alone: F <- alpha S F + (1 - alpha) Y, with S =
    D^-1/2 A D^-1/2, alpha 0.9 and 50 rounds (Zhou et al., "Learning with local and global consistency", NIPS 2003)."""
    found = np.zeros((graph.num_nodes, targets.shape[1]))
    found[nodes] = targets
    given, (source, target) = found, graph.edges()
    degree = np.maximum(graph.in_degree(), 1)[target] * np.maximum(graph.out_degree(), 1)[source]
    value = (1.0 if graph.edge_weight is None else graph.edge_weight) / np.sqrt(degree)
    for _ in range(ROUNDS):
        found = ALPHA * _summed(graph.indptr, value[:, None] * found[source]) + (1 - ALPHA) * given
    return found


def ridge(graph: Graph, nodes: Array, targets: Array) -> Array:
    """Scores [N, K] from features alone: the least squares fit to the labels of `nodes` under a penalty of as much as
    features have on average (ridge regression in its dual form, of as many unknowns as there are labels)."""
    known = _rows(graph.x, nodes)
    gram = known @ known.T
    scale = RIDGE * max(float(np.trace(gram)) / len(nodes), 1e-12)
    mean = targets.mean(0)
    weight = known.T @ np.linalg.solve(gram + scale * np.eye(len(nodes)), targets - mean)
    return _product(graph.x, weight) + mean


def _rows(x: Any, rows: Array) -> Array:
    if not isinstance(x, SparseFeatures):
        return np.asarray(x, np.float64)[rows]
    out = np.zeros((len(rows), x.shape[1]))
    for i, row in enumerate(rows):
        begin, end = x.pattern.indptr[row : row + 2]
        np.add.at(out[i], x.pattern.indices[begin:end], x.value[begin:end])
    return out


def _product(x: Any, weight: Array) -> Array:
    if not isinstance(x, SparseFeatures):
        return np.asarray(np.asarray(x, np.float64) @ weight)
    return _summed(x.pattern.indptr, x.value[:, None] * weight[x.pattern.indices])


def _summed(indptr: Array, values: Array) -> Array:
    """Sums over the rows of a sparse matrix: [E, K] -> [N, K]."""
    total = np.concatenate([np.zeros((1, values.shape[1])), np.cumsum(values, axis=0, dtype=np.float64)])
    return total[indptr[1:]] - total[indptr[:-1]]


__all__ = ["label_propagation", "majority", "ridge"]
