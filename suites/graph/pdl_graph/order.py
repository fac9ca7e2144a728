"""Orders of the nodes of a graph in which neighbours lie close, so that what a node reads is still in a cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pdl.compressed import from_coo
from pdl_graph.analysis import components
from pdl_graph.structure import rows_of

if TYPE_CHECKING:
    from pdl_graph.graph import Graph

Array = np.ndarray


def cuthill_mckee(graph: Graph) -> Array:
    """All nodes, int64 [N]: each component breadth-first from a node at its rim, the neighbours of earlier nodes first
    and of these those of low degree: Cuthill and McKee, "Reducing the bandwidth of sparse symmetric matrices", 1969.
    The rim is where a first search ends (George and Liu 1979). Directions of edges do not count.
    """
    (source, target), n, indptr, indices = graph.edges(), graph.num_nodes, graph.indptr, graph.indices
    part = components(source, target, n)[0]
    if graph.directed:
        both = np.concatenate([target, source]), np.concatenate([source, target])
        indptr, indices, _ = from_coo(*both, (n, n))
    degree = np.diff(indptr)
    by_part = np.lexsort((degree, part))
    seeds = by_part[np.flatnonzero(np.diff(part[by_part], prepend=-1))]
    rim = _searched(indptr, indices, seeds)[::-1]
    found = _searched(indptr, indices, rim[np.unique(part[rim], return_index=True)[1]])
    return found[np.argsort(part[found], kind="stable")]


def _searched(indptr: Array, indices: Array, seeds: Array) -> Array:
    """Breadth-first from all seeds at once: level by level, then by the neighbour that found a node, then by degree."""
    new, degree = np.ones(len(indptr) - 1, bool), np.diff(indptr)
    new[seeds] = False
    found = [seeds]
    while len(found[-1]):
        entries, finder = rows_of(indptr, found[-1])
        nodes = indices[entries]
        unseen = new[nodes]
        nodes, first = np.unique(nodes[unseen], return_index=True)
        front = nodes[np.lexsort((degree[nodes], finder[unseen][first]))].astype(np.int64)
        new[front] = False
        found.append(front)
    return np.concatenate(found)
