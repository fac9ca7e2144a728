"""What can be said of a whole graph from counts alone: how many nodes and edges of each kind it has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.train.classical import log_prior, logistic_regression, ridge_regression, scored
from pdl_graph.data.graphs import Chosen
from pdl_graph.features import dense
from pdl_graph.graph import Graph

if TYPE_CHECKING:
    from pdl_graph.graphs.task import GraphPrediction

Array = np.ndarray


def baselines(task: GraphPrediction, datasets: Mapping[str, Any], split: str) -> dict[str, dict[str, float]]:
    """Of classes and yes/no targets the most frequent answer and logistic regression, of numbers the mean and ridge
    regression, on `counts`."""
    train, rated = Chosen(datasets["train"]), Chosen(datasets[split])
    x, new = counts(train.graphs), counts(rated.graphs)
    if task.kind == "classification":
        assert train.labels is not None
        k, y, targets = len(task.classes), train.labels, rated.labels
        made = {"majority": np.tile(log_prior(y, k), (len(new), 1)), "counts": logistic_regression(x, y, new, k)}
    else:
        assert train.targets is not None
        y, targets = train.targets, rated.targets
        of = (_mean, ridge_regression) if task.kind == "regression" else (_prior, _logistic)
        columns = [[each(x[known], y[known, t], new) for t, known in enumerate((~np.isnan(y)).T)] for each in of]
        names = ("mean", "counts") if task.kind == "regression" else ("majority", "counts")
        made = {name: np.stack(each, axis=1) for name, each in zip(names, columns, strict=True)}
    assert targets is not None
    return {name: scored(task.metrics(), scores, targets) for name, scores in made.items()}


def counts(graphs: Sequence[Graph]) -> Array:
    """Of each graph its nodes, its edges, and the sums of their features: float64 [G, D]."""
    return np.array([_counted(graph) for graph in graphs], np.float64)


def _counted(graph: Graph) -> list[float]:
    sums: list[float] = [graph.num_nodes, graph.num_edges]
    for features in (dense(graph.x), graph.edge_attr):
        if features is not None:
            sums += np.atleast_1d(np.asarray(features, np.float64).sum(axis=0)).tolist()
    return sums


def _mean(x: Array, y: Array, new: Array) -> Array:
    return np.full(len(new), y.mean() if len(y) else 0.0)


def _prior(x: Array, y: Array, new: Array) -> Array:
    shares = log_prior(y.astype(np.int64), 2)
    return np.full(len(new), shares[1] - shares[0])


def _logistic(x: Array, y: Array, new: Array) -> Array:
    scores = logistic_regression(x, y.astype(np.int64), new, 2)
    found: Array = scores[:, 1] - scores[:, 0]
    return found
