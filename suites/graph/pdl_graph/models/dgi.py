"""Vectors of nodes without labels: deep graph infomax."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pdl
from pdl import Tensor
from pdl.nn import ModuleList, Parameter, PReLU, init
from pdl_graph.batch import GraphBatch, project
from pdl_graph.models.base import GraphModel
from pdl_graph.models.gcn import GCNConv
from pdl_graph.models.mlp import Size
from pdl_graph.models.propagation import gcn_norm, required


class DGI(GraphModel):
    """Velickovic et al., "Deep graph infomax", arXiv 1809.10341: vectors that tell the nodes of a graph from those of
    the same edges with features shuffled among the nodes, by what the graph is as a whole.

        H = prelu(S X W + b),   s = sigmoid(mean of the rows of H),   logit that h belongs to the graph: h^T M s

    hidden  numbers in a vector;  num_layers  of the encoder, each as above

    Classes are predicted by a linear map on the vectors, `weight` [hidden, num_classes] and `bias`: no parameters but
    buffers, which `pdl_graph.GraphInfomax` fits to labels after the fact.
    """

    self_loops = True
    weight: Tensor
    bias: Tensor

    def __init__(
        self,
        num_features: Size | None = None,
        num_classes: Size | None = None,
        *,
        hidden: Size = 512,
        num_layers: Size = 1,
    ) -> None:
        self.num_features = required(self, num_features=num_features)
        self.num_classes = required(self, num_classes=num_classes)
        sizes = [self.num_features, *[hidden] * num_layers]
        self.convs = ModuleList(GCNConv(a, b) for a, b in pairwise(sizes))
        self.activations = ModuleList(PReLU() for _ in range(num_layers))
        self.discriminator = Parameter(init.xavier_uniform_(pdl.zeros((hidden, hidden))))
        self.register_buffer("weight", pdl.zeros((hidden, self.num_classes)))
        self.register_buffer("bias", pdl.zeros((self.num_classes,)))

    def _encode(self, graph: GraphBatch, first: Tensor, norm: Tensor) -> Tensor:
        """H from X W of the first layer."""
        h: Tensor = self.activations[0](pdl.spmm(graph.adjacency, first, norm) + self._first.bias)
        for conv, activation in zip(list(self.convs)[1:], list(self.activations)[1:], strict=True):
            h = activation(conv(graph.adjacency, h, norm=norm))
        return h

    @property
    def _first(self) -> Any:
        return self.convs[0]

    def contrast(self, graph: GraphBatch, order: Tensor) -> tuple[Tensor, Tensor]:
        """Logits [N] of the nodes, and of those that have the features of the nodes `order` int64 [N] instead."""
        norm = gcn_norm(graph.adjacency, graph.edge_weight)
        first = project(graph.x, self._first.weight)
        real = self._encode(graph, first, norm)
        fake = self._encode(graph, pdl.take(first, order), norm)
        wanted = pdl.matmul(self.discriminator, pdl.sigmoid(real.mean(axis=0)))
        return pdl.matmul(real, wanted), pdl.matmul(fake, wanted)

    def embed(self, graph: GraphBatch) -> Tensor:
        """H [N, hidden]."""
        norm = gcn_norm(graph.adjacency, graph.edge_weight)
        return self._encode(graph, project(graph.x, self._first.weight), norm)

    def forward(self, graph: GraphBatch) -> Tensor:
        """Scores of the classes, [N, num_classes]."""
        return pdl.matmul(self.embed(graph), self.weight) + self.bias


TASK = "node classification"
VARIANTS = {"dgi": {"_target_": "pdl_graph.DGI"}}
