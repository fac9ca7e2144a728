"""What training reads: sequences of nodes as the model draws them, and nodes drawn as what is no context. Built by the
loader's thread, beside the training step."""

from __future__ import annotations

from typing import Any

import numpy as np

from pdl.data import Batch, Dataset, Sample
from pdl.data.negatives import Negatives
from pdl.errors import ConfigError
from pdl_graph.graph import Graph
from pdl_graph.models.skip_gram import SkipGram

POWER = 0.75  # of the degrees, in proportion to which nodes are drawn (arXiv 1310.4546)


class Sequences(Dataset):
    """An epoch of a model's sequences over a graph; a batch is {"sequence": int64 [B, L], "negatives": int64 [k]}, rows
    of the model's tables. Every epoch has sequences of its own, from the same starts.

    A sequence is a function of (seed, epoch, its number), and "negatives" of the number of the batch's first one.
    """

    def __init__(self, graph: Graph, model: SkipGram, k: int, *, seed: int, origin: Any = None) -> None:
        self.sampler, self.k, self.dataset, self.epoch = model.sampler(graph, seed), k, origin, 0
        if not len(self.sampler):
            raise ConfigError("data.train: the graph has no edges, so nothing can be learned of it")
        degree = graph.in_degree() + graph.out_degree()
        self.negatives = Negatives(graph.num_nodes, counts=np.append(0, degree), alpha=POWER, seed=seed)

    def __len__(self) -> int:
        return len(self.sampler)

    def set_epoch(self, epoch: int) -> None:
        """New draws for every epoch."""
        self.epoch = epoch

    def __getitem__(self, index: int) -> Sample:
        return {"sequence": self.get_batch(np.array([index]))["sequence"][0]}

    def get_batch(self, indices: np.ndarray) -> Batch:
        """The sequences with these numbers."""
        found = self.sampler.draw(indices, epoch=self.epoch)
        negatives = self.negatives.shared(self.k, epoch=self.epoch, step=int(indices[0]))
        return {"sequence": found, "negatives": negatives}
