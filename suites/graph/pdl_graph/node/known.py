"""Nets that answer for the nodes of their own graph alone, by name: those with a vector of its own for every node, and
those that read types of edges, which folders of nodes and edges do not tell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

import pdl
from pdl.export.deployment import Deployment
from pdl.nn import Module
from pdl.tensor import Tensor, no_grad
from pdl.train import Recipe
from pdl_graph import deploy, named
from pdl_graph.data.base import graph_of
from pdl_graph.models.base import GraphModel
from pdl_graph.models.layered import LayeredModel
from pdl_graph.using import own_data

if TYPE_CHECKING:
    from pdl_graph.node.task import NodeClassification


def by_name(task: NodeClassification, recipe: Recipe) -> bool:
    """Whether the recipe's net is such a one."""
    net = recipe.model.completed(task.facts(recipe))
    return any(net.get(key) for key in ("num_nodes", "num_relations"))


def scores_of(task: NodeClassification, model: GraphModel, recipe: Recipe) -> np.ndarray:
    """Scores of all nodes of the run's graph, [N, num_classes]."""
    model.eval()
    task.self_loops = model.self_loops
    graph = graph_of(own_data(recipe))
    held = task.hold(graph)
    with no_grad():
        if not task.neighbours:
            return model(task.graphs[held]).numpy()  # type: ignore[no-any-return]
        assert isinstance(model, LayeredModel)
        return task.samplers[held].scores(model, np.arange(graph.num_nodes)).numpy()


def answering(task: NodeClassification, model: Module, recipe: Recipe, post: list[dict[str, Any]]) -> named.Known:
    """The scores of nodes that the net knows, computed once."""
    assert isinstance(model, GraphModel)
    return named.Known(
        kind="node",
        names=task.vocabularies[named.NODES],
        vectors=named.with_none(scores_of(task, model, recipe)),
        answer=lambda scores, ask: pdl.take(scores, ask[:, 0]),
        output="logits",
        post=post,
        labels=task.classes,
    )


def deployment(
    task: NodeClassification,
    model: Module,
    recipe: Recipe,
    post: list[dict[str, Any]],
    *,
    protocol: str,
    metrics: Mapping[str, float | None],
    licence: str,
) -> Deployment:
    """A bundle that holds the scores of the graph's nodes and answers by their names."""
    card = deploy.card_of(
        f"{type(model).__name__}, {len(task.classes)} classes of nodes",
        f"Tells of which class a node of its own graph is ({recipe.model.target}). Classes: "
        f"{', '.join(task.classes[:20])}.",
        recipe,
        metrics,
        protocol=protocol,
        use='    session = pdl.runtime.load("model.pdl")\n    session({"node": "name"})\n\n'
        "or `pdl predict model.pdl --nodes name`.",
        licence=licence,
    )
    how = answering(task, model, recipe, post)
    return named.deployment(how, card=card, licence=licence, about=recipe.identity())


def deployed_scores(model: Any, nodes: Any) -> Tensor:
    """What such a bundle says of nodes by number, [B, C]."""
    found: Tensor = model(pdl.Tensor(np.asarray(nodes)[:, None] + 1))
    return found


__all__ = ["answering", "by_name", "deployed_scores", "deployment", "scores_of"]
