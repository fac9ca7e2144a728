"""From the vectors of nodes to one vector for each graph, and to fewer nodes.

A readout is `pool(graph, x)`: x [N, C] -> [num_graphs, ...]. Nodes whose `graph.graph` is negative belong to no graph
and are left out; a graph without nodes gives zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Literal, get_args

import numpy as np

import pdl
from pdl import Tensor
from pdl.errors import ConfigError
from pdl.hints import Range
from pdl.nn import Linear, Module, ModuleList
from pdl_graph.batch import GraphBatch
from pdl_graph.models.gcn import GCNConv
from pdl_graph.models.mlp import Size

Readout = Literal["sum", "mean", "max", "attention"]


def members(graph: GraphBatch) -> Tensor:
    """The graph that each node belongs to, int64 [N]; all belong to one where the batch does not say."""
    if graph.graph is None:
        return pdl.zeros((graph.num_nodes,), dtype=pdl.int64)
    return pdl.as_tensor(graph.graph)


class SumPool(Module):
    """y[g] = sum of the x[v] of g's nodes."""

    def forward(self, graph: GraphBatch, x: Tensor) -> Tensor:
        """[N, C] -> [num_graphs, C]."""
        return pdl.segment_sum(x, members(graph), num_segments=graph.num_graphs)


class MeanPool(Module):
    """y[g] = mean of the x[v] of g's nodes."""

    def forward(self, graph: GraphBatch, x: Tensor) -> Tensor:
        """[N, C] -> [num_graphs, C]."""
        ids = members(graph)
        total = pdl.segment_sum(x, ids, num_segments=graph.num_graphs)
        count = pdl.astype(pdl.segment_count(ids, num_segments=graph.num_graphs), x.dtype)
        return total / pdl.maximum(count, 1.0).reshape((-1, 1))


class MaxPool(Module):
    """y[g] = maximum of the x[v] of g's nodes, per column."""

    def forward(self, graph: GraphBatch, x: Tensor) -> Tensor:
        """[N, C] -> [num_graphs, C]."""
        return pdl.segment_max(x, members(graph), num_segments=graph.num_graphs)


class AttentionPool(Module):
    """y[g] = tanh(sum over g's nodes of sigmoid(x[v] W_i + b_i) * tanh(x[v] W_j + b_j)), the first factor saying how
    much each node counts, per column. Li et al., "Gated graph sequence neural networks", arXiv 1511.05493, equation 7,
    with one layer for each of its nets i and j."""

    def __init__(self, in_features: Size, out_features: Size | None = None) -> None:
        self.gate = Linear(in_features, out_features or in_features)
        self.value = Linear(in_features, out_features or in_features)

    def forward(self, graph: GraphBatch, x: Tensor) -> Tensor:
        """[N, in] -> [num_graphs, out]."""
        kept = pdl.sigmoid(self.gate(x)) * pdl.tanh(self.value(x))
        return pdl.tanh(pdl.segment_sum(kept, members(graph), num_segments=graph.num_graphs))


class Pools(Module):
    """Several readouts side by side: [N, C] -> [num_graphs, C for each]."""

    def __init__(self, names: Readout | Sequence[Readout], in_features: Size) -> None:
        names = (names,) if isinstance(names, str) else tuple(names)
        unknown = [name for name in names if name not in get_args(Readout)]
        if unknown or not names:
            raise ConfigError(f"readout {', '.join(unknown) or '[]'} is none of {', '.join(get_args(Readout))}")
        kinds = {"sum": SumPool, "mean": MeanPool, "max": MaxPool}
        self.pools = ModuleList(AttentionPool(in_features) if n == "attention" else kinds[n]() for n in names)
        self.out_features = in_features * len(names)

    def forward(self, graph: GraphBatch, x: Tensor) -> Tensor:
        """[N, in] -> [num_graphs, out_features]."""
        made = [pool(graph, x) for pool in self.pools]
        return made[0] if len(made) == 1 else pdl.concat(made, axis=1)


class SAGPool(Module):
    """Self-attention graph pooling: Lee, Lee & Kang, arXiv 1904.08082, section 3.1.

        z = tanh(S x w + b), S the normalised adjacency with self-loops (a GCN layer with one output)
        of each graph's n nodes the ceil(ratio n) with the highest z stay, as z[v] x[v], with the edges between them

    Nodes that go keep their place, so that shapes do not depend on values (and programs and bundles hold it): their
    vectors are 0, their `graph` is -1, and the edges at them weigh 0. Layers that follow must use `edge_weight`.
    Of equal scores the node with the lower number stays. The graph must have self-loops.
    """

    def __init__(self, in_features: Size, *, ratio: Annotated[float, Range(above=0, high=1)] = 0.5) -> None:
        self.score, self.ratio = GCNConv(in_features, 1), ratio

    def forward(self, graph: GraphBatch, x: Tensor) -> tuple[GraphBatch, Tensor]:
        """x [N, C] -> the graph that is left, and its vectors [N, C]."""
        ids = members(graph)
        z = pdl.tanh(self.score(graph.adjacency, x, graph.edge_weight))
        stays = highest(z.detach().reshape((-1,)), ids, graph.num_graphs, self.ratio)
        weight = pdl.astype(stays, x.dtype)
        ends = pdl.take(weight, graph.adjacency.row) * pdl.take(weight, graph.adjacency.indices)
        edge_weight = ends if graph.edge_weight is None else ends * pdl.as_tensor(graph.edge_weight)
        left = replace(graph, graph=pdl.where(stays, ids, -1), edge_weight=edge_weight)
        return left, x * z * weight.reshape((-1, 1))


def highest(score: Tensor, ids: Tensor, num_graphs: int, ratio: float) -> Tensor:
    """Which nodes are among the ceil(ratio n) highest of their graph's n, bool [N]; score [N], ids int64 [N], negative
    for nodes of no graph."""
    n = score.shape[0]
    by_score = pdl.argsort(score, descending=True)
    order = pdl.take(by_score, pdl.argsort(pdl.take(ids, by_score)))  # by graph, then by score
    place = pdl.argsort(order)
    count = pdl.segment_count(ids, num_segments=num_graphs)
    absent = n - count.sum()
    start = pdl.cumsum(count, axis=0) - count + absent
    keep = pdl.astype(pdl.ceil(pdl.astype(count, pdl.float64) * np.float64(ratio)), pdl.int64)
    own = pdl.maximum(ids, 0)
    return pdl.logical_and(place - pdl.take(start, own) < pdl.take(keep, own), ids >= 0)
