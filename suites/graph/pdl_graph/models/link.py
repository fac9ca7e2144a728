"""Models of links: an encoder gives every node a vector, a decoder scores two of them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pdl
from pdl import Tensor
from pdl.nn import Linear, Module, ModuleList, Parameter, init
from pdl_graph.batch import GraphBatch
from pdl_graph.models.base import GraphModel
from pdl_graph.models.mlp import Rate, Size


class Decoder(Module):
    """Base of decoders."""

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Logits [P] of an edge from the nodes with vectors source [P, C] to those with target [P, C]."""
        raise NotImplementedError(f"{type(self).__name__} must define forward")


class DotDecoder(Decoder):
    """<u, v>."""

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        return (source * target).sum(axis=-1)


class BilinearDecoder(Decoder):
    """u^T W v + b (RESCAL); with `diagonal` sum_c w_c u_c v_c + b (DistMult, Yang et al., arXiv 1412.6575), which is
    the same in both directions. W begins as the identity: as the dot product."""

    def __init__(self, dim: Size, *, diagonal: bool = False) -> None:
        self.diagonal = diagonal
        self.weight = Parameter(pdl.ones((dim,)) if diagonal else init.eye_(pdl.zeros((dim, dim))))
        self.bias = Parameter(pdl.zeros((1,)))

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        mapped = source * self.weight if self.diagonal else pdl.matmul(source, self.weight)
        return (mapped * target).sum(axis=-1) + self.bias


class MLPDecoder(Decoder):
    """A perceptron on u * v, element by element (Hu et al., arXiv 2005.00687, section 4): the same in both directions.

    hidden   width of the layers between;  num_layers  how many there are in all;  dropout  after each but the last
    """

    def __init__(self, dim: Size, *, hidden: Size = 64, num_layers: Size = 2, dropout: Rate = 0.0) -> None:
        self.dropout = dropout
        self.layers = ModuleList(Linear(a, b) for a, b in pairwise([dim, *[hidden] * (num_layers - 1), 1]))

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        x = source * target
        for layer in list(self.layers)[:-1]:
            x = pdl.dropout(pdl.relu(layer(x)), p=self.dropout, training=self.training)
        return self.layers[-1](x).squeeze(axis=-1)  # type: ignore[no-any-return]


class LinkModel(Module):
    """Base of models that `pdl_graph.LinkPrediction` trains: nodes become vectors, two vectors a logit."""

    @property
    def self_loops(self) -> bool:
        """Whether the graph it reads must have an edge from every node to itself."""
        return False

    def embed(self, graph: GraphBatch) -> Tensor:
        """Vectors of the nodes [N, C]."""
        raise NotImplementedError(f"{type(self).__name__} must define embed")

    def encode(self, graph: GraphBatch) -> tuple[Tensor, Tensor | None]:
        """Vectors to learn from, possibly sampled (as in a VAE), and the term to add to the loss."""
        return self.embed(graph), None

    def decode(self, vectors: Tensor, pair: Any) -> Tensor:
        """Logits [P] of pairs int64 [P, 2] of nodes, (source, target)."""
        raise NotImplementedError(f"{type(self).__name__} must define decode")

    def forward(self, graph: GraphBatch, pair: Any) -> Tensor:
        """Logits [P] of edges between pairs int64 [P, 2] of the graph's nodes."""
        return self.decode(self.embed(graph), pair)


class LinkPredictor(LinkModel):
    """Any graph net as the encoder, its outputs (`num_classes` numbers, which the recipe gives) as vectors of nodes.

    encoder      a `GraphModel`, such as pdl_graph.GCN;  decoder  by default the dot product
    penultimate  take the encoder's vectors before its last layer (`embed`) instead of its outputs
    """

    def __init__(self, encoder: GraphModel, decoder: Decoder | None = None, *, penultimate: bool = False) -> None:
        self.encoder, self.decoder = encoder, DotDecoder() if decoder is None else decoder
        self.penultimate = penultimate

    @property
    def self_loops(self) -> bool:
        return self.encoder.self_loops

    def embed(self, graph: GraphBatch) -> Tensor:
        return self.encoder.embed(graph) if self.penultimate else self.encoder(graph)  # type: ignore[no-any-return]

    def decode(self, vectors: Tensor, pair: Any) -> Tensor:
        return self.decoder(*ends(vectors, pair))  # type: ignore[no-any-return]


def ends(vectors: Tensor, pair: Any) -> tuple[Tensor, Tensor]:
    """The vectors [P, C] of the first and of the second nodes of pairs [P, 2]."""
    pair = pdl.as_tensor(pair)
    return pdl.segment_take(vectors, pair[:, 0]), pdl.segment_take(vectors, pair[:, 1])
