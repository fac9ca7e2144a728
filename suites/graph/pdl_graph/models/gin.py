"""Graph isomorphism networks."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Literal

import pdl
from pdl import Tensor
from pdl.errors import ConfigError
from pdl.hints import Inherited
from pdl.nn import BatchNorm1d, Linear, Module, ModuleList, Parameter
from pdl.ops import CSR
from pdl_graph.batch import GraphBatch
from pdl_graph.models.base import GraphModel
from pdl_graph.models.mlp import Rate, Size
from pdl_graph.models.propagation import required

Jumping = Literal["concat", "last", "sum"]


class GINMLP(Module):
    """`num_layers` linear layers, all but the last followed by batch norm and relu: the MLP of the paper's code."""

    def __init__(self, in_features: Size, hidden: Size, *, num_layers: Size = 2) -> None:
        sizes = [in_features, *[hidden] * num_layers]
        self.layers = ModuleList(Linear(a, b) for a, b in pairwise(sizes))
        self.norms = ModuleList(BatchNorm1d(hidden) for _ in range(num_layers - 1))

    def forward(self, x: Tensor) -> Tensor:
        """[N, in] -> [N, hidden]."""
        for layer, norm in zip(self.layers, self.norms, strict=False):
            x = norm(layer(x), activation="relu")
        return self.layers[-1](x)  # type: ignore[no-any-return]


class GINConv(Module):
    """y[i] = MLP((1 + eps) x[i] + sum over the edges j -> i of w[ji] x[j]): Xu et al., "How powerful are graph neural
    networks?", arXiv 1810.00826, equation 4.1.

    learn_eps  whether eps is learned, from 0 (GIN-eps), or stays 0 (GIN-0)
    """

    def __init__(self, in_features: Size, hidden: Size, *, num_mlp_layers: Size = 2, learn_eps: bool = False) -> None:
        self.mlp = GINMLP(in_features, hidden, num_layers=num_mlp_layers)
        self.eps = Parameter(pdl.zeros((1,))) if learn_eps else None

    def forward(self, adjacency: CSR, x: Tensor, edge_weight: Any = None) -> Tensor:
        """[N, in] -> [N, hidden]."""
        return self.mlp(self._own(x) + pdl.spmm(adjacency, x, edge_weight))  # type: ignore[no-any-return]

    def _own(self, x: Tensor) -> Tensor:
        return x if self.eps is None else x * (1.0 + self.eps)


class GINEConv(GINConv):
    """y[i] = MLP((1 + eps) x[i] + sum over the edges j -> i of relu(x[j] + e[ji] W + b)), e the attributes of edges:
    Hu et al., "Strategies for pre-training graph neural networks", arXiv 1905.12265, appendix A, in the form with relu
    that is known as GINE."""

    def __init__(self, in_features: Size, hidden: Size, num_edge_features: Size, **options: Inherited) -> None:
        super().__init__(in_features, hidden, **options)
        self.edge = Linear(num_edge_features, in_features)

    def forward(self, adjacency: CSR, x: Tensor, edge_weight: Any = None, edge_attr: Any = None) -> Tensor:
        """x [N, in], edge_attr [E, D] -> [N, hidden]."""
        message = pdl.relu(pdl.segment_take(x, pdl.as_tensor(adjacency.indices)) + self.edge(pdl.as_tensor(edge_attr)))
        if edge_weight is not None:
            message = message * pdl.as_tensor(edge_weight).reshape((-1, 1))
        got = pdl.segment_sum(message, pdl.as_tensor(adjacency.row), num_segments=adjacency.shape[0])
        return self.mlp(self._own(x) + got)  # type: ignore[no-any-return]


