"""Decoders that measure an embedding: the probability of an edge, or of labels, by logistic regression."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

import pdl
from pdl.nn import Module
from pdl.tensor import Tensor
from pdl_graph.data.edges import EdgeSplit
from pdl_graph.data.pairs import edge_keys, non_edges, pairs_of
from pdl_graph.embedding.logistic import fit

Array = np.ndarray
Operator = Literal["hadamard", "average", "l1", "l2"]
"""How the vectors of two nodes become one (node2vec, arXiv 1607.00653, table 1): their product, mean, absolute or
squared difference, number by number."""


def combined(operator: Operator, a: Any, b: Any) -> Any:
    """[..., C] of two nodes each -> [..., C]; arrays or tensors."""
    if operator == "hadamard":
        return a * b
    if operator == "average":
        return (a + b) * 0.5
    return abs(a - b) if operator == "l1" else (a - b) * (a - b)


class Linear(Module):
    """Scores weight x + bias: [N, C] -> [N, K], of what `fit` found."""

    weight: Tensor
    bias: Tensor

    def __init__(self, weight: Array, bias: Array) -> None:
        self.register_buffer("weight", pdl.Tensor(np.ascontiguousarray(weight.T, np.float32)))
        self.register_buffer("bias", pdl.Tensor(np.asarray(bias, np.float32)))

    def forward(self, x: Tensor) -> Tensor:
        return pdl.matmul(x, self.weight) + self.bias


class PairDecoder(Linear):
    """The logit of an edge between nodes, [P, 2] of rows of a table of vectors [N + 1, C] -> [P]."""

    def __init__(self, operator: Operator, weight: Array, bias: Array) -> None:
        super().__init__(weight, bias)
        self.operator = operator

    def forward(self, vectors: Tensor, pair: Tensor) -> Tensor:  # type: ignore[override]
        ends = pdl.take(vectors, pair[:, 0]), pdl.take(vectors, pair[:, 1])
        return super().forward(combined(self.operator, *ends))[:, 0]


def for_pairs(
    vectors: Array, split: EdgeSplit, rows: Array | None, *, operator: Operator, l2: float, most: int
) -> PairDecoder:
    """Learned of the edges of the training split (`rows` of them, `most` at most, evenly spread) and as many pairs that
    no edge of the message graph joins, by the seed of the split."""
    pairs = split.pairs[split.targets == 1] if rows is None else split.pairs[rows]
    if len(pairs) > most:
        pairs = pairs[np.arange(most) * len(pairs) // most]
    rng, n, graph = np.random.default_rng([split.seed, len(pairs)]), split.whole.num_nodes, split.graph
    negatives = pairs_of(non_edges(edge_keys(graph), n, len(pairs), rng, directed=graph.directed), n)
    both = np.concatenate([pairs, negatives]) + 1
    label = np.arange(len(both)) < len(pairs)
    return PairDecoder(
        operator, *fit(combined(operator, vectors[both[:, 0]], vectors[both[:, 1]]), label[:, None], l2=l2)
    )


def for_labels(vectors: Array, nodes: Array, labels: Array, *, l2: float) -> Linear:
    """Learned of some nodes with labels bool [n, K]."""
    return Linear(*fit(vectors[nodes + 1], labels, l2=l2))


def rows_of_labels(y: Array, count: int) -> Array:
    """Labels as rows, bool [n, count], of classes or of rows."""
    return np.asarray(y > 0) if y.ndim == 2 else np.asarray(y[:, None] == np.arange(count))
