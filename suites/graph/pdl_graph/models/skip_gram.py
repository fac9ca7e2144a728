"""Vectors of nodes by skip-gram: what the methods have in common, and those that walk at random: DeepWalk, node2vec,
metapath2vec."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np

import pdl
from pdl.errors import ConfigError
from pdl.hints import Inherited, Range
from pdl.nn import Embedding, Module, init
from pdl.tensor import Tensor
from pdl_graph.graph import Graph
from pdl_graph.neighbours import Neighbours

Array = np.ndarray
Count = Annotated[int, Range(1)]
Positive = Annotated[float, Range(above=0)]


def neighbours_of(graph: Graph, seed: int = 0) -> Neighbours:
    """Where the edges of each node lead, in proportion to their weights if they have some."""
    along = graph.reversed()  # a graph lists for each node the edges into it
    return Neighbours(along.indptr, along.indices, weights=along.edge_weight, seed=seed)


class Sampler:
    """What draws the sequences of nodes that an epoch learns of; `len` says how many there are."""

    def __len__(self) -> int:
        raise NotImplementedError(f"{type(self).__name__} must define __len__")

    def draw(self, numbers: Array, *, epoch: int) -> Array:
        """The sequences with these numbers, int64 [S]: int64 [S, L] of rows of the tables (node i is row i + 1), 0
        where a sequence has ended. A function of (seed, epoch, number)."""
        raise NotImplementedError(f"{type(self).__name__} must define draw")


class Walks(Sampler):
    """A walk from each of some nodes, int64 [S]; see `pdl_graph.Neighbours.walks`."""

    def __init__(
        self,
        near: Neighbours,
        starts: Array,
        nodes: int,
        *,
        p: float = 1.0,
        q: float = 1.0,
        along: Sequence[Neighbours] | None = None,
    ) -> None:
        self.near, self.starts, self.steps = near, starts, nodes - 1
        self.how = {"p": p, "q": q, "along": along}

    def __len__(self) -> int:
        return len(self.starts)

    def draw(self, numbers: Array, *, epoch: int) -> Array:
        starts = self.starts[numbers]
        found = self.near.walks(starts, self.steps, epoch=epoch, streams=numbers, **self.how)  # type: ignore[arg-type]
        return found.astype(np.int64) + 1


class SkipGram(Module):
    """Base of the models that give each node a vector x and, as the context of others, a vector c, by telling the
    contexts of a node from other nodes (skip-gram with negative sampling: Mikolov et al., arXiv 1310.4546):

        - log s(x_u c_v) - k E_n log s(- x_u c_n)    for u and its context v; n ~ degree ** 0.75

    The expectation is the mean over the negatives that all contexts of a batch share.

    num_nodes   tables have one row more: row 0 is no node's, row i + 1 node i's
    dim         numbers in the vector of a node
    sparse      gradients and updates of the rows in use alone

    A model says what draws sequences of nodes (`sampler`), and what a batch of them costs (`loss`). As word2vec does, x
    begins with U(-1/2, 1/2) / dim and c with 0.
    """

    def __init__(self, num_nodes: int | None, dim: int, sparse: bool) -> None:
        if num_nodes is None:
            raise ConfigError(f"{type(self).__name__} needs num_nodes; the task infers it")
        self.num_nodes, self.dim = num_nodes, dim
        self.nodes = self.table(dim, sparse)
        self.contexts = self.table(dim, sparse)
        self.contexts.weight.data[:] = 0

    def table(self, dim: int, sparse: bool) -> Embedding:
        """Vectors for all nodes, and row 0."""
        made = Embedding(self.num_nodes + 1, dim, padding_idx=0, sparse=sparse)
        init.uniform_(made.weight, -0.5 / dim, 0.5 / dim)
        made.weight.data[0] = 0
        return made

    # -- what a model defines ------------------------------------------------------------------------------------------
    def sampler(self, graph: Graph, seed: int) -> Sampler:
        """What draws sequences from a graph."""
        raise NotImplementedError(f"{type(self).__name__} must define sampler")

    def loss(self, sequences: Tensor, negatives: Tensor, num_negatives: int) -> Tensor:
        """The mean over the contexts of a batch: int64 [S, L], int64 [K] negatives, the k of the formula."""
        raise NotImplementedError(f"{type(self).__name__} must define loss")

    def vectors(self) -> Tensor:
        """[num_nodes + 1, dim]; row 0 is 0."""
        return self.nodes.weight

    def forward(self, number: Tensor) -> Tensor:
        """The vectors of nodes by row."""
        return pdl.take(self.vectors(), number)


class DeepWalk(SkipGram):
    """Perozzi et al., "DeepWalk: online learning of social representations", arXiv 1403.6652: nodes that short random
    walks meet together are contexts of one another. Here with negative sampling, and no tree.

    walk_length  nodes of a walk; one begins at every node that has neighbours, in each epoch
    window       a context is at most so many steps away; one at distance d counts (window - d + 1) / window, which is
                 how often word2vec, which draws the window of each word, takes it
    num_nodes, dim and sparse are those of `SkipGram`.
    """

    p = q = 1.0

    def __init__(
        self,
        num_nodes: Count | None = None,
        *,
        dim: Count = 128,
        walk_length: Annotated[int, Range(2)] = 40,
        window: Count = 10,
        sparse: bool = True,
    ) -> None:
        super().__init__(num_nodes, dim, sparse)
        self.walk_length, self.window = walk_length, window
        place = np.arange(walk_length)
        apart = np.abs(place[:, None] - place)
        self.band = np.where((apart > 0) & (apart <= window), (window + 1 - apart) / window, 0).astype(np.float32)

    def sampler(self, graph: Graph, seed: int) -> Sampler:
        starts = np.flatnonzero(graph.out_degree() > 0)
        return Walks(neighbours_of(graph, seed), starts, self.walk_length, p=self.p, q=self.q)

    def loss(self, sequences: Tensor, negatives: Tensor, num_negatives: int) -> Tensor:
        x, c, n = self.nodes(sequences), self.contexts(sequences), self.contexts(negatives)
        there = pdl.astype(pdl.greater(sequences, 0), pdl.float32)
        weight = pdl.as_tensor(self.band) * pdl.expand_dims(there, axis=1) * pdl.expand_dims(there, axis=2)
        contexts = weight.sum(axis=2, keepdims=True)
        own = pdl.softplus(-pdl.matmul(x, pdl.swapaxes(c, 1, 2))) * weight
        negative = pdl.softplus(pdl.matmul(x, pdl.swapaxes(n, 0, 1))) * contexts
        return (own.sum() + negative.sum() * (num_negatives / negatives.shape[0])) / pdl.maximum(contexts.sum(), 1.0)


class Node2Vec(DeepWalk):
    """Grover and Leskovec, "node2vec: scalable feature learning for networks", arXiv 1607.00653: DeepWalk whose walks,
    having come from t, step back to t 1/p, to a neighbour of t 1, and farther away 1/q times as likely.

    p, q   small p keeps walks near where they are, small q sends them away
    All else is as in `DeepWalk`.
    """

    def __init__(
        self, num_nodes: Count | None = None, *, p: Positive = 1.0, q: Positive = 1.0, **options: Inherited
    ) -> None:
        super().__init__(num_nodes, **options)
        self.p, self.q = p, q


class MetaPath2Vec(DeepWalk):
    """Dong et al., "metapath2vec: scalable representation learning for heterogeneous networks", KDD 2017: walks whose
    nodes have the types of a path, over and over.

    path   types of nodes, the last one as the first: [0, 1, 0] of authors 0 and papers 1. One walk begins at every node
           of the first type, in each epoch
    All else is as in `DeepWalk`.
    """

    def __init__(
        self, num_nodes: Count | None = None, *, path: Sequence[Annotated[int, Range(0)]], **options: Inherited
    ) -> None:
        super().__init__(num_nodes, **options)
        if len(path) < 2 or path[0] != path[-1]:
            raise ConfigError(f"model.path: {list(path)} does not end with the type that it begins with")
        self.path = list(path)

    def sampler(self, graph: Graph, seed: int) -> Sampler:
        if graph.node_type is None:
            raise ConfigError("model: MetaPath2Vec follows types of nodes, and the graph has none; use DeepWalk")
        starts = np.flatnonzero((graph.out_degree() > 0) & (graph.node_type == self.path[0]))
        if not len(starts):
            raise ConfigError(f"model.path: no node of type {self.path[0]} has an edge")
        near = neighbours_of(graph, seed)
        steps = {kind: near.to_type(graph.node_type, kind) for kind in set(self.path[1:])}
        return Walks(near, starts, self.walk_length, along=[steps[kind] for kind in self.path[1:]])


TASK = "node embedding"
VARIANTS = {"deepwalk": {"_target_": "pdl_graph.DeepWalk"}, "node2vec": {"_target_": "pdl_graph.Node2Vec"}}
