"""Many graphs as one, out of which batches are cut by NumPy alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pdl.ops import CSR
from pdl_graph.batch import GraphBatch
from pdl_graph.features import dense
from pdl_graph.graph import Graph, batch_graphs
from pdl_graph.ranges import offsets, ranges

Array = np.ndarray


class Packed:
    """Graphs side by side. `take(ids)` makes some of them, in that order, one `GraphBatch`.

    The patterns by rows and by columns are made once, so a batch costs gathers and no sort. Features that are sparse
    become dense.
    """

    def __init__(self, graphs: Sequence[Graph]) -> None:
        whole = batch_graphs(graphs)
        self.whole = replace(whole, x=dense(whole.x))
        self.nodes = offsets([graph.num_nodes for graph in graphs])
        self.edges = offsets([graph.num_edges for graph in graphs])
        self.degree, self.t_degree = (np.diff(ends) for ends in (whole.adjacency.indptr, whole.adjacency.t_indptr))

    def __len__(self) -> int:
        return len(self.nodes) - 1

    def take(self, ids: Any) -> GraphBatch:
        """The graphs `ids` (int [G], repeats allowed) as one; `graph` is each node's place among them."""
        ids = np.asarray(ids, np.int64)
        num_nodes, num_edges = (first[ids + 1] - first[ids] for first in (self.nodes, self.edges))
        nodes, edges = ranges(self.nodes[ids], num_nodes), ranges(self.edges[ids], num_edges)
        node_start, edge_start = np.cumsum(num_nodes) - num_nodes, np.cumsum(num_edges) - num_edges
        of_nodes = np.repeat((node_start - self.nodes[ids]).astype(np.int32), num_edges)
        of_edges = np.repeat((edge_start - self.edges[ids]).astype(np.int32), num_edges)
        whole, a = self.whole, self.whole.adjacency
        pattern = CSR(
            offsets(self.degree[nodes]),
            a.indices[edges] + of_nodes,
            a.row[edges] + of_nodes,
            offsets(self.t_degree[nodes]),
            a.t_indices[edges] + of_nodes,
            a.t_edges[edges] + of_edges,
        )
        return GraphBatch(
            pattern,
            x=_at(whole.x, nodes),
            edge_weight=_at(whole.edge_weight, edges),
            edge_attr=_at(whole.edge_attr, edges),
            edge_type=_at(whole.edge_type, edges),
            node_type=_at(whole.node_type, nodes),
            graph=np.repeat(np.arange(len(ids)), num_nodes),
            num_graphs=len(ids),
        )


def _at(values: Array | None, rows: Array) -> Array | None:
    return None if values is None else values[rows]
