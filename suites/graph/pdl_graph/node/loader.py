"""Batches of nodes of one graph."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from pdl_graph.data.base import unwrap
from pdl_graph.graph import Graph


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


__all__ = ["WholeSplit", "among"]
