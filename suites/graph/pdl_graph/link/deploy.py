"""What of a model of links goes into a bundle.

Where nodes have features a model answers for any graph with such features. Where they have none it knows the nodes of
its own graph, by name.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import pdl
from pdl.export.deployment import Deployment
from pdl.nn import Module
from pdl.report import Card
from pdl.tensor import no_grad
from pdl.train import Deployed, Deployer
from pdl_graph.deployment import InductiveModel, bundle_inputs, own_data
from pdl_graph.graph import Graph
from pdl_graph.link.loader import as_constant, split_of
from pdl_graph.models.link import LinkModel
from pdl_graph.node_table import NODES, NodeTable, with_unknown
from pdl_graph.steps.graphs import Form

if TYPE_CHECKING:
    from pdl_graph.link.task import LinkPrediction

OUTPUT, LABELS = "logit", ["edge"]
POST = ({"step": "probabilities"},)
MEASURED = "Areas under curves over the edges of a split and as many pairs without an edge (ties count a half)."


class LinkDeployer(Deployer):
    """The logit of an edge between two nodes; its probability afterwards."""

    task: LinkPrediction

    def deployment(self, model: Module, dataset: Any = None) -> Deployment:
        assert isinstance(model, LinkModel)
        task = self.task
        if task.graph is None and dataset is not None:
            task.graph = split_of(dataset)[0].graph
        if not task.features:
            return self._table(model).deployment(self.recipe.identity())
        graph = self.recipe.data.splits["train"].part("graph")
        return InductiveModel(
            model=model,
            kind="pair",
            encode=model.embed,
            answer=model.decode,
            form=Form(
                features=task.features,
                directed=bool(task.directed),
                self_loops=bool(model.self_loops),
                normalize=graph is not None and bool(graph.get("normalize")),
            ),
            weighted=bool(task.weighted),
            output=OUTPUT,
            post=POST,
            labels=LABELS,
        ).deployment(task.graph, self.recipe.identity(), own=self.message_graph)

    def _table(self, model: LinkModel) -> NodeTable:
        """The vectors of the run's own nodes."""
        model.eval()
        with no_grad():
            vectors = model.embed(as_constant(self.message_graph(), self_loops=model.self_loops))
        return NodeTable(
            kind="pair",
            names=self.task.vocabularies[NODES],
            vectors=with_unknown(vectors),
            answer=model.decode,
            output=OUTPUT,
            post=POST,
            labels=LABELS,
            decoder=model,
        )

    def message_graph(self) -> Graph:
        """The graph whose edges the run's net may use."""
        return self.task.graph if self.task.graph is not None else split_of(own_data(self.recipe))[0].graph

    def card(self, model: Module) -> Card:
        inductive = bool(self.task.features)
        graphs = "any graph whose nodes have such features" if inductive else "the nodes of its own graph, by name"
        query = '{"graph": "folder", "pair": ["a", "b"]}' if inductive else '{"pair": ["a", "b"]}'
        command = "--new-graph folder --pairs pairs.csv" if inductive else "--pairs pairs.csv"
        return Card(
            title=f"{type(model).__name__}: which nodes are joined",
            summary=f"The probability of an edge between two nodes, for {graphs} ({self.recipe.model.target}). It was "
            "learned with as many edges as pairs without one; among all pairs edges are rarer.",
            protocol=f"{MEASURED} The net sees the training edges alone.",
            use=f'    session = pdl.runtime.load("model.pdl")\n    session({query})\n\n'
            f"or `pdl predict model.pdl {command}`.",
            data=self.learned_from,
        )

    def example(self, loaders: Mapping[str, Any], folder: Path) -> str:
        """A pair of the test data."""
        loader = loaders.get("test") or loaders.get("val") or loaders["train"]
        names = self.task.vocabularies[NODES].names
        return "--pairs " + shlex.quote(":".join(names[int(n)] for n in split_of(loader.dataset)[0].pairs[0]))


def deployed_logits(model: Deployed, task: LinkPrediction, pair: Any) -> pdl.Tensor:
    """What a bundle says of pairs [P, 2]."""
    names = [port.name for port in model.session.inputs]
    own = names == ["query"]
    found: pdl.Tensor = model(
        *([pdl.Tensor(np.asarray(pair) + 1)] if own else bundle_inputs(names, task.messages(), pair))
    )
    return found
