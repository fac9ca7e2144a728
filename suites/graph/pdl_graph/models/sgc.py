"""Linear models on features that were propagated over the graph."""

from __future__ import annotations

from typing import Annotated

import pdl
from pdl import Tensor
from pdl.hints import Range
from pdl_graph.batch import GraphBatch, project
from pdl_graph.models.base import GraphModel
from pdl_graph.models.mlp import FeatureLinear, Rate, Size
from pdl_graph.models.propagation import gcn_norm, required


class SGC(GraphModel):
    """Z = S^K X W + b with S = D^-1/2 (A + I) D^-1/2: Wu et al., "Simplifying graph convolutional networks", arXiv
    1902.07153, equation 8. Computed as S^K (X W), which propagates scores and not features.

    hops  K;  dropout  of X
    """

    self_loops = True

    def __init__(
        self, num_features: Size | None = None, num_classes: Size | None = None, *, hops: Size = 2, dropout: Rate = 0.0
    ) -> None:
        self.num_features = required(self, num_features=num_features)
        self.num_classes = required(self, num_classes=num_classes)
        self.hops = hops
        self.linear = FeatureLinear(self.num_features, self.num_classes, dropout=dropout, initial="fan_in")

    def propagate(self, graph: GraphBatch, h: Tensor) -> Tensor:
        """S^K h."""
        norm = gcn_norm(graph.adjacency, graph.edge_weight)
        for _ in range(self.hops):
            h = pdl.spmm(graph.adjacency, h, norm)
        return h

    def embed(self, graph: GraphBatch) -> Tensor:
        """The scores: there is nothing before the one layer."""
        return self(graph)  # type: ignore[no-any-return]

    def forward(self, graph: GraphBatch) -> Tensor:
        weight, bias = self.linear.weight, self.linear.bias
        h = project(graph.x, weight, dropout=self.linear.dropout, training=self.training)
        y = self.propagate(graph, h)
        return y if bias is None else y + bias


class SSGC(SGC):
    """Z = 1/K sum over k = 1..K of ((1 - alpha) S^k X + alpha X) W + b: Zhu & Koniusz, "Simple spectral graph
    convolution", ICLR 2021, equation 8 (a Markov diffusion kernel).

    hops  K;  alpha  the share of a node's own features;  dropout  of X
    """

    def __init__(
        self,
        num_features: Size | None = None,
        num_classes: Size | None = None,
        *,
        hops: Size = 16,
        alpha: Annotated[float, Range(0, 1)] = 0.05,
        dropout: Rate = 0.0,
    ) -> None:
        super().__init__(num_features, num_classes, hops=hops, dropout=dropout)
        self.alpha = alpha

    def propagate(self, graph: GraphBatch, h: Tensor) -> Tensor:
        """1/K sum over k of ((1 - alpha) S^k h + alpha h)."""
        norm = gcn_norm(graph.adjacency, graph.edge_weight)
        hop = total = pdl.spmm(graph.adjacency, h, norm)
        for _ in range(self.hops - 1):
            hop = pdl.spmm(graph.adjacency, hop, norm)
            total = total + hop
        return total * ((1 - self.alpha) / self.hops) + h * self.alpha


TASK = "node classification"
VARIANTS = {"sgc": {"_target_": "pdl_graph.SGC"}, "ssgc": {"_target_": "pdl_graph.SSGC"}}
