"""Simple methods beside an embedding: those of links, or those of nodes that need no features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl_graph.data.base import graph_of, nodes_of, unwrap
from pdl_graph.embedding.decoders import rows_of_labels
from pdl_graph.embedding.metrics import TopF1
from pdl_graph.link.baselines import baselines as link_baselines
from pdl_graph.node.baselines import label_propagation, majority

if TYPE_CHECKING:
    from pdl_graph.embedding.task import NodeEmbedding


def baselines(task: NodeEmbedding, datasets: Mapping[str, Any], split: str) -> dict[str, dict[str, float]]:
    """Of pairs those of `LinkPrediction`; of labels the most frequent ones, and label propagation."""
    if not task.classes:
        return link_baselines(datasets[split], task.hits)
    graph, nodes, rated = graph_of(datasets["train"]), nodes_of(datasets["train"]), nodes_of(datasets[split])
    y = rows_of_labels(np.asarray(unwrap(datasets["train"])[0].y), len(task.classes))
    methods = {
        "majority": majority(y[nodes].astype(np.float64), graph.num_nodes),
        "label propagation": label_propagation(graph, nodes, y[nodes]),
    }
    found: dict[str, dict[str, float]] = {}
    for name, scores in methods.items():
        found[name] = {}
        for key, metric in task.metrics().items():
            assert isinstance(metric, TopF1)
            metric.update(scores[rated], y[rated])
            found[name][key] = metric.compute()
    return found
