"""A model of links in use: its answers for pairs of nodes, and its bundle.

Where nodes have features a model answers for any graph with such features. Where they have none it knows the nodes of
its own graph, by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import pdl
from pdl.export.deployment import Deployment
from pdl.nn import Module
from pdl.tensor import no_grad
from pdl.train import Recipe
from pdl_graph import deploy, named
from pdl_graph.graph import Graph
from pdl_graph.link.loader import split_of
from pdl_graph.models.link import LinkModel
from pdl_graph.steps.graphs import Form
from pdl_graph.using import own_data

if TYPE_CHECKING:
    from pdl_graph.link.task import LinkPrediction

OUTPUT, LABELS = "logit", ["edge"]
POST = ({"step": "probabilities"},)
PROTOCOL = (
    "Areas under curves over the edges of a split and as many pairs without an edge (ties count a half). The net sees "
    "the training edges alone."
)


def form_of(task: LinkPrediction, model: LinkModel, recipe: Recipe) -> Form:
    """How folders become what the model reads."""
    graph = recipe.data.splits["train"].part("graph")
    return Form(
        features=task.features,
        directed=bool(task.directed),
        self_loops=bool(model.self_loops),
        normalize=graph is not None and bool(graph.get("normalize")),
    )


def answering(task: LinkPrediction, model: LinkModel, recipe: Recipe) -> deploy.Answering:
    """The logit of an edge between two nodes of a graph; its probability afterwards."""
    return deploy.Answering(
        model=model,
        kind="pair",
        encode=model.embed,
        answer=model.decode,
        form=form_of(task, model, recipe),
        weighted=bool(task.weighted),
        output=OUTPUT,
        post=POST,
    )


def known(task: LinkPrediction, model: LinkModel, recipe: Recipe) -> named.Known:
    """The same from the vectors of the run's own nodes."""
    from pdl_graph.link.task import constant

    model.eval()
    with no_grad():
        vectors = model.embed(constant(message_graph(task, recipe), self_loops=model.self_loops))
    return named.Known(
        kind="pair",
        names=task.vocabularies[named.NODES],
        vectors=named.with_none(vectors),
        answer=model.decode,
        output=OUTPUT,
        post=POST,
        labels=LABELS,
        decoder=model,
    )


def message_graph(task: LinkPrediction, recipe: Recipe) -> Graph:
    """The graph whose edges the run's net may use."""
    return task.graph if task.graph is not None else split_of(own_data(recipe))[0].graph


def deployment(
    task: LinkPrediction,
    model: Module,
    recipe: Recipe,
    *,
    metrics: Mapping[str, float | None],
    licence: str,
) -> Deployment:
    """A bundle that answers for pairs of nodes."""
    assert isinstance(model, LinkModel)
    graphs = "any graph whose nodes have such features" if task.features else "the nodes of its own graph, by name"
    ask = '{"graph": "folder", "pair": ["a", "b"]}' if task.features else '{"pair": ["a", "b"]}'
    command = "--new-graph folder --pairs pairs.csv" if task.features else "--pairs pairs.csv"
    card = deploy.card_of(
        f"{type(model).__name__}: which nodes are joined",
        f"The probability of an edge between two nodes, for {graphs} ({recipe.model.target}). It was learned with "
        "as many edges as pairs without one; among all pairs edges are rarer.",
        recipe,
        metrics,
        protocol=PROTOCOL,
        use=f'    session = pdl.runtime.load("model.pdl")\n    session({ask})\n\nor `pdl predict model.pdl {command}`.',
        licence=licence,
    )
    if not task.features:
        return named.deployment(known(task, model, recipe), card=card, licence=licence, about=recipe.identity())
    how = answering(task, model, recipe)
    return deploy.deployment(
        how, task.graph, labels=LABELS, card=card, licence=licence, about=recipe.identity(),
        own=lambda: deploy.folder_of(message_graph(task, recipe)),
    )  # fmt: skip


def deployed_logits(model: Any, task: LinkPrediction, pair: Any) -> pdl.Tensor:
    """What a bundle says of pairs [P, 2]."""
    names = [port.name for port in model.session.inputs]
    if names == ["ask"]:
        return model(pdl.Tensor(np.asarray(pair) + 1))  # type: ignore[no-any-return]
    return model(*deploy.as_inputs(names, task.messages(), pair))  # type: ignore[no-any-return]


def example(datasets: Mapping[str, Any], names: Sequence[str]) -> str:
    """A pair of the test data, to put behind `pdl predict RUN`."""
    dataset = datasets.get("test") or datasets.get("val") or datasets["train"]
    a, b = (names[int(n)] for n in split_of(dataset)[0].pairs[0])
    return f"--pairs {a}:{b}"


__all__ = ["answering", "deployed_logits", "deployment", "example", "form_of", "known"]
