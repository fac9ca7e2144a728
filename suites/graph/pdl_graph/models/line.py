"""LINE."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np

import pdl
from pdl.data.negatives import Negatives
from pdl.errors import ConfigError
from pdl.hints import Range
from pdl.tensor import Tensor
from pdl_graph.graph import Graph
from pdl_graph.models.skip_gram import Array, Sampler, SkipGram, neighbours_of


class Edges(Sampler):
    """Edges (source, target) in proportion to their weights, with repetition; as many as there are."""

    def __init__(self, graph: Graph, seed: int) -> None:
        self.count, self.near = graph.num_edges, neighbours_of(graph, seed)
        strength = np.bincount(graph.edges()[0], graph.edge_weight, minlength=graph.num_nodes)
        self.sources = Negatives(graph.num_nodes, counts=np.append(0, strength), seed=seed) if self.count else None

    def __len__(self) -> int:
        return self.count

    def draw(self, numbers: Array, *, epoch: int) -> Array:
        assert self.sources is not None
        sources = self.sources.rows(numbers, 1, epoch=epoch, step=0)[:, 0]
        return self.near.walks(sources - 1, 1, epoch=epoch, streams=numbers).astype(np.int64) + 1


class LINE(SkipGram):
    """Tang et al., "LINE: large-scale information network embedding", arXiv 1503.03578: edges, drawn in proportion to
    their weights, make their ends contexts of one another; an epoch draws as many as there are.

    order   "first": who is joined is alike (a node has one vector, as itself and as a context);   "second": who has
            the same neighbours is alike;   "both": a half of the vector each, which are then scaled to length 1
    num_nodes, dim and sparse are those of `SkipGram`.
    """

    def __init__(
        self,
        num_nodes: Annotated[int, Range(1)] | None = None,
        *,
        dim: Annotated[int, Range(2)] = 128,
        order: Literal["first", "second", "both"] = "both",
        sparse: bool = True,
    ) -> None:
        if order == "both" and dim % 2:
            raise ConfigError(f"model.dim={dim}: with order=both each order has a half of it; dim must be even")
        super().__init__(num_nodes, dim // 2 if order == "both" else dim, sparse)
        self.dim, self.order = dim, order
        if order == "first":
            self.contexts = self.nodes
        if order == "both":
            self.joined = self.table(dim // 2, sparse)

    def sampler(self, graph: Graph, seed: int) -> Sampler:
        return Edges(graph, seed)

    def loss(self, sequences: Tensor, negatives: Tensor, num_negatives: int) -> Tensor:
        tables = [(self.nodes, self.contexts)] + ([(self.joined, self.joined)] if self.order == "both" else [])
        total = None
        for nodes, contexts in tables:
            x, c, n = nodes(sequences[:, 0]), contexts(sequences[:, 1]), contexts(negatives)
            own = pdl.softplus(-(x * c).sum(axis=1)).mean()
            negative = pdl.softplus(pdl.matmul(x, pdl.swapaxes(n, 0, 1))).mean() * num_negatives
            total = own + negative if total is None else total + own + negative
        assert total is not None
        return total

    def vectors(self) -> Tensor:
        if self.order != "both":
            return self.nodes.weight
        return pdl.concat([_unit(self.joined.weight), _unit(self.nodes.weight)], axis=1)


def _unit(rows: Tensor) -> Tensor:
    return rows / pdl.sqrt(pdl.maximum(pdl.square(rows).sum(axis=1, keepdims=True), 1e-12))


TASK = "node embedding"
VARIANTS = {"line": {"_target_": "pdl_graph.LINE"}}
