"""Nets that predict first and propagate their predictions over the graph afterwards."""

from __future__ import annotations

import numpy as np

import pdl
from pdl import Tensor
from pdl.nn import Parameter
from pdl_graph.batch import GraphBatch
from pdl_graph.models.base import GraphModel
from pdl_graph.models.mlp import FeatureMLP, Initial, Rate, Share, Size
from pdl_graph.models.propagation import gcn_norm, required


class _PropagatedMLP(GraphModel):
    """An MLP on features, whose outputs are propagated."""

    self_loops = True
    initial: Initial = "glorot"

    def __init__(
        self, num_features: Size | None, num_classes: Size | None, hidden: Size, num_layers: Size, dropout: Rate
    ) -> None:
        self.num_features = required(self, num_features=num_features)
        self.num_classes = required(self, num_classes=num_classes)
        sizes = [self.num_features, *[hidden] * (num_layers - 1), self.num_classes]
        self.mlp = FeatureMLP(sizes, dropout=dropout, initial=self.initial)

    def propagate(self, graph: GraphBatch, h: Tensor) -> Tensor:
        """Scores of the nodes, from what each has on its own."""
        raise NotImplementedError

    def embed(self, graph: GraphBatch) -> Tensor:
        return self.mlp.embed(graph.x)  # type: ignore[no-any-return]

    def forward(self, graph: GraphBatch) -> Tensor:
        return self.propagate(graph, self.mlp(graph.x))


class APPNP(_PropagatedMLP):
    """Gasteiger, Bojchevski, Guennemann, "Predict then propagate: graph neural networks meet personalized PageRank",
    arXiv 1810.05997, equation 4:

        H = MLP(X),   Z_0 = H,   Z_{k+1} = (1 - alpha) S Z_k + alpha H,   S = D^-1/2 (A + I) D^-1/2

    hidden, num_layers  of the MLP
    hops            K, how often scores are propagated;  alpha  the probability to begin anew
    dropout         before each layer of the MLP;  edge_dropout  of S, drawn for each hop
    """

    def __init__(
        self,
        num_features: Size | None = None,
        num_classes: Size | None = None,
        *,
        hidden: Size = 64,
        num_layers: Size = 2,
        hops: Size = 10,
        alpha: Share = 0.1,
        dropout: Rate = 0.5,
        edge_dropout: Rate = 0.5,
    ) -> None:
        super().__init__(num_features, num_classes, hidden, num_layers, dropout)
        self.hops, self.alpha, self.edge_dropout = hops, alpha, edge_dropout

    def propagate(self, graph: GraphBatch, h: Tensor) -> Tensor:
        """Z_K."""
        norm = gcn_norm(graph.adjacency, graph.edge_weight) * (1 - self.alpha)
        z, start = h, h * self.alpha
        for _ in range(self.hops):
            weight = pdl.dropout(norm, p=self.edge_dropout, training=self.training)
            z = pdl.spmm(graph.adjacency, z, weight) + start
        return z


class GPRGNN(_PropagatedMLP):
    """Chien et al., "Adaptive universal generalized PageRank graph neural network", arXiv 2006.07988, equation 1:

        H = MLP(X),   Z = sum over k = 0..K of gamma_k S^k H,   gamma learned, from alpha (1 - alpha)^k on

    hidden, num_layers  of the MLP
    hops            K;  alpha  of the PageRank that gamma begins as (gamma_K = (1 - alpha)^K)
    dropout         before each layer of the MLP;  propagation_dropout  of H
    """

    initial: Initial = "fan_in"

    def __init__(
        self,
        num_features: Size | None = None,
        num_classes: Size | None = None,
        *,
        hidden: Size = 64,
        num_layers: Size = 2,
        hops: Size = 10,
        alpha: Share = 0.1,
        dropout: Rate = 0.5,
        propagation_dropout: Rate = 0.5,
    ) -> None:
        super().__init__(num_features, num_classes, hidden, num_layers, dropout)
        self.hops, self.propagation_dropout = hops, propagation_dropout
        gamma = alpha * (1 - alpha) ** np.arange(hops + 1)
        gamma[-1] = (1 - alpha) ** hops
        self.gamma = Parameter(pdl.tensor(gamma.astype(np.float32)))

    def propagate(self, graph: GraphBatch, h: Tensor) -> Tensor:
        """Z."""
        norm = gcn_norm(graph.adjacency, graph.edge_weight)
        hop = pdl.dropout(h, p=self.propagation_dropout, training=self.training)
        total = hop * self.gamma[0]
        for k in range(1, self.hops + 1):
            hop = pdl.spmm(graph.adjacency, hop, norm)
            total = total + hop * self.gamma[k]
        return total


TASK = "node classification"
VARIANTS = {"appnp": {"_target_": "pdl_graph.APPNP"}, "gprgnn": {"_target_": "pdl_graph.GPRGNN"}}
