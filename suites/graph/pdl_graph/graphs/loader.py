"""Batches of whole graphs."""

from __future__ import annotations

from typing import Any

import numpy as np

from pdl.data import Batch, Dataset, RandomSampler, Sample, Sampler
from pdl_graph.data.graphs import Chosen
from pdl_graph.graphs.packing import Packed


class Batches(Dataset):
    """The samples of a graph data set as the loader reads them, a batch at a time:

    graph   `GraphBatch`
    label   int64 [G], or
    target  float32 [G, T] (0 where not known), known float32 [G, T] (1 or 0)

    chosen      the samples;    self_loops  every node gets an edge to itself
    """

    def __init__(self, chosen: Chosen, *, self_loops: bool = False) -> None:
        self.chosen, graphs = chosen, chosen.graphs
        self.packed = Packed([graph.with_self_loops() for graph in graphs] if self_loops else graphs)
        self.answers: dict[str, np.ndarray] = {}
        if chosen.targets is not None:
            known = ~np.isnan(chosen.targets)
            targets = np.where(known, chosen.targets, 0).astype(np.float32)
            self.answers = {"target": targets, "known": known.astype(np.float32)}
        elif chosen.labels is not None:
            self.answers = {"label": chosen.labels}

    def __len__(self) -> int:
        return len(self.packed)

    @property
    def labels(self) -> np.ndarray | None:
        return self.chosen.labels

    def __getitem__(self, index: int) -> Sample:
        return self.get_batch(np.array([index]))

    def get_batch(self, indices: np.ndarray) -> Batch:
        """The graphs at `indices` as one batch, with their labels or targets."""
        answers: dict[str, Any] = {name: values[indices] for name, values in self.answers.items()}
        return {"graph": self.packed.take(indices), **answers}


def chosen_of(dataset: Any) -> Chosen:
    """The samples of a graph data set, or of what a loader reads of one."""
    return dataset.chosen if isinstance(dataset, Batches) else Chosen(dataset)


class Passes(Sampler):
    """Passes over n samples, each in a new order, one behind another and cut into epochs of `size` samples: epochs of a
    small data set that are worth an evaluation."""

    def __init__(self, n: int, size: int, *, seed: int = 0) -> None:
        self.n, self.size, self.passes = n, size, RandomSampler(n, seed=seed)

    def __len__(self) -> int:
        return self.size

    def order(self, epoch: int) -> np.ndarray:
        first, last = epoch * self.size, (epoch + 1) * self.size
        many = range(first // self.n, -(-last // self.n))
        order = np.concatenate([self.passes.order(number) for number in many])
        return order[first - many[0] * self.n :][: self.size]
