"""Deep graph convolutional networks."""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np

import pdl
from pdl import Tensor
from pdl.hints import Range
from pdl.nn import Module, ModuleList, Parameter, init
from pdl.ops import CSR
from pdl_graph.batch import GraphBatch
from pdl_graph.models.base import GraphModel
from pdl_graph.models.mlp import FeatureLinear, Rate, Share, Size
from pdl_graph.models.propagation import gcn_norm, required


class GCNIIConv(Module):
    """y = ((1 - alpha) S h + alpha h_0) ((1 - beta) I + beta W): Chen et al., "Simple and deep graph convolutional
    networks", arXiv 2007.02133, equation 5. W is drawn from U(-1 / sqrt(width), 1 / sqrt(width)).
    """

    def __init__(self, width: Size, *, alpha: Share = 0.1, beta: Share = 1.0) -> None:
        self.alpha, self.beta = alpha, beta
        self.weight = Parameter(init.fan_in_uniform_(pdl.zeros((width, width)), width))

    def forward(self, adjacency: CSR, h: Tensor, h0: Tensor, *, norm: Tensor) -> Tensor:
        """h, h0 [N, width], the nonzeros of S [E] (`gcn_norm`) -> [N, width]."""
        p = pdl.spmm(adjacency, h, norm * (1 - self.alpha)) + h0 * self.alpha
        own = pdl.as_tensor(np.eye(self.weight.shape[0], dtype=np.float32) * np.float32(1 - self.beta))
        return pdl.matmul(p, self.weight * self.beta + own)  # the small matrices are joined, not the large products


class GCNII(GraphModel):
    """H_0 = relu(X W_in + b_in), then `num_layers` times relu of `GCNIIConv` with beta_l = log(lambda / l + 1), then
    W_out: Chen et al., arXiv 2007.02133.

    hidden      width of all layers
    alpha       share of H_0 in each;  lambda_  how fast the layers' own weights fade with depth
    dropout     before each layer
    """

    self_loops = True

    def __init__(
        self,
        num_features: Size | None = None,
        num_classes: Size | None = None,
        *,
        hidden: Size = 64,
        num_layers: Size = 64,
        alpha: Share = 0.1,
        lambda_: Annotated[float, Range(above=0)] = 0.5,
        dropout: Rate = 0.6,
    ) -> None:
        self.num_features = required(self, num_features=num_features)
        self.num_classes = required(self, num_classes=num_classes)
        self.dropout = dropout
        self.first = FeatureLinear(self.num_features, hidden, dropout=dropout, initial="fan_in")
        betas = [math.log(lambda_ / layer + 1) for layer in range(1, num_layers + 1)]
        self.convs = ModuleList(GCNIIConv(hidden, alpha=alpha, beta=beta) for beta in betas)
        self.last = FeatureLinear(hidden, self.num_classes, dropout=dropout, initial="fan_in")

    def embed(self, graph: GraphBatch) -> Tensor:
        norm = gcn_norm(graph.adjacency, graph.edge_weight)
        h = h0 = pdl.relu(self.first(graph.x))
        for conv in self.convs:
            h = pdl.dropout(h, p=self.dropout, training=self.training)
            h = pdl.relu(conv(graph.adjacency, h, h0, norm=norm))
        return h

    def forward(self, graph: GraphBatch) -> Tensor:
        return self.last(self.embed(graph))  # type: ignore[no-any-return]


TASK = "node classification"
VARIANTS = {"gcnii": {"_target_": "pdl_graph.GCNII"}}
