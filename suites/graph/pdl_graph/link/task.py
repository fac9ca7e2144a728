"""The task: which nodes of a graph are joined."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np

import pdl
from pdl.data import DataLoader, Fault
from pdl.errors import ConfigError, UsageError
from pdl.export.deployment import Deployment
from pdl.hints import Range
from pdl.nn import Module
from pdl.program.tree import rebuild
from pdl.report import Section
from pdl.tensor import no_grad
from pdl.train import Deployed, Evaluation, Loss, Metric, Recipe, SmokeTest, Task
from pdl_graph import named
from pdl_graph.batch import GraphBatch
from pdl_graph.features import identity_features
from pdl_graph.graph import Graph
from pdl_graph.link import use
from pdl_graph.link.loader import TrainingPairs, split_of
from pdl_graph.link.metrics import Measure, link_metrics
from pdl_graph.models.link import LinkModel


class LinkPrediction(Task):
    """Whether two nodes of a graph are joined, learned from some of its edges (`pdl_graph.data.EdgeSplit`).

    The loss is half the mean binary cross-entropy of edges and half that of pairs without one: the weighting of graph
    autoencoders (arXiv 1611.07308), whose loss over all pairs it estimates without bias.

    negatives   pairs without an edge that are drawn for each edge, anew in each epoch
    hits        hits@k is measured for these k
    features    numbers that a node has (0: none),
    directed    whether edges go one way, and
    weighted    whether they have weights, in the graphs that the model is used on; the data tells

    The net reads the whole message graph in every step; nodes without features get a row of the identity matrix.
    Metrics (auc, ap, mrr, hits@k) are over all pairs of a split: `pdl_graph.link.metrics`.
    """

    monitor = "val/auc"
    monitor_mode = "max"

    def __init__(
        self,
        *,
        negatives: Annotated[int, Range(1)] = 1,
        hits: Sequence[Annotated[int, Range(1)]] = (10, 50),
        features: Annotated[int, Range(0)] | None = None,
        directed: bool | None = None,
        weighted: bool | None = None,
    ) -> None:
        self.negatives, self.hits = negatives, tuple(hits)
        self.features, self.directed, self.weighted = features or 0, directed, weighted
        self.graph: Graph | None = None  # that messages may use
        self.constant: GraphBatch | None = None  # its arrays as the model reads them
        self.evaluated: Module | None = None  # what was evaluated last: the report draws its vectors

    # -- training ------------------------------------------------------------------------------------------------------
    def step(self, model: Module, batch: Any) -> Loss:
        assert isinstance(model, LinkModel)
        vectors, penalty = model.encode(self.messages())
        value = balanced_loss(model.decode(vectors, batch["pair"]), batch["label"])
        return Loss(value if penalty is None else value + penalty, len(batch["label"]))

    def evaluate(self, model: Module, batch: Any) -> Loss:
        """Logits and labels; the loss is that of training, without what a model adds to it."""
        label = np.asarray(batch["label"])
        self.evaluated = model
        if isinstance(model, Deployed):  # a bundle, measured as it is deployed
            logits = use.deployed_logits(model, self, batch["pair"])
        else:
            logits = model(self.messages(), batch["pair"])
        return Loss(balanced_loss(logits, label), len(label), (logits, label))

    def messages(self) -> GraphBatch:
        """The message graph as the model reads it."""
        if self.constant is None:
            raise UsageError("LinkPrediction has no message graph; assemble it with data (pdl.train.assemble)")
        return self.constant

    def metrics(self) -> dict[str, Metric]:
        return link_metrics(self.hits)

    def update_metrics(self, metrics: dict[str, Metric], loss: Loss, batch: Any) -> None:
        first = next(iter(metrics.values()))
        assert isinstance(first, Measure)
        first.scores.update(*loss.outputs)  # which the others share

    # -- building ------------------------------------------------------------------------------------------------------
    def prepare(self, recipe: Recipe, datasets: Mapping[str, Any]) -> None:
        """Find the message graph, which all splits must share."""
        splits = {name: split_of(dataset)[0] for name, dataset in datasets.items()}
        for name, split in splits.items():
            self.graph = split.graph if self.graph is None else self.graph
            if split.graph is not self.graph and split.graph.fingerprint != self.graph.fingerprint:
                raise ConfigError(
                    f"data.{name}: its messages use other edges than those of {next(iter(splits))}; give all splits "
                    "the same graph, val, test and seed"
                )
        if self.graph is not None:
            self.features = self.graph.num_features
            self.directed = self.graph.directed if self.directed is None else self.directed
            self.weighted = self.graph.edge_weight is not None if self.weighted is None else self.weighted
            self.vocabularies.setdefault(named.NODES, named.names_of(self.graph))

    def facts(self, recipe: Recipe) -> Mapping[str, Any]:
        return {} if self.graph is None else {"num_features": self.graph.num_features or self.graph.num_nodes}

    def check_model(self, model: Module, datasets: Mapping[str, Any], recipe: Recipe) -> None:
        if isinstance(model, Deployed):
            if self.graph is not None:
                self.constant = constant(self.graph, self_loops=any(step.get("self_loops") for step in model.steps()))
            return
        if not isinstance(model, LinkModel):
            raise ConfigError(f"model: {type(model).__name__} is no pdl_graph.LinkModel; put it into a LinkPredictor")
        kept = [name for name, dataset in datasets.items() if split_of(dataset)[0].val_messages]
        if kept:
            raise ConfigError(f"data.{kept[0]}.val_messages: messages would tell the edges of val; leave it out")
        if self.graph is not None:
            self.constant = constant(self.graph, self_loops=model.self_loops)

    def loader(self, dataset: Any, recipe: Recipe, *, training: bool, seed: int) -> Iterable[Any]:
        """All pairs of a split at once, unless data.batch_size (eval_batch_size) says otherwise."""
        source = TrainingPairs(dataset, self.negatives, seed=seed) if training else dataset
        size = recipe.data.size(training=training, default=len(source))
        return DataLoader(source, batch_size=size, shuffle=training, seed=seed)

    def learned_config(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("features", "directed", "weighted")}

    # -- telling -------------------------------------------------------------------------------------------------------
    def baselines(self, recipe: Recipe, datasets: Mapping[str, Any], split: str) -> dict[str, dict[str, float]]:
        """Common neighbours, Adamic-Adar, preferential attachment and personalised PageRank."""
        from pdl_graph.link.baselines import baselines

        return baselines(datasets[split], self.hits)

    def report(self, evaluation: Evaluation, dataset: Any) -> list[Section]:
        from pdl_graph.link.report import sections

        return sections(evaluation, dataset, self._vectors())

    def _vectors(self) -> np.ndarray | None:
        """Those of the nodes, of the model that was evaluated last."""
        if self.constant is None or not isinstance(self.evaluated, LinkModel):
            return None
        with no_grad():
            return self.evaluated.eval().embed(self.constant).numpy()  # type: ignore[no-any-return]

    def check(self, recipe: Recipe, progress: Any = None) -> list[Fault]:
        from pdl_graph.link.check import check

        return check(recipe, progress)

    def smoke_test(self, recipe: Recipe) -> SmokeTest:
        return SmokeTest(train=600, test=200, epochs=12, batch_size=600)

    # -- using ---------------------------------------------------------------------------------------------------------
    def example(self, loaders: Mapping[str, Any], folder: Path) -> str:
        return use.example(
            {name: loader.dataset for name, loader in loaders.items()}, self.vocabularies[named.NODES].names
        )

    def deployment(
        self,
        model: Module,
        recipe: Recipe,
        *,
        dataset: Any = None,
        metrics: Mapping[str, float | None] | None = None,
        licence: str = "",
    ) -> Deployment:
        if self.graph is None and dataset is not None:
            self.graph = split_of(dataset)[0].graph
        return use.deployment(self, model, recipe, metrics=metrics or {}, licence=licence)


def balanced_loss(logits: Any, label: Any) -> pdl.Tensor:
    """Half the mean cross-entropy of the ones and half that of the zeros; of what is not there, nothing."""
    label = pdl.as_tensor(label).astype(pdl.float32)
    ones = label.sum()
    zeros = (1.0 - label).sum()
    weight = 0.5 * (label / pdl.maximum(ones, 1.0) + (1.0 - label) / pdl.maximum(zeros, 1.0))
    each = pdl.binary_cross_entropy_with_logits(logits, label, reduction="none")
    return (each * weight).sum()


def constant(graph: Graph, *, self_loops: bool = False) -> GraphBatch:
    """The arrays of a graph as tensors that compiled steps capture; nodes without features have the identity's."""
    graph = graph if graph.x is not None else graph.with_(x=identity_features(graph.num_nodes))
    made: GraphBatch = rebuild((graph.with_self_loops() if self_loops else graph).batch(), pdl.as_tensor)
    return made


__all__ = ["LinkPrediction", "balanced_loss", "constant"]
