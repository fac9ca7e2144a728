"""Layers on the nodes' own features, without their neighbours."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Any, Literal

import pdl
from pdl import Tensor
from pdl.hints import Range
from pdl.nn import Module, ModuleList, Parameter, init
from pdl_graph.batch import GraphBatch, project
from pdl_graph.models.base import GraphModel
from pdl_graph.models.propagation import required

Rate = Annotated[float, Range(0, below=1)]
Share = Annotated[float, Range(0, 1)]
Size = Annotated[int, Range(1)]
Initial = Literal["glorot", "fan_in"]


class FeatureLinear(Module):
    """y = dropout(x) W + b for features x [N, in] that are dense or `SparseFeatures`; of these only the nonzeros are
    dropped and multiplied.

    initial  "glorot": W as Glorot & Bengio draw it (AISTATS 2010), b = 0; "fan_in": both U(-a, a), a = 1 / sqrt(in), as
             in `pdl.nn.Linear`
    """

    def __init__(
        self,
        in_features: Size,
        out_features: Size,
        *,
        bias: bool = True,
        dropout: Rate = 0.0,
        initial: Initial = "glorot",
    ) -> None:
        self.dropout = dropout
        self.weight = Parameter(pdl.zeros((in_features, out_features)))
        self.bias = Parameter(pdl.zeros((out_features,))) if bias else None
        if initial == "glorot":
            init.xavier_uniform_(self.weight)
        else:
            for p in self.parameters():
                init.fan_in_uniform_(p, in_features)

    def forward(self, x: Any) -> Tensor:
        """[N, in] -> [N, out]."""
        y = project(x, self.weight, dropout=self.dropout, training=self.training)
        return y if self.bias is None else y + self.bias


class FeatureMLP(Module):
    """Linear layers with ReLU between them, dropout before each: features [N, in], dense or sparse -> [N, out]."""

    def __init__(self, sizes: list[int], *, dropout: Rate = 0.5, initial: Initial = "glorot") -> None:
        self.layers = ModuleList(FeatureLinear(a, b, dropout=dropout, initial=initial) for a, b in pairwise(sizes))

    def embed(self, x: Any) -> Tensor:
        """What the last layer reads."""
        for layer in list(self.layers)[:-1]:
            x = pdl.relu(layer(x))
        return x  # type: ignore[no-any-return]

    def forward(self, x: Any) -> Tensor:
        return self.layers[-1](self.embed(x))  # type: ignore[no-any-return]


class MLP(GraphModel):
    """Classes from a node's own features alone: what the graph is to be compared with.

        Z = W_2 relu(W_1 X + b_1) + b_2

    hidden  width of the layers between;  num_layers  how many there are in all;  dropout  before each
    """

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
        self.mlp = FeatureMLP(sizes, dropout=dropout)

    def embed(self, graph: GraphBatch) -> Tensor:
        return self.mlp.embed(graph.x)  # type: ignore[no-any-return]

    def forward(self, graph: GraphBatch) -> Tensor:
        return self.mlp(graph.x)  # type: ignore[no-any-return]


TASK = "node classification"
VARIANTS = {"graph_mlp": {"_target_": "pdl_graph.MLP"}}