class GIN(GraphModel):
    """Graph isomorphism network: `num_layers` times x = relu(BatchNorm(GINConv(x))), arXiv 1810.00826.

    num_classes     numbers for each node, from one linear layer at the end; None: there is none, as in an encoder, and
                    `num_classes` is the width of what `embed` gives
    num_layers      convolutions; the paper's "5 layers, the input included" are 4
    num_mlp_layers  linear layers in each
    learn_eps       GIN-eps, else GIN-0
    jumping         what `embed` gives: "concat", x before the first layer and after each, side by side (Xu et al.,
                    arXiv 1806.03536; a linear layer on the sums of these over a graph is the paper's equation 4.2);
                    "sum" of all layers; or the "last"
    dropout         after each layer
    """

    def __init__(
        self,
        num_features: Size | None = None,
        num_classes: Size | None = None,
        *,
        hidden: Size = 32,
        num_layers: Size = 4,
        num_mlp_layers: Size = 2,
        learn_eps: bool = False,
        jumping: Jumping = "concat",
        dropout: Rate = 0.0,
    ) -> None:
        self.num_features, self.jumping, self.dropout = required(self, num_features=num_features), jumping, dropout
        options = {"num_mlp_layers": num_mlp_layers, "learn_eps": learn_eps}
        self.convs = ModuleList(
            self._conv(hidden if i else self.entry(hidden), hidden, options) for i in range(num_layers)
        )
        self.norms = ModuleList(BatchNorm1d(hidden) for _ in range(num_layers))
        width = self.entry(hidden) + num_layers * hidden if jumping == "concat" else hidden
        self.head = None if num_classes is None else Linear(width, num_classes)
        self.num_classes = num_classes or width

    def entry(self, hidden: int) -> int:
        """The width of what the first layer reads."""
        return self.num_features

    def _conv(self, in_features: int, hidden: int, options: dict[str, Any]) -> Module:
        return GINConv(in_features, hidden, **options)

    def start(self, graph: GraphBatch) -> Tensor:
        """What the first layer reads, [N, entry]."""
        return pdl.as_tensor(graph.x)

    def convolve(self, conv: Module, graph: GraphBatch, x: Tensor) -> Tensor:
        """One convolution."""
        return conv(graph.adjacency, x, graph.edge_weight)  # type: ignore[no-any-return]

    def embed(self, graph: GraphBatch) -> Tensor:
        x = self.start(graph)
        layers = [x]
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = norm(self.convolve(conv, graph, x), activation="relu")
            if self.dropout:
                x = pdl.dropout(x, p=self.dropout, training=self.training)
            layers.append(x)
        if self.jumping == "concat":
            return pdl.concat(layers, axis=1)
        return x if self.jumping == "last" else sum(layers[2:], start=layers[1])

    def forward(self, graph: GraphBatch) -> Tensor:
        """[N, num_classes]."""
        x = self.embed(graph)
        return x if self.head is None else self.head(x)  # type: ignore[no-any-return]


class GINE(GIN):
    """GIN that reads attributes of edges, such as kinds of bonds (`GINEConv`), behind a linear layer to `hidden`; by
    default `embed` gives the last layer. Other arguments as in `GIN`."""

    def __init__(
        self,
        num_features: Size | None = None,
        num_classes: Size | None = None,
        *,
        num_edge_features: Size | None = None,
        hidden: Size = 64,
        learn_eps: bool = True,
        jumping: Jumping = "last",
        **options: Inherited,
    ) -> None:
        if num_edge_features is None:
            raise ConfigError(
                "GINE needs num_edge_features; for graphs whose edges have no attributes use pdl_graph.GIN"
            )
        self.num_edge_features = num_edge_features
        super().__init__(num_features, num_classes, hidden=hidden, learn_eps=learn_eps, jumping=jumping, **options)
        self.stem = Linear(self.num_features, hidden)

    def entry(self, hidden: int) -> int:
        return hidden

    def _conv(self, in_features: int, hidden: int, options: dict[str, Any]) -> Module:
        return GINEConv(in_features, hidden, self.num_edge_features, **options)

    def start(self, graph: GraphBatch) -> Tensor:
        return self.stem(super().start(graph))  # type: ignore[no-any-return]

    def convolve(self, conv: Module, graph: GraphBatch, x: Tensor) -> Tensor:
        return conv(graph.adjacency, x, graph.edge_weight, graph.edge_attr)  # type: ignore[no-any-return]


TASK = "node classification"
VARIANTS = {"gin": {"_target_": "pdl_graph.GIN"}, "gine": {"_target_": "pdl_graph.GINE"}}
