"""Pairs of nodes: numbers for them, and seeded pairs that no edge joins."""

from __future__ import annotations

import numpy as np

from pdl.errors import DataError
from pdl_graph.graph import Graph

Array = np.ndarray
_FEW = 1 << 21  # pairs of nodes in all, up to which non-edges are picked out of a list of them


def keys_of(source: Array, target: Array, num_nodes: int, *, directed: bool) -> Array:
    """One number for each pair, int64: source * N + target, of an undirected pair the lower node first."""
    source, target = np.asarray(source, np.int64), np.asarray(target, np.int64)
    if not directed:
        source, target = np.minimum(source, target), np.maximum(source, target)
    return source * num_nodes + target


def pairs_of(keys: Array, num_nodes: int) -> Array:
    """int64 [P, 2]: the pairs of such numbers."""
    return np.stack([keys // num_nodes, keys % num_nodes], axis=1)


def edge_keys(graph: Graph) -> Array:
    """The number of each joined pair, ascending and each once; edges of a node to itself are left out."""
    source, target = graph.edges()
    apart = source != target
    return np.unique(keys_of(source[apart], target[apart], graph.num_nodes, directed=graph.directed))


def member(sorted_keys: Array, keys: Array) -> Array:
    """Which of `keys` are among `sorted_keys`, bool."""
    if not len(sorted_keys):
        return np.zeros(len(keys), bool)
    at = np.minimum(np.searchsorted(sorted_keys, keys), len(sorted_keys) - 1)
    found: Array = sorted_keys[at] == keys
    return found


def non_edges(
    edges: Array, num_nodes: int, count: int, rng: np.random.Generator, *, directed: bool, distinct: bool = False
) -> Array:
    """Numbers of `count` pairs, uniform among those of two nodes that are not in `edges` (numbers, ascending); each at
    most once where `distinct`. DataError where there are none, or too few."""
    free = num_nodes * (num_nodes - 1) // (1 if directed else 2) - len(edges)
    if count and free < (count if distinct else 1):
        raise DataError(f"{count} pairs of nodes without an edge are wanted, the graph has {free}; ask for fewer")
    if distinct and num_nodes * num_nodes <= _FEW:
        return rng.choice(_all_free(edges, num_nodes, directed), count, replace=False)
    found = np.empty(0, np.int64)
    while len(found) < count:
        more = (count - len(found)) * 5 // 4 + 16
        source, target = rng.integers(0, num_nodes, more), rng.integers(0, num_nodes, more)
        keys = keys_of(source, target, num_nodes, directed=directed)
        found = np.concatenate([found, keys[(source != target) & ~member(edges, keys)]])
        if distinct:
            found = found[np.sort(np.unique(found, return_index=True)[1])]
    return found[:count]


def _all_free(edges: Array, n: int, directed: bool) -> Array:
    free = ~np.eye(n, dtype=bool) if directed else np.triu(np.ones((n, n), bool), 1)
    free.reshape(-1)[edges] = False
    return np.flatnonzero(free)
