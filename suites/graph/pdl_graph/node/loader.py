"""Batches of nodes of one graph."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from pdl.data import Batch, DataLoader
from pdl.train.recipe import Data
from pdl_graph.data.base import NodeData, nodes_of, unwrap
from pdl_graph.graph import Graph
from pdl_graph.node.sampler import NeighbourSampler


class WholeSplit:
    """Full batch: all nodes of a split at once, {"node": int64 [B], "label": [B] or [B, K], "graph": which of the
    task's graphs they are in}."""

    def __init__(self, dataset: Any, graph: int) -> None:
        self.dataset = dataset
        base, rows = unwrap(dataset)
        held: dict[str, Any] = base.get_batch(np.arange(len(base)) if rows is None else rows)
        self.batch = {**held, "graph": graph}

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[dict[str, Any]]:
        yield self.batch


def among(graph: Graph, nodes: np.ndarray) -> Graph:
    """The graph with those of its edges alone that join two of these nodes; all nodes stay."""
    inside = np.zeros(graph.num_nodes, bool)
    inside[nodes] = True
    source, target = graph.edges()
    keep = inside[source] & inside[target]
    about = {name: getattr(graph, name) for name in ("edge_weight", "edge_attr", "edge_type")}
    edge = {name: None if values is None else values[keep] for name, values in about.items()}
    indptr = np.concatenate([[0], np.cumsum(keep)])[graph.indptr]
    return graph.with_(indptr=indptr, indices=graph.indices[keep], **edge)


def sampled_loader(
    dataset: Any, sampler: NeighbourSampler, fanouts: Sequence[int], data: Data, *, training: bool, seed: int
) -> DataLoader:
    """Batches of `SampledBatches`, made by a thread beside the step unless the recipe's `data` says otherwise."""
    source = SampledBatches(dataset, sampler, fanouts)
    order = data.sampler(source, seed=seed) if training else None
    return DataLoader(
        source,
        batch_size=data.size(training=training, default=1024),
        shuffle=training and order is None,
        sampler=order,
        seed=seed,
        workers=data.workers if data.gives("workers") else 1,
        prefetch=data.prefetch,
        drop_last=training and data.drop_last,
    )


class SampledBatches(NodeData):
    """Nodes of a split, whose batches are {"node" [B], "label", "blocks": a `GraphBatch` for each layer}.

    What is sampled is a function of (seed, epoch, the batch's first node): neither the number of threads that sample
    nor where a run was resumed changes it.
    """

    def __init__(self, dataset: Any, sampler: NeighbourSampler, fanouts: Sequence[int]) -> None:
        base, _ = unwrap(dataset)
        self.sampler, self.fanouts, self.epoch, self.graph = sampler, tuple(fanouts), 0, sampler.graph
        self.nodes, self.y, self.classes = nodes_of(dataset), base.y, base.classes

    def set_epoch(self, epoch: int) -> None:
        """New neighbours for every epoch."""
        self.epoch = epoch

    def get_batch(self, indices: np.ndarray) -> Batch:
        held: Batch = super().get_batch(indices)
        nodes = held["node"]
        return {**held, "blocks": self.sampler.blocks(nodes, self.fanouts, epoch=self.epoch, step=int(nodes[0]))}
