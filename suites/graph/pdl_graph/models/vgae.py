"""Graph autoencoders."""

from __future__ import annotations

from typing import Annotated, Any

import pdl
from pdl import Tensor
from pdl.hints import Inherited, Range
from pdl_graph.batch import GraphBatch
from pdl_graph.models.gcn import GCNConv
from pdl_graph.models.link import Decoder, DotDecoder, LinkModel, ends
from pdl_graph.models.mlp import Rate, Size
from pdl_graph.models.propagation import gcn_norm, required

MAX_LOGSTD = 10.0


class GAE(LinkModel):
    """Z = S relu(S X W_0) W_1, an edge's logit <z_i, z_j>: Kipf & Welling, "Variational graph auto-encoders", arXiv
    1611.07308, the autoencoder without distributions. S is the normalised adjacency with self-loops.

    hidden    width of the layer between;  dim  numbers in a vector;  dropout  before both layers
    length    of every vector, where one is given: z_i length / |z_i|, as VGNAE does (Ahn & Kim, arXiv 2108.08046), so
              that nodes of few edges are not drawn to 0
    decoder   by default the dot product
    """

    self_loops = True

    def __init__(
        self,
        num_features: Size | None = None,
        *,
        hidden: Size = 32,
        dim: Size = 16,
        dropout: Rate = 0.0,
        length: Annotated[float, Range(above=0)] | None = None,
        decoder: Decoder | None = None,
    ) -> None:
        self.num_features = required(self, num_features=num_features)
        self.length, self.decoder = length, DotDecoder() if decoder is None else decoder
        self.first = GCNConv(self.num_features, hidden, bias=False, dropout=dropout)
        self.mean = GCNConv(hidden, dim, bias=False, dropout=dropout)

    def _hidden(self, graph: GraphBatch) -> tuple[Tensor, Tensor]:
        norm = gcn_norm(graph.adjacency, graph.edge_weight)
        return pdl.relu(self.first(graph.adjacency, graph.x, norm=norm)), norm

    def _mean(self, graph: GraphBatch, hidden: Tensor, norm: Tensor) -> Tensor:
        mean = self.mean(graph.adjacency, hidden, norm=norm)
        return mean if self.length is None else pdl.normalize(mean, axis=-1) * self.length  # type: ignore[no-any-return]

    def embed(self, graph: GraphBatch) -> Tensor:
        return self._mean(graph, *self._hidden(graph))

    def decode(self, vectors: Tensor, pair: Any) -> Tensor:
        return self.decoder(*ends(vectors, pair))  # type: ignore[no-any-return]


class VGAE(GAE):
    """The same with a normal distribution for each node, z_i ~ N(mean_i, exp(logstd_i)^2), where
    mean = S relu(S X W_0) W_1 and logstd = S relu(S X W_0) W_2 (arXiv 1611.07308, section 2).

    Training samples z = mean + exp(logstd) noise; `kl` / N times the mean over nodes of the divergence
    from N(0, 1), as in the authors' code, is added to the loss. Nodes are embedded by their means.

    kl   weight of the divergence: 1 is the paper's
    All else is as in `GAE`.
    """

    def __init__(
        self, num_features: Size | None = None, *, kl: Annotated[float, Range(0)] = 1.0, **options: Inherited
    ) -> None:
        super().__init__(num_features, **options)
        self.kl = kl
        self.logstd = GCNConv(*self.mean.weight.shape, bias=False, dropout=self.mean.dropout)

    def encode(self, graph: GraphBatch) -> tuple[Tensor, Tensor | None]:
        hidden, norm = self._hidden(graph)
        mean = self._mean(graph, hidden, norm)
        logstd = pdl.clip(self.logstd(graph.adjacency, hidden, norm=norm), max=MAX_LOGSTD)
        nodes = mean.shape[0]
        divergence = (pdl.exp(2.0 * logstd) + mean * mean - 1.0 - 2.0 * logstd).sum() * (0.5 / nodes)
        return mean + pdl.exp(logstd) * pdl.noise(mean.shape), divergence * (self.kl / nodes)


TASK = "link prediction"
VARIANTS = {"gae": {"_target_": "pdl_graph.GAE"}, "vgae": {"_target_": "pdl_graph.VGAE"}}
