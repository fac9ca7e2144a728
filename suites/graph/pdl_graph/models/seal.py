"""Nets that read the enclosing subgraph of a pair of nodes."""

from __future__ import annotations

from typing import Annotated

import numpy as np

import pdl
from pdl import Tensor
from pdl.hints import Range
from pdl.nn import Conv1d, Linear, Module, ModuleList, Parameter, init
from pdl.ops import CSR
from pdl_graph.batch import GraphBatch
from pdl_graph.models.mlp import Rate, Size
from pdl_graph.models.propagation import required


class SubgraphModel(Module):
    """Base of models that `pdl_graph.SubgraphLinks` trains: forward(batch of labelled subgraphs) -> logits [G]."""


class MeanConv(Module):
    """y = tanh((D + I)^-1 (A + I) x W + b), for A without self-loops (Zhang et al., "An end-to-end deep learning
    architecture for graph classification", AAAI 2018, equation 1)."""

    def __init__(self, in_features: Size, out_features: Size) -> None:
        self.weight = Parameter(init.xavier_uniform_(pdl.zeros((in_features, out_features))))
        self.bias = Parameter(pdl.zeros((out_features,)))

    def forward(self, adjacency: CSR, x: Tensor, scale: Tensor) -> Tensor:
        """x [N, in] -> [N, out]; scale [N, 1] is 1 / (degree + 1)."""
        return _mean_tanh(adjacency, pdl.matmul(x, self.weight), scale, self.bias)


def _mean_tanh(adjacency: CSR, y: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    return pdl.tanh((pdl.spmm(adjacency, y) + y) * scale + bias)


class SEAL(SubgraphModel):
    """The deep graph net (DGCNN) of Zhang & Chen, arXiv 1802.09691, appendix C, on nodes that have a label each.

    Layers of `MeanConv`, their outputs side by side, nodes sorted by the last channel (SortPooling), the first k of
    each graph kept, two convolutions along them, and a hidden layer.

    num_labels   how many labels there are; higher ones count as the last
    k            nodes kept of each graph; fewer are filled up with zeros
    hidden       channels of each convolution on the graph; the last has one more, of one channel
    num_layers   how many there are, that one left out
    dense        width of the hidden layer at the end;  dropout  behind it
    """

    def __init__(
        self,
        num_labels: Size | None = None,
        k: Annotated[int, Range(10)] | None = None,
        *,
        hidden: Size = 32,
        num_layers: Size = 3,
        dense: Size = 128,
        dropout: Rate = 0.5,
    ) -> None:
        self.num_labels, self.k = required(self, num_labels=num_labels), required(self, k=k)
        self.dropout = dropout
        self.labels = Parameter(init.xavier_uniform_(pdl.zeros((self.num_labels, hidden))))
        self.bias = Parameter(pdl.zeros((hidden,)))
        self.convs = ModuleList(MeanConv(hidden, width) for width in [*[hidden] * (num_layers - 1), 1])
        self.one = Conv1d(num_layers * hidden + 1, 16, 1)
        self.two = Conv1d(16, 32, 5)
        self.dense = Linear((self.k // 2 - 4) * 32, dense)
        self.last = Linear(dense, 1)

    def forward(self, graph: GraphBatch) -> Tensor:
        x = sort_pool(self.embed(graph), graph, self.k)
        x = pdl.max_pool(pdl.relu(self.one(x)), 2)
        x = pdl.relu(self.two(x)).reshape((graph.num_graphs, -1))
        x = pdl.dropout(pdl.relu(self.dense(x)), p=self.dropout, training=self.training)
        return self.last(x).squeeze(axis=-1)  # type: ignore[no-any-return]

    def embed(self, graph: GraphBatch) -> Tensor:
        """What all convolutions say of each node, [N, num_layers hidden + 1]."""
        pattern, ends = graph.adjacency, pdl.as_tensor(graph.adjacency.indptr)
        scale = 1.0 / (pdl.astype(ends[1:] - ends[:-1], pdl.float32) + 1.0).expand_dims(axis=-1)
        label = pdl.minimum(pdl.as_tensor(graph.node_type), self.num_labels - 1)
        x = _mean_tanh(pattern, pdl.segment_take(self.labels, label), scale, self.bias)  # one-hot labels times W
        found = [x]
        for conv in self.convs:
            x = conv(pattern, x, scale)
            found.append(x)
        return pdl.concat(found, axis=-1)


def sort_pool(x: Tensor, graph: GraphBatch, k: int) -> Tensor:
    """The k nodes of each graph with the highest last channels, descending, as [G, k, C]; zeros where it has fewer. Of
    equal ones the earlier comes first."""
    belongs, graphs = pdl.as_tensor(graph.graph), graph.num_graphs
    descending = pdl.argsort(x.detach()[:, -1], descending=True)
    order = pdl.take(descending, pdl.argsort(pdl.take(belongs, descending)))
    count = pdl.segment_count(belongs, num_segments=graphs)
    place = (pdl.cumsum(count) - count).expand_dims(axis=-1) + pdl.as_tensor(np.arange(k))
    there = pdl.as_tensor(np.arange(k)) < count.expand_dims(axis=-1)
    known = pdl.take(order, pdl.where(there, place, 0).reshape((-1,)))
    ids = pdl.where(there, known.reshape((graphs, k)), -1)
    return pdl.segment_take(x, ids.reshape((-1,))).reshape((graphs, k, x.shape[1]))


TASK = "link prediction"
VARIANTS = {"seal": {"_target_": "pdl_graph.SEAL"}}
