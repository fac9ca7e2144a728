"""What the report says of an embedding: how it does at what it is measured by, and the nodes in the plane."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

import pdl
from pdl.report import Section, table
from pdl.train import Evaluation, Reporter
from pdl_graph.data.base import graph_of, nodes_of, unwrap
from pdl_graph.drawing import POINTS, principal_plane, scatter
from pdl_graph.embedding.decoders import rows_of_labels
from pdl_graph.embedding.deploy import LABEL_PROTOCOL
from pdl_graph.embedding.metrics import TopF1
from pdl_graph.graph import Graph
from pdl_graph.link.report import link_sections

if TYPE_CHECKING:
    from pdl_graph.embedding.task import NodeEmbedding

Array = np.ndarray
SHOWN, COLOURED = 20, 9


class EmbeddingReporter(Reporter):
    """What the regression makes of the vectors, and these in the plane."""

    task: NodeEmbedding

    def sections(self, evaluation: Evaluation, dataset: Any) -> list[Section]:
        task = self.task
        made = [_by_label(task, evaluation, dataset)] if task.classes else link_sections(evaluation, dataset)
        if task.evaluated is None:  # a bundle was measured
            return made
        with pdl.no_grad():
            vectors = np.array(task.evaluated.vectors().data)[1:]
        return [*made, self._plane(graph_of(dataset), vectors, dataset)]

    def _plane(self, graph: Graph, vectors: Array, dataset: Any) -> Section:
        """The nodes by their vectors."""
        if self.task.classes:
            nodes = nodes_of(dataset)
            groups, classes = _labels(graph, nodes, self.task.classes)
            note = f"the {len(classes)} most frequent labels of the split, of several the rarest; grey: others."
        else:
            nodes = np.arange(graph.num_nodes)
            groups, classes = _degrees(graph)
            note = "quarters of the nodes by their number of edges."
        names = [str(graph.names[n]) for n in nodes] if len(graph.names) else nodes
        chart = scatter(principal_plane(vectors[nodes]), groups[nodes], classes, names=names)
        few = f" {POINTS:,} nodes are drawn." if len(nodes) > POINTS else ""
        note = f"The vectors by their two principal components. Colours are {note}{few}"
        return Section("Nodes in the plane", f'<div class="charts">{chart}</div><p>{escape(note)}</p>')


def _by_label(task: NodeEmbedding, evaluation: Evaluation, dataset: Any) -> Section:
    """F1 of the most frequent labels."""
    counted = evaluation.observers["macro_f1"]
    assert isinstance(counted, TopF1)
    base = unwrap(dataset)[0]
    frequent = rows_of_labels(np.asarray(base.y)[nodes_of(dataset)], len(task.classes)).sum(axis=0)
    order = np.argsort(-frequent, kind="stable")[:SHOWN]
    f1 = 2 * counted.hits / np.maximum(counted.sizes, 1)
    rows = [(task.classes[k], f"{f1[k]:.4f}", int(frequent[k])) for k in order]
    more = f"The {SHOWN} most frequent of {len(task.classes)} labels. " if len(task.classes) > SHOWN else ""
    body = table(rows, head=("label", "F1", "nodes")) + f"<p>{escape(more + LABEL_PROTOCOL)}</p>"
    return Section(f"By label ({evaluation.split})", body)


def _labels(graph: Graph, nodes: Array, classes: list[str]) -> tuple[Array, list[str]]:
    """The rarest of each node's frequent labels, as numbers among these, and their names."""
    y = rows_of_labels(np.asarray(graph.y), len(classes))
    top = np.argsort(-y[nodes].sum(axis=0), kind="stable")[:COLOURED]
    there = y[:, top]
    last = there.shape[1] - 1 - np.argmax(there[:, ::-1], axis=1)
    return np.where(there.any(axis=1), last, -1), [classes[k] for k in top]


def _degrees(graph: Graph) -> tuple[Array, list[str]]:
    """The quarter that each node is in by its number of edges, and what these are."""
    degree = graph.in_degree() if not graph.directed else graph.in_degree() + graph.out_degree()
    borders = np.unique(np.quantile(degree, (0.25, 0.5, 0.75), method="lower"))
    group = np.searchsorted(borders, degree, side="left")
    used = np.unique(group)
    spans = [(int(degree[group == each].min()), int(degree[group == each].max())) for each in used]
    names = [f"{low} edges" if low == high else f"{low} to {high} edges" for low, high in spans]
    return np.searchsorted(used, group), names
