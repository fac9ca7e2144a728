"""What the report says of classes of nodes: how well each is predicted, the nodes by their vectors, a neighbourhood."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.report import Section
from pdl.tensor import no_grad
from pdl.train import Evaluation, Reporter
from pdl.train.sections import of_classes
from pdl_graph.data.base import graph_of, nodes_of
from pdl_graph.drawing import NODES, POINTS, ego_network, principal_plane, scatter
from pdl_graph.graph import Graph
from pdl_graph.models.base import GraphModel
from pdl_graph.models.layered import LayeredModel

if TYPE_CHECKING:
    from pdl_graph.node.task import NodeClassification


class NodeReporter(Reporter):
    """Accuracy by class, confusions, and drawings of nodes in the colours of their classes."""

    task: NodeClassification

    def sections(self, evaluation: Evaluation, dataset: Any) -> list[Section]:
        task, made = self.task, list[Section]()
        if "confusion" in evaluation.details:
            made = of_classes(evaluation, task.classes)
        graph, nodes = graph_of(dataset), nodes_of(dataset)
        y = np.asarray(graph.y)
        if not isinstance(task.evaluated, GraphModel) or y.ndim != 1:
            return made
        return [*made, self._plane(task.evaluated, graph, nodes, y, evaluation.split), self._ego(graph, nodes, y)]

    def _plane(self, model: GraphModel, graph: Graph, nodes: np.ndarray, y: np.ndarray, split: str) -> Section:
        """Nodes by their vectors."""
        nodes = nodes if len(nodes) <= POINTS else nodes[np.arange(POINTS) * len(nodes) // POINTS]
        vectors = self._vectors(model, graph, nodes)
        names = [graph.names[n] for n in nodes] if len(graph.names) else nodes
        length = np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        plane = scatter(principal_plane(vectors / length), y[nodes], self.task.classes, names=names)
        return Section(
            f"Nodes in the plane ({split})",
            f'<div class="charts">{plane}</div><p>The directions of the vectors before the last layer, by their '
            "two principal components; colours are the true classes.</p>",
        )

    def _ego(self, graph: Graph, nodes: np.ndarray, y: np.ndarray) -> Section:
        """The neighbourhood of a node with about eight neighbours."""
        centre = int(nodes[np.argmin(np.abs(graph.in_degree()[nodes] - 8))])
        classes = self.task.classes
        chart = ego_network(graph.indptr, graph.indices, centre, groups=y, classes=classes, names=graph.names)
        return Section(
            "A neighbourhood",
            f'<div class="charts">{chart}</div><p>A node of the split (ringed), its neighbours and theirs, at most '
            f"{NODES}; colours are the true classes.</p>",
        )

    def _vectors(self, model: GraphModel, graph: Graph, nodes: np.ndarray) -> np.ndarray:
        """What the last layer reads of these nodes, [n, C]."""
        model.eval()
        held = self.task.hold(graph)
        with no_grad():
            if not self.task.neighbours:
                return model.embed(self.task.graphs[held]).numpy()[nodes]  # type: ignore[no-any-return]
            assert isinstance(model, LayeredModel)
            before = model.num_layers - 1
            found = self.task.samplers[held].scores(model, nodes, num_layers=before or None)  # of one layer: the scores
        return found.numpy()
