"""The enclosing subgraphs of pairs of nodes as nets read them: `pdl_graph.steps.enclosing` cuts and labels them."""

from __future__ import annotations

from typing import Any

import numpy as np

from pdl.data import Dataset
from pdl.ops import CSR
from pdl_graph.batch import GraphBatch
from pdl_graph.graph import Graph
from pdl_graph.ranges import ranges
from pdl_graph.steps import enclosing as cutting
from pdl_graph.steps.enclosing import Enclosing, Neighbours

Array = np.ndarray


class EnclosingSubgraphs(Dataset):
    """Pairs with their subgraphs; a batch is {"graph": GraphBatch, "label": float32 [B]}.

    origin  the data set of the pairs
    """

    def __init__(self, parts: Enclosing, targets: Array, origin: Any) -> None:
        self.parts, self.targets, self.origin = parts, targets, origin

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return self.get_batch(np.array([index]))

    def get_batch(self, indices: Array) -> dict[str, Any]:
        """The subgraphs of these pairs side by side."""
        return {"graph": side_by_side(self.parts, indices), "label": self.targets[indices].astype(np.float32)}

    @property
    def labels(self) -> Array:
        """1 for edges, 0 for others."""
        return self.targets


def neighbours_of(graph: Graph) -> Neighbours:
    """Who is joined with whom, whatever the direction."""
    return Neighbours.of(*graph.edges(), graph.num_nodes)


def enclosing(graph: Graph, pairs: Array, *, hops: int = 1, max_nodes: int | None = None, seed: int = 0) -> Enclosing:
    """The enclosing subgraphs of pairs of a graph's nodes: see `pdl_graph.steps.enclosing.enclosing`."""
    return cutting.enclosing(neighbours_of(graph), pairs, hops=hops, max_nodes=max_nodes, seed=seed)


def side_by_side(parts: Enclosing, rows: Array) -> GraphBatch:
    """The subgraphs of some pairs as one graph: labels are its `node_type`."""
    begin, size = parts.node_start[rows], parts.sizes[rows]
    at, offset = ranges(begin, size), np.cumsum(size) - size
    first, last = parts.indptr[begin], parts.indptr[begin + size]
    edges, many = ranges(first, last - first), last - first
    indices = parts.indices[edges] + np.repeat(offset.astype(np.int32), many)
    back = parts.back[edges] + np.repeat((np.cumsum(many) - many).astype(np.int32), many)
    degree = parts.indptr[at + 1] - parts.indptr[at]
    indptr = np.concatenate([[0], np.cumsum(degree)])
    row = np.repeat(np.arange(len(at), dtype=np.int32), degree)
    pattern = CSR(indptr, indices, row, indptr, indices, back)  # as it is symmetric
    graph = np.repeat(np.arange(len(rows)), size)
    return GraphBatch(pattern, node_type=parts.label[at].astype(np.int64), graph=graph, num_graphs=len(rows))


__all__ = ["Enclosing", "EnclosingSubgraphs", "enclosing", "neighbours_of", "side_by_side"]
