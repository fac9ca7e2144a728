"""A model of nodes in use: its answers, its bundle, its pictures."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

import pdl
from pdl.export.deployment import Deployment
from pdl.nn import Module
from pdl.report import Section
from pdl.runtime.tables import csv_line
from pdl.tensor import no_grad
from pdl.train import Deployed, Recipe
from pdl_graph import deploy
from pdl_graph.batch import GraphBatch
from pdl_graph.data.base import graph_of, nodes_of
from pdl_graph.drawing import NODES, POINTS, ego_network, principal_plane, scatter
from pdl_graph.graph import Graph
from pdl_graph.models.base import GraphModel
from pdl_graph.models.layered import LayeredModel
from pdl_graph.node import known
from pdl_graph.steps.graphs import Form
from pdl_graph.using import own_data

if TYPE_CHECKING:
    from pdl_graph.node.task import NodeClassification

PROTOCOL = (
    "Transductive: the net sees all nodes and edges of the graph, and the labels of the training nodes alone."
)
INDUCTIVE = (
    "Inductive: training sees the training nodes and the edges between them alone; measured on the whole graph."
)


def answering(task: NodeClassification, model: Module, recipe: Recipe) -> deploy.Answering:
    """Logits of nodes; the steps of `post_of` afterwards."""
    return deploy.Answering(
        model=model,
        kind="node",
        encode=lambda graph: model(graph),
        answer=lambda logits, nodes: pdl.take(logits, nodes),
        form=form_of(task, recipe),
        weighted=bool(task.weighted),
        output="logits",
        post=post_of(task),
    )


def post_of(task: NodeClassification) -> list[dict[str, Any]]:
    """Softmax and the best classes, or the labels that are likely."""
    if task.multi_label:
        return [{"step": "sigmoid"}, {"step": "threshold"}]
    return [{"step": "softmax"}, {"step": "top", "k": min(5, len(task.classes))}]


def form_of(task: Any, recipe: Recipe) -> Form:
    """How folders become what the recipe's net reads."""
    net = recipe.model.completed(task.facts(recipe))
    return Form(
        features=int(net.get("num_features") or 0),
        directed=bool(task.directed),
        self_loops=bool(getattr(net.cls, "self_loops", False)),
        normalize=bool(recipe.data.splits["train"].get("normalize")),
    )


def deployment(
    task: NodeClassification,
    model: Module,
    recipe: Recipe,
    *,
    dataset: Any = None,
    metrics: Mapping[str, float | None] | None = None,
    licence: str = "",
) -> Deployment:
    """A bundle that answers for the nodes of any graph with such features, or of its own by name."""
    protocol = INDUCTIVE if task.inductive else PROTOCOL
    if known.by_name(task, recipe):
        return known.deployment(
            task, model, recipe, post_of(task), protocol=protocol, metrics=metrics or {}, licence=licence
        )
    how = answering(task, model, recipe)
    shown = ", ".join(task.classes[:20]) + (", ..." if len(task.classes) > 20 else "")
    card = deploy.card_of(
        f"{type(model).__name__}, {len(task.classes)} classes of nodes",
        f"Tells of which class a node is, from its {how.form.features:,} features and its neighbours "
        f"({recipe.model.target}). Classes: {shown}.",
        recipe,
        metrics or {},
        protocol=protocol,
        use='    session = pdl.runtime.load("model.pdl")\n    session({"graph": "folder", "node": "name"})\n\n'
        "or `pdl predict model.pdl --new-graph folder --nodes name`. The folder holds edges.csv (source, target) and "
        "nodes.csv (id, then the features).",
        licence=licence,
    )
    return deploy.deployment(
        how, None if dataset is None else graph_of(dataset), labels=task.classes, card=card, licence=licence,
        about=recipe.identity(), own=lambda: deploy.folder_of(graph_of(own_data(recipe))),
    )  # fmt: skip


def pictures(task: NodeClassification, model: GraphModel, dataset: Any, split: str) -> list[Section]:
    """The nodes of a split by their vectors, in the colours of their classes; and the neighbourhood of one of them."""
    graph, nodes = graph_of(dataset), nodes_of(dataset)
    y = np.asarray(graph.y)
    if y.ndim != 1:
        return []
    nodes = nodes if len(nodes) <= POINTS else nodes[np.arange(POINTS) * len(nodes) // POINTS]
    vectors = _vectors(task, model, graph, nodes)
    names = [graph.names[n] for n in nodes] if len(graph.names) else nodes
    length = np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    plane = scatter(principal_plane(vectors / length), y[nodes], task.classes, names=names)
    centre = int(nodes[np.argmin(np.abs(graph.in_degree()[nodes] - 8))])
    around = ego_network(graph.indptr, graph.indices, centre, groups=y, classes=task.classes, names=graph.names)
    return [
        Section(
            f"Nodes in the plane ({split})",
            f'<div class="charts">{plane}</div><p>The directions of the vectors before the last layer, by their '
            "two principal components; colours are the true classes.</p>",
        ),
        Section(
            "A neighbourhood",
            f'<div class="charts">{around}</div><p>A node of the split (ringed), its neighbours and theirs, at most '
            f"{NODES}; colours are the true classes.</p>",
        ),
    ]


def _vectors(task: NodeClassification, model: GraphModel, graph: Graph, nodes: np.ndarray) -> np.ndarray:
    """What the last layer reads of these nodes, [n, C]."""
    model.eval()
    held = task.hold(graph)
    with no_grad():
        if not task.neighbours:
            return model.embed(task.graphs[held]).numpy()[nodes]  # type: ignore[no-any-return]
        assert isinstance(model, LayeredModel)
        before = model.num_layers - 1
        found = task.samplers[held].scores(model, nodes, layers=before or None)  # of one layer alone: the scores
    return found.numpy()


def deployed_scores(model: Deployed, graph: GraphBatch, nodes: Any) -> pdl.Tensor:
    """What a bundle says of nodes [B, C]."""
    names = [port.name for port in model.session.inputs]
    if names == ["ask"]:
        return known.deployed_scores(model, nodes)
    found: pdl.Tensor = model(*deploy.as_inputs(names, graph, nodes))
    return found


def example(loaders: Mapping[str, Any]) -> str:
    """Two nodes of the test data, to put behind `pdl predict RUN`."""
    loader = loaders.get("test") or loaders.get("val") or loaders["train"]
    batch = next(iter(loader))
    graph = graph_of(loader.dataset) if hasattr(loader, "dataset") else None
    nodes = [int(n) for n in np.asarray(batch["node"])[:2]]
    names = [str(graph.names[n]) for n in nodes] if graph is not None and len(graph.names) else map(str, nodes)
    return f"--nodes {shlex.quote(csv_line(list(names)))}"


__all__ = [
    "answering",
    "deployed_scores",
    "deployment",
    "example",
    "form_of",
    "pictures",
    "post_of",
]
