"""Graph attention networks."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Any

import pdl
from pdl import Tensor
from pdl.hints import Inherited, Range
from pdl.nn import Module, ModuleList, Parameter, init
from pdl.ops import CSR
from pdl_graph.batch import GraphBatch, dropped, project
from pdl_graph.models.base import GraphModel
from pdl_graph.models.mlp import Rate, Size
from pdl_graph.models.propagation import required

Slope = Annotated[float, Range(0)]


class _Attention(Module):
    """What both kinds share: heads, the softmax over the edges into a node, the sum over them."""

    def __init__(
        self,
        in_features: Size,
        out_features: Size,
        *,
        heads: Size = 1,
        concat: bool = True,
        dropout: Rate = 0.0,
        attention_dropout: Rate = 0.0,
        slope: Slope = 0.2,
        bias: bool = True,
    ) -> None:
        self.in_features, self.out_features, self.heads, self.concat = in_features, out_features, heads, concat
        self.dropout, self.attention_dropout, self.slope = dropout, attention_dropout, slope
        self.bias = Parameter(pdl.zeros((heads * out_features if concat else out_features,))) if bias else None

    def _projection(self) -> Parameter:
        return Parameter(init.xavier_uniform_(pdl.zeros((self.in_features, self.heads * self.out_features))))

    def _vectors(self) -> Parameter:
        """One for each head, drawn as a [1, heads * out] matrix would be (PyTorch Geometric's reading of Glorot)."""
        bound = (6.0 / (self.heads + self.out_features)) ** 0.5
        return Parameter(init.uniform_(pdl.zeros((self.heads, self.out_features)), -bound, bound))

    def _heads(self, x: Any, weight: Tensor) -> Tensor:
        """x W as [N, heads, out]."""
        made = project(x, weight)
        return pdl.reshape(made, (made.shape[0], self.heads, self.out_features))

    def _scores(self, h: Tensor, vectors: Tensor) -> Tensor:
        """<a, h> for each head, [N, heads, out] -> [N, heads]: a product with a matrix that has a head's vector in the
        rows of that head and 0 elsewhere."""
        own = pdl.expand_dims(pdl.eye(self.heads, dtype=h.dtype), axis=1)
        matrix = pdl.reshape(pdl.expand_dims(vectors, axis=2) * own, (-1, self.heads))
        return pdl.matmul(pdl.reshape(h, (h.shape[0], -1)), matrix)

    def _sum(self, adjacency: CSR, score: Tensor, h: Tensor) -> Tensor:
        """The weighted sum of h [columns, heads, out] by the softmax of the scores [E, heads]: [rows, out']."""
        alpha = pdl.edge_softmax(adjacency, score)
        alpha = pdl.dropout(alpha, p=self.attention_dropout, training=self.training)
        y = pdl.spmm(adjacency, h, alpha)
        y = pdl.reshape(y, (y.shape[0], -1)) if self.concat or self.heads == 1 else y.mean(axis=1)
        return y if self.bias is None else y + self.bias


class GATConv(_Attention):
    """Velickovic et al., "Graph attention networks", arXiv 1710.10903, equations 1 to 6. For each head

        h = dropout(x) W,   s_ij = leaky_relu(<a_r, h_i> + <a_s, h_j>),   alpha_ij = softmax over j of s_ij
        y_i = sum over j of dropout(alpha_ij) h_j + b

    and the heads beside one another (`concat`), or their mean.

    heads, out_features  their number, and the width of each
    dropout              of x;  attention_dropout  of alpha
    slope                of leaky_relu below 0
    """

    def __init__(self, in_features: Size, out_features: Size, **options: Inherited) -> None:
        super().__init__(in_features, out_features, **options)
        self.weight = self._projection()
        self.receive, self.send = self._vectors(), self._vectors()

    def forward(self, adjacency: CSR, x: Any) -> Tensor:
        """x [columns, in], dense or `SparseFeatures` -> [rows, heads * out], or [rows, out] of the mean. Where there
        are fewer rows than columns, the nodes that receive are the first of those that send."""
        h = self._heads(dropped(x, self.dropout, training=self.training), self.weight)
        receive, send = self._scores(_receiving(adjacency, h), self.receive), self._scores(h, self.send)
        s = pdl.at_rows(adjacency, receive) + pdl.at_columns(adjacency, send)
        return self._sum(adjacency, pdl.leaky_relu(s, negative_slope=self.slope), h)


class GATv2Conv(_Attention):
    """Brody, Alon, Yahav, "How attentive are graph attention networks?", arXiv 2105.14491, equation 7: as `GATConv`,
    but

        s_ij = <a, leaky_relu(W_r x_i + W_s x_j)>,   y_i = sum over j of dropout(alpha_ij) W_s x_j + b

    share  W_r = W_s
    """

    def __init__(self, in_features: Size, out_features: Size, *, share: bool = False, **options: Inherited) -> None:
        super().__init__(in_features, out_features, **options)
        self.weight = self._projection()
        self.receive = None if share else self._projection()
        self.attention = self._vectors()

    def forward(self, adjacency: CSR, x: Any) -> Tensor:
        """As that of `GATConv`."""
        x = dropped(x, self.dropout, training=self.training)
        h = self._heads(x, self.weight)
        receive = _receiving(adjacency, h if self.receive is None else self._heads(x, self.receive))
        both = pdl.at_rows(adjacency, receive) + pdl.at_columns(adjacency, h)
        return self._sum(adjacency, (pdl.leaky_relu(both, negative_slope=self.slope) * self.attention).sum(axis=-1), h)


def _receiving(adjacency: CSR, h: Tensor) -> Tensor:
    """Of the nodes that send, those that receive: the first."""
    rows, columns = adjacency.shape
    return h if rows == columns else h[:rows]


class GAT(GraphModel):
    """Attention layers with ELU between them; the heads of the last are averaged: Velickovic et al., arXiv 1710.10903,
    section 3.3.

    hidden             width of each head between;  heads  how many there;  out_heads  and in the last layer
    num_layers         how many there are in all
    dropout            before each layer;  attention_dropout  of the attention
    """

    self_loops = True
    conv: type[_Attention] = GATConv

    def __init__(
        self,
        num_features: Size | None = None,
        num_classes: Size | None = None,
        *,
        hidden: Size = 8,
        heads: Size = 8,
        out_heads: Size = 1,
        num_layers: Size = 2,
        dropout: Rate = 0.6,
        attention_dropout: Rate = 0.6,
        slope: Slope = 0.2,
    ) -> None:
        self.num_features = required(self, num_features=num_features)
        self.num_classes = required(self, num_classes=num_classes)
        sizes = [self.num_features, *[hidden * heads] * (num_layers - 1)]
        about: dict[str, Any] = {"dropout": dropout, "attention_dropout": attention_dropout, "slope": slope}
        convs = [self.conv(a, hidden, heads=heads, **about) for a, _ in pairwise(sizes)]
        last = self.conv(sizes[-1], self.num_classes, heads=out_heads, concat=False, **about)
        self.convs = ModuleList([*convs, last])

    def embed(self, graph: GraphBatch) -> Tensor:
        x = graph.x
        for conv in list(self.convs)[:-1]:
            x = pdl.elu(conv(graph.adjacency, x))
        return x  # type: ignore[no-any-return]

    def forward(self, graph: GraphBatch) -> Tensor:
        return self.convs[-1](graph.adjacency, self.embed(graph))  # type: ignore[no-any-return]


class GATv2(GAT):
    """`GAT` of `GATv2Conv`: Brody, Alon, Yahav, arXiv 2105.14491."""

    conv = GATv2Conv


TASK = "node classification"
VARIANTS = {"gat": {"_target_": "pdl_graph.GAT"}, "gatv2": {"_target_": "pdl_graph.GATv2"}}
