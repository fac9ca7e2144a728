"""Simple methods beside a net: the graph without features, features without the graph, and neither."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

import pdl
from pdl.tensor import no_grad
from pdl_graph.batch import project
from pdl_graph.data.base import graph_of, nodes_of
from pdl_graph.features import dense, take_rows
from pdl_graph.graph import Graph
from pdl_graph.models.propagation import gcn_norm

if TYPE_CHECKING:
    from pdl_graph.node.task import NodeClassification

Array = np.ndarray
ALPHA, ROUNDS = 0.9, 50
RIDGE, FITTED = 1.0, 4096


def baselines(task: NodeClassification, datasets: Mapping[str, Any], split: str) -> dict[str, dict[str, float]]:
    """Metrics of each method on a split of the graph that training sees."""
    graph, nodes, rated = graph_of(datasets["train"]), nodes_of(datasets["train"]), nodes_of(datasets[split])
    if graph_of(datasets[split]) is not graph:
        return {}
    y = np.asarray(graph.y)
    targets = (y[nodes] > 0).astype(np.float64) if task.multi_label else np.eye(len(task.classes))[y[nodes]]
    methods = {
        "majority": majority(targets, graph.num_nodes),
        "label propagation": label_propagation(graph, nodes, targets),
        **({} if graph.x is None else {"features alone": ridge(graph, nodes, targets)}),
    }
    return {name: _measured(task, scores[rated], y[rated]) for name, scores in methods.items()}


def _measured(task: NodeClassification, scores: Array, labels: Array) -> dict[str, float]:
    """The metrics of scores between 0 and 1, of which a half is the border."""
    found = {}
    for name, metric in task.metrics().items():
        metric.update(scores - 0.5, labels)
        value = metric.compute()
        if isinstance(value, float):
            found[name] = value
    return found


def majority(targets: Array, num_nodes: int) -> Array:
    """Scores [N, K] of all nodes: how frequent each class is in training."""
    return np.tile(targets.mean(0), (num_nodes, 1))


def label_propagation(graph: Graph, nodes: Array, targets: Array) -> Array:
    """Scores [N, K] from the labels of `nodes` [n, K] and the edges alone: F <- alpha S F + (1 - alpha) Y, with S =
    D^-1/2 A D^-1/2, alpha 0.9 and 50 rounds (Zhou et al., "Learning with local and global consistency", NIPS 2003)."""
    given = np.zeros((graph.num_nodes, targets.shape[1]), np.float32)
    given[nodes] = targets
    with no_grad():
        norm = gcn_norm(graph.adjacency, graph.edge_weight) * ALPHA
        found = start = pdl.as_tensor(given * np.float32(1 - ALPHA))
        for _ in range(ROUNDS):
            found = pdl.spmm(graph.adjacency, found, norm) + start
    scores: Array = found.data
    return scores


def ridge(graph: Graph, nodes: Array, targets: Array) -> Array:
    """Scores [N, K] from features alone: the least squares fit to the labels of `nodes`, of which at most 4,096 are
    taken, under a penalty of as much as features have on average (ridge regression, dual form)."""
    few = np.arange(min(len(nodes), FITTED)) * len(nodes) // min(len(nodes), FITTED)
    known, wanted = dense(take_rows(graph.x, nodes[few])), targets[few]
    assert known is not None
    gram = known.astype(np.float64) @ known.T
    scale = RIDGE * max(float(np.trace(gram)) / len(few), 1e-12)
    mean = wanted.mean(0)
    weight = known.T @ np.linalg.solve(gram + scale * np.eye(len(few)), wanted - mean)
    with no_grad():
        scores: Array = project(graph.x, pdl.as_tensor(weight.astype(np.float32))).data
    return scores + mean
