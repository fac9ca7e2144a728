"""Graph convolutional networks."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pdl
from pdl import Tensor
from pdl.nn import Module, ModuleList, Parameter, init
from pdl.ops import CSR
from pdl_graph.batch import GraphBatch, project
from pdl_graph.models.base import GraphModel
from pdl_graph.models.mlp import Rate, Size
from pdl_graph.models.propagation import gcn_norm, required


class GCNConv(Module):
    """y = S dropout(x) W + b with S = D^-1/2 A D^-1/2: Kipf & Welling, "Semi-supervised classification with graph
    convolutional networks", arXiv 1609.02907, equation 2 (A there has self-loops; the graph given here should, too).

    dropout  of x; W is initialised as in Glorot & Bengio, b = 0
    """

    def __init__(self, in_features: Size, out_features: Size, *, bias: bool = True, dropout: Rate = 0.0) -> None:
        self.dropout = dropout
        self.weight = Parameter(init.xavier_uniform_(pdl.zeros((in_features, out_features))))
        self.bias = Parameter(pdl.zeros((out_features,))) if bias else None

    def forward(self, adjacency: CSR, x: Any, edge_weight: Any = None, *, norm: Tensor | None = None) -> Tensor:
        """x [columns, in], dense or `SparseFeatures` -> [rows, out].

        norm  the nonzeros of S (`gcn_norm`), where several layers share them
        """
        norm = gcn_norm(adjacency, edge_weight) if norm is None else norm
        y = pdl.spmm(adjacency, project(x, self.weight, dropout=self.dropout, training=self.training), norm)
        return y if self.bias is None else y + self.bias


class GCN(GraphModel):
    """Z = S relu(S X W_1 + b_1) W_2 + b_2 with dropout of X and of the hidden layer: Kipf & Welling, arXiv 1609.02907.

    hidden  width of the layers between;  num_layers  how many there are in all;  dropout  before each
    """

    self_loops = True

    def __init__(
        self,
        num_features: Size | None = None,
        num_classes: Size | None = None,
        *,
        hidden: Size = 16,
        num_layers: Size = 2,
        dropout: Rate = 0.5,
    ) -> None:
        self.num_features = required(self, num_features=num_features)
        self.num_classes = required(self, num_classes=num_classes)
        sizes = [self.num_features, *[hidden] * (num_layers - 1), self.num_classes]
        self.convs = ModuleList(GCNConv(a, b, dropout=dropout) for a, b in pairwise(sizes))

    def embed(self, graph: GraphBatch) -> Tensor:
        return self._embed(graph, gcn_norm(graph.adjacency, graph.edge_weight))

    def _embed(self, graph: GraphBatch, norm: Tensor) -> Tensor:
        x = graph.x
        for conv in list(self.convs)[:-1]:
            x = pdl.relu(conv(graph.adjacency, x, norm=norm))
        return x  # type: ignore[no-any-return]

    def forward(self, graph: GraphBatch) -> Tensor:
        norm = gcn_norm(graph.adjacency, graph.edge_weight)
        return self.convs[-1](graph.adjacency, self._embed(graph, norm), norm=norm)  # type: ignore[no-any-return]


TASK = "node classification"
VARIANTS = {"gcn": {"_target_": "pdl_graph.GCN"}}
