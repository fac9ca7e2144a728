"""What link prediction reads in training: the edges of the split, and pairs without one, new in each epoch."""

from __future__ import annotations

from typing import Any

import numpy as np

from pdl.data import Dataset
from pdl.errors import ConfigError
from pdl.program.tree import rebuild
from pdl.tensor import as_tensor
from pdl_graph.batch import GraphBatch
from pdl_graph.data.base import unwrap
from pdl_graph.data.edges import EdgeSplit
from pdl_graph.data.pairs import edge_keys, non_edges, pairs_of
from pdl_graph.features import identity_features
from pdl_graph.graph import Graph

Array = np.ndarray


def split_of(dataset: Any) -> tuple[EdgeSplit, Array | None]:
    """The `EdgeSplit` under `pdl.data.Few` and `Subset`, and which of its samples they leave (None: all)."""
    base, rows = unwrap(getattr(dataset, "origin", dataset))
    if not isinstance(base, EdgeSplit):
        raise ConfigError(f"{type(base).__name__} holds no pairs of nodes; use pdl_graph.data.EdgeSplit")
    return base, rows


class TrainingPairs(Dataset):
    """Edges of training; a batch is {"pair": int64 [B (1 + k), 2], "label": float32 [B (1 + k)]}, edges first, each
    followed, further down, by k pairs that no edge of the message graph joins.

    These are drawn uniformly, anew in each epoch, from (seed, epoch). What is not known in training may be among them:
    edges of val and test as likely as pairs without an edge, so nothing is learned of either.
    """

    def __init__(self, dataset: Any, num_negatives: int, *, seed: int = 0) -> None:
        self.origin = dataset
        split, rows = split_of(dataset)
        pairs, graph = split.pairs[split.targets == 1] if rows is None else split.pairs[rows], split.graph
        self.pairs, self.num_negatives, self.seed = pairs, num_negatives, seed
        self.nodes, self.directed, self.joined = graph.num_nodes, graph.directed, edge_keys(graph)
        self.set_epoch(0)

    def __len__(self) -> int:
        return len(self.pairs)

    def set_epoch(self, epoch: int) -> None:
        """Draw the pairs of this epoch."""
        rng = np.random.default_rng([self.seed, epoch])
        count = len(self.pairs) * self.num_negatives
        sampled = non_edges(self.joined, self.nodes, count, rng, directed=self.directed)
        self.negatives = pairs_of(sampled, self.nodes).reshape(len(self.pairs), self.num_negatives, 2)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return self.get_batch(np.array([index]))

    def get_batch(self, indices: Array) -> dict[str, Array]:
        """Edges with these numbers, and their negatives."""
        pair = np.concatenate([self.pairs[indices], self.negatives[indices].reshape(-1, 2)])
        label = np.zeros(len(pair), np.float32)
        label[: len(indices)] = 1
        return {"pair": pair, "label": label}


def as_constant(graph: Graph, *, self_loops: bool = False) -> GraphBatch:
    """The arrays of a graph as tensors that compiled steps capture; nodes without features have the identity's."""
    graph = graph if graph.x is not None else graph.with_(x=identity_features(graph.num_nodes))
    made: GraphBatch = rebuild((graph.with_self_loops() if self_loops else graph).batch(), as_tensor)
    return made
