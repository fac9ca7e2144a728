"""What of a model of nodes goes into a bundle.

Most nets answer for the nodes of any graph with such features. Those with a vector of its own for every node, and
those that read types of edges, which folders of nodes and edges do not have, answer for the nodes of their own graph,
by name.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import pdl
from pdl.errors import listed
from pdl.export.deployment import Deployment
from pdl.nn import Module
from pdl.report import Card
from pdl.runtime.tables import csv_line
from pdl.tensor import Tensor, no_grad
from pdl.train import Deployed, Deployer
from pdl_graph.batch import GraphBatch
from pdl_graph.data.base import graph_of
from pdl_graph.deployment import InductiveModel, bundle_inputs, own_data
from pdl_graph.models.base import GraphModel
from pdl_graph.models.layered import LayeredModel
from pdl_graph.node_table import NODES, NodeTable, with_unknown
from pdl_graph.steps.graphs import Form

if TYPE_CHECKING:
    from pdl_graph.node.task import NodeClassification

TRANSDUCTIVE = (
    "Transductive: the net sees all nodes and edges of the graph, and the labels of the training nodes alone."
)
INDUCTIVE = "Inductive: training sees the training nodes and the edges between them alone; measured on the whole graph."


class NodeDeployer(Deployer):
    """Logits of nodes; softmax and the best classes, or the labels that are likely, afterwards."""

    task: NodeClassification

    @property
    def by_name(self) -> bool:
        """Whether the recipe's net answers for the nodes of its own graph alone."""
        return any(self._net.get(key) for key in ("num_nodes", "num_relations"))

    @cached_property
    def _net(self) -> Any:
        return self.recipe.model.completed(self.task.facts(self.recipe))

    @property
    def form(self) -> Form:
        """How folders become what the recipe's net reads."""
        return Form(
            features=int(self._net.get("num_features") or 0),
            directed=bool(self.task.directed),
            self_loops=bool(getattr(self._net.cls, "self_loops", False)),
            normalize=bool(self.recipe.data.splits["train"].get("normalize")),
        )

    @property
    def post(self) -> list[dict[str, Any]]:
        """The steps behind the logits."""
        if self.task.multi_label:
            return [{"step": "sigmoid"}, {"step": "threshold"}]
        return [{"step": "softmax"}, {"step": "top", "k": min(5, len(self.task.classes))}]

    def deployment(self, model: Module, dataset: Any = None) -> Deployment:
        task, recipe = self.task, self.recipe
        if self.by_name:
            assert isinstance(model, GraphModel)
            return NodeTable(
                kind="node",
                names=task.vocabularies[NODES],
                vectors=with_unknown(self.scores(model)),
                answer=lambda scores, query: pdl.take(scores, query[:, 0]),
                output="logits",
                post=self.post,
                labels=task.classes,
            ).deployment(recipe.identity())
        return InductiveModel(
            model=model,
            kind="node",
            encode=lambda graph: model(graph),
            answer=lambda logits, nodes: pdl.take(logits, nodes),
            form=self.form,
            weighted=bool(task.weighted),
            output="logits",
            post=self.post,
            labels=task.classes,
        ).deployment(
            None if dataset is None else graph_of(dataset), recipe.identity(), own=lambda: graph_of(own_data(recipe))
        )

    def scores(self, model: GraphModel) -> np.ndarray:
        """Scores of all nodes of the run's graph, [N, num_classes]."""
        task, graph = self.task, graph_of(own_data(self.recipe))
        model.eval()
        task.self_loops = model.self_loops
        held = task.hold(graph)
        with no_grad():
            if not task.neighbours:
                return model(task.graphs[held]).numpy()  # type: ignore[no-any-return]
            assert isinstance(model, LayeredModel)
            return task.samplers[held].scores(model, np.arange(graph.num_nodes)).numpy()

    def card(self, model: Module) -> Card:
        task, named = self.task, self.by_name
        classes = listed(task.classes, 20)
        features = f"from its {self.form.features:,} features and its neighbours"
        query, command, note = '{"node": "name"}', "--nodes name", ""
        if not named:
            query, command = '{"graph": "folder", "node": "name"}', "--new-graph folder --nodes name"
            note = " The folder holds edges.csv (source, target) and nodes.csv (id, then the features)."
        return Card(
            title=f"{type(model).__name__}, {len(task.classes)} classes of nodes",
            summary=f"Predicts the class of a node {'of its own graph, by name' if named else features} "
            f"({self.recipe.model.target}). Classes: {classes}.",
            protocol=INDUCTIVE if task.inductive else TRANSDUCTIVE,
            use=f'    session = pdl.runtime.load("model.pdl")\n    session({query})\n\n'
            f"or `pdl predict model.pdl {command}`.{note}",
            data=self.learned_from,
        )

    def example(self, loaders: Mapping[str, Any], folder: Path) -> str:
        """Two nodes of the test data."""
        loader = loaders.get("test") or loaders.get("val") or loaders["train"]
        graph = graph_of(loader.dataset) if hasattr(loader, "dataset") else None
        nodes = [int(n) for n in np.asarray(next(iter(loader))["node"])[:2]]
        names = [str(graph.names[n]) for n in nodes] if graph is not None and len(graph.names) else map(str, nodes)
        return f"--nodes {shlex.quote(csv_line(list(names)))}"


def deployed_scores(model: Deployed, graph: GraphBatch, nodes: Any) -> Tensor:
    """What a bundle says of nodes by number, [B, C]."""
    names = [port.name for port in model.session.inputs]
    own = names == ["query"]
    found: Tensor = model(
        *([pdl.Tensor(np.asarray(nodes)[:, None] + 1)] if own else bundle_inputs(names, graph, nodes))
    )
    return found
