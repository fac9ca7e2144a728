"""What the report says of links: where the scores of edges and of other pairs lie, precision against recall, the nodes
by their vectors, and the neighbourhood of an edge that was to be found."""

from __future__ import annotations

from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.ranking import precision_recall_curve
from pdl.report import Section, charts, figure, line_chart, table
from pdl.tensor import no_grad
from pdl.train import Evaluation, Reporter
from pdl_graph.drawing import NODES, ego_network, principal_plane, scatter
from pdl_graph.graph import Graph
from pdl_graph.link.loader import split_of
from pdl_graph.models.link import LinkModel

if TYPE_CHECKING:
    from pdl_graph.link.task import LinkPrediction

Array = np.ndarray
BINS = 40
DEGREES = (1, 2, 4, 8, 16, 32)  # where groups of nodes begin


class LinkReporter(Reporter):
    """Scores of edges and of other pairs, the nodes by their vectors, the neighbourhood of a hidden edge."""

    task: LinkPrediction

    def sections(self, evaluation: Evaluation, dataset: Any) -> list[Section]:
        return link_sections(evaluation, dataset, self._vectors())

    def _vectors(self) -> Array | None:
        """Those of the nodes, of the model that was evaluated last."""
        model, graph = self.task.evaluated, self.task.constant
        if graph is None or not isinstance(model, LinkModel):
            return None
        with no_grad():
            return model.eval().embed(graph).numpy()  # type: ignore[no-any-return]


def link_sections(evaluation: Evaluation, dataset: Any, vectors: Array | None = None) -> list[Section]:
    """Of one evaluation of the pairs of `dataset`; `vectors` [N, C] are those of the nodes, where there are any."""
    scores, labels = evaluation.observers["auc"].scores.arrays()
    if not len(scores):
        return []
    split, rows = split_of(dataset)
    pairs = split.pairs if rows is None else split.pairs[rows]
    ones, zeros = int((labels == 1).sum()), int((labels != 1).sum())
    known = "training and val" if split.val_messages else "training"
    note = (
        f"{ones:,} edges and {zeros:,} pairs without one, drawn by seed {split.seed}; messages use edges of {known} "
        "only. MRR and hits@k rank each edge among all those pairs."
    )
    numbers = table([(name, f"{value:.4f}") for name, value in evaluation.metrics.items()])
    shares = line_chart(histogram(scores, labels), x_label="probability of an edge")
    found = line_chart({"precision": precision_recall(scores, labels)}, x_label="recall")
    return [
        Section(f"Links ({evaluation.split})", f"{numbers}<p>{escape(note)}</p>"),
        Section("Scores", charts([figure(shares, "shares of each kind"), figure(found, "precision, recall")])),
        *([] if vectors is None else [plane(split.graph, vectors)]),
        *neighbourhood(split.graph, pairs, scores, labels),
    ]


def plane(graph: Graph, vectors: Array) -> Section:
    """The nodes by their vectors, in colours by how many edges they have."""
    length = np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    groups = np.searchsorted(DEGREES, graph.in_degree(), side="right")
    kinds = [str(a) if b == a + 1 else f"{a} to {b - 1}" for a, b in pairwise((0, *DEGREES))]
    kinds.append(f"{DEGREES[-1]} or more edges")
    picture = scatter(principal_plane(vectors / length), groups, kinds, names=graph.names)
    note = "The directions of the vectors by their two principal components; colours show how many edges a node has."
    return Section("Nodes in the plane", f'<div class="charts">{picture}</div><p>{note}</p>')


def neighbourhood(graph: Graph, pairs: Array, scores: Array, labels: Array) -> list[Section]:
    """The surroundings of a test edge: its nodes and their neighbours, as many as fit."""
    edges, degree = np.flatnonzero(labels == 1), graph.in_degree()
    if len(pairs) != len(labels) or not len(edges):
        return []
    one = edges[np.argmin(np.abs(degree[pairs[edges]].sum(axis=1) - NODES // 4))]
    near = [np.append(graph.indices[slice(*graph.indptr[n : n + 2])], n) for n in pairs[one]]
    nodes = np.concatenate([pairs[one], np.setdiff1d(np.concatenate(near), pairs[one])])
    groups = np.where(np.isin(nodes, near[0]) & np.isin(nodes, near[1]), 1, 2)
    groups[:2] = 0
    source, target = graph.subgraph(nodes).edges()
    whole = Graph.from_edges(np.append(source, [0, 1]), np.append(target, [1, 0]), len(nodes))
    names = [str(graph.names[n]) if len(graph.names) else str(n) for n in nodes]
    kinds = ("the two", "neighbour of both", "neighbour of one")
    picture = ego_network(whole.indptr, whole.indices, 0, groups=groups, classes=kinds, names=names)
    note = (
        f"{names[0]} (ringed) and {names[1]}, whose edge was hidden and gets {_chance(scores[one]):.2f}, with their "
        f"neighbours in the graph that messages use."
    )
    return [Section("Around an edge", f'<div class="charts">{picture}</div><p>{escape(note)}</p>')]


def _chance(logit: Any) -> Any:
    return 1 / (1 + np.exp(-np.clip(np.asarray(logit, np.float64), -50, 50)))


def histogram(logits: Array, labels: Array) -> dict[str, list[tuple[float, float]]]:
    """Shares of the edges and of the other pairs in bins of the probability, as points (middle, share)."""
    chance = _chance(logits)
    found = {}
    for name, mask in (("edges", labels == 1), ("no edge", labels != 1)):
        counts, borders = np.histogram(chance[mask], BINS, (0.0, 1.0))
        middle = (borders[1:] + borders[:-1]) / 2
        found[name] = list(zip(middle.tolist(), (counts / max(1, mask.sum())).tolist(), strict=True))
    return found


def precision_recall(scores: Array, labels: Array) -> list[tuple[float, float]]:
    """Points (recall, precision) at ever lower thresholds."""
    if not (labels == 1).any():
        return []
    precision, recall, _ = precision_recall_curve(scores, labels == 1)
    return list(zip(recall[-2::-1].tolist(), precision[-2::-1].tolist(), strict=True))
