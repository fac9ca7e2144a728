"""The task: vectors of nodes that are learned without labels, and what a linear map makes of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

import numpy as np

import pdl
from pdl.errors import ConfigError, DataError
from pdl.hints import Range
from pdl.nn import Module
from pdl.ops.base import assign
from pdl.train import Deployed, Loss, Parts, Recipe, SmokeTest
from pdl_graph.data.base import graph_of, nodes_of
from pdl_graph.infomax.loader import Shuffles
from pdl_graph.infomax.softmax import fit
from pdl_graph.models.dgi import DGI
from pdl_graph.node.task import NodeClassification


class GraphInfomax(NodeClassification):
    """Learn vectors of the nodes of one graph without labels (`pdl_graph.DGI`), then classes from frozen vectors by
    logistic regression: Velickovic et al., "Deep graph infomax", arXiv 1809.10341.

    The loss is the mean cross-entropy of telling nodes from those of the graph with shuffled features. At every
    evaluation the regression is fitted anew to the labels of the training nodes, as the vectors are then, and kept in
    the model; metrics, predictions and bundles are of its classes, and val/loss and test/loss its cross-entropy.

    penalty   of the regression, see `pdl_graph.infomax.softmax.fit`
    classes   their names in the order of the labels; by default the data set's
    directed  whether edges go one way, and
    weighted  whether they have weights, in the graphs that the model is used on; by default as in the data
    """

    def __init__(
        self,
        *,
        penalty: Annotated[float, Range(above=0)] = 0.1,
        classes: Sequence[str] | None = None,
        directed: bool | None = None,
        weighted: bool | None = None,
    ) -> None:
        super().__init__(classes=classes, directed=directed, weighted=weighted)
        self.penalty = penalty
        self.learning = False  # whether weights change, and the regression with them
        self.labelled: tuple[np.ndarray, np.ndarray] | None = None  # nodes and labels that it is fitted to

    # -- training ------------------------------------------------------------------------------------------------------
    def step(self, model: Module, batch: Any) -> Loss:
        assert isinstance(model, DGI)
        real, fake = model.contrast(self.graphs[batch["graph"]], batch["order"])
        loss = (pdl.softplus(-real).mean() + pdl.softplus(fake).mean()) * 0.5
        return Loss(loss, len(batch["order"]))

    def evaluate(self, model: Module, batch: Any) -> Loss:
        """The cross-entropy of the regression, with logits and labels."""
        self.evaluated = model
        if self.learning and isinstance(model, DGI):
            self.regress(model, self.graphs[batch["graph"]])
        logits, labels = self.scores(model, batch), batch["label"]
        return Loss(pdl.cross_entropy(logits, pdl.as_tensor(labels)), len(labels), (logits, labels))

    def regress(self, model: DGI, graph: Any) -> None:
        """Fit the linear map of a model to the labels of the training nodes."""
        assert self.labelled is not None
        nodes, labels = self.labelled
        weight, bias = fit(model.embed(graph).data[nodes], labels, model.num_classes, penalty=self.penalty)
        assign(model.weight, pdl.as_tensor(weight.astype(np.float32)))
        assign(model.bias, pdl.as_tensor(bias.astype(np.float32)))

    # -- building ------------------------------------------------------------------------------------------------------
    def prepare(self, recipe: Recipe, datasets: Mapping[str, Any]) -> None:
        super().prepare(recipe, datasets)
        if self.multi_label:
            raise DataError("data: nodes have several labels, but the regression of GraphInfomax gives one class")
        first = next(iter(datasets.values()), None)
        if any(graph_of(dataset) is not graph_of(first) for dataset in datasets.values()):
            raise ConfigError("data: GraphInfomax learns the vectors of one graph, which all splits must share")
        if "train" in datasets:
            nodes = nodes_of(datasets["train"])
            self.labelled = nodes, np.asarray(graph_of(datasets["train"]).y)[nodes]

    def check_model(self, model: Module, datasets: Mapping[str, Any], recipe: Recipe) -> None:
        super().check_model(model, datasets, recipe)
        if isinstance(model, Deployed):
            return
        if not isinstance(model, DGI):
            raise ConfigError(f"model: {recipe.model.target} has nothing to contrast; GraphInfomax takes a DGI")
        if recipe.settings.ema is not None:
            raise ConfigError("train.ema: averages of weights have no regression of their own; leave it out")

    def loader(self, dataset: Any, recipe: Recipe, *, training: bool, seed: int) -> Iterable[Any]:
        whole = super().loader(dataset, recipe, training=training, seed=seed)
        return Shuffles(whole, graph_of(dataset).num_nodes, seed) if training else whole

    def assembled(self, parts: Parts, recipe: Recipe, *, training: bool) -> None:
        self.learning = training

    def learned_config(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("classes", "directed", "weighted")}

    def smoke_test(self, recipe: Recipe) -> SmokeTest:
        return SmokeTest(train=120, test=60, epochs=20, batch_size=1 << 20)
