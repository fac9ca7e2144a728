"""The task: which nodes of a graph are joined."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

import numpy as np

from pdl.data import DataLoader, Fault
from pdl.errors import ConfigError, UsageError
from pdl.hints import Range
from pdl.nn import Module
from pdl.train import Deployed, Loss, Metric, Recipe, SmokeTest, Task
from pdl_graph.batch import GraphBatch
from pdl_graph.graph import Graph
from pdl_graph.link.baselines import baselines
from pdl_graph.link.check import check_recipe
from pdl_graph.link.deploy import LinkDeployer, deployed_logits
from pdl_graph.link.loader import TrainingPairs, as_constant, split_of
from pdl_graph.link.losses import balanced_loss
from pdl_graph.link.metrics import Measure, link_metrics
from pdl_graph.link.report import LinkReporter
from pdl_graph.models.link import LinkModel
from pdl_graph.node_table import NODES, names_of


class LinkPrediction(Task):
    """Whether two nodes of a graph are joined, learned from some of its edges (`pdl_graph.data.EdgeSplit`).

    The loss is half the mean binary cross-entropy of edges and half that of pairs without one: the weighting of graph
    autoencoders (arXiv 1611.07308), whose loss over all pairs it estimates without bias.

    num_negatives  pairs without an edge that are drawn for each edge, anew in each epoch
    hits           hits@k is measured for these k
    features       numbers that a node has (0: none),
    directed       whether edges go one way, and
    weighted       whether they have weights, in the graphs that the model is used on; inferred from the data

    The net reads the whole message graph in every step; nodes without features get a row of the identity matrix.
    Metrics (auc, ap, mrr, hits@k) are over all pairs of a split: `pdl_graph.link.metrics`.
    """

    monitor = "val/auc"
    monitor_mode = "max"

    def __init__(
        self,
        *,
        num_negatives: Annotated[int, Range(1)] = 1,
        hits: Sequence[Annotated[int, Range(1)]] = (10, 50),
        features: Annotated[int, Range(0)] | None = None,
        directed: bool | None = None,
        weighted: bool | None = None,
    ) -> None:
        self.num_negatives, self.hits = num_negatives, tuple(hits)
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
            logits = deployed_logits(model, self, batch["pair"])
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
            self.vocabularies.setdefault(NODES, names_of(self.graph))

    def facts(self, recipe: Recipe) -> Mapping[str, Any]:
        return {} if self.graph is None else {"num_features": self.graph.num_features or self.graph.num_nodes}

    def check_model(self, model: Module, datasets: Mapping[str, Any], recipe: Recipe) -> None:
        if isinstance(model, Deployed):
            if self.graph is not None:
                self.constant = as_constant(
                    self.graph, self_loops=any(step.get("self_loops") for step in model.steps())
                )
            return
        if not isinstance(model, LinkModel):
            raise ConfigError(f"model: {type(model).__name__} is no pdl_graph.LinkModel; put it into a LinkPredictor")
        kept = [name for name, dataset in datasets.items() if split_of(dataset)[0].val_messages]
        if kept:
            raise ConfigError(f"data.{kept[0]}.val_messages: messages would give away the edges of val; leave it out")
        if self.graph is not None:
            self.constant = as_constant(self.graph, self_loops=model.self_loops)

    def loader(self, dataset: Any, recipe: Recipe, *, training: bool, seed: int) -> Iterable[Any]:
        """All pairs of a split at once, unless data.batch_size (eval_batch_size) says otherwise."""
        source = TrainingPairs(dataset, self.num_negatives, seed=seed) if training else dataset
        size = recipe.data.size(training=training, default=len(source))
        return DataLoader(source, batch_size=size, shuffle=training, seed=seed)

    def learned_config(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("features", "directed", "weighted")}

    def check(self, recipe: Recipe, progress: Any = None) -> list[Fault]:
        return check_recipe(recipe, progress)

    def smoke_test(self, recipe: Recipe) -> SmokeTest:
        return SmokeTest(train=600, test=200, epochs=12, batch_size=600)

    # -- what a task hands over ----------------------------------------------------------------------------------------
    def baselines(self, recipe: Recipe, datasets: Mapping[str, Any], split: str) -> dict[str, dict[str, float]]:
        """Common neighbours, Adamic-Adar, preferential attachment and personalised PageRank."""
        return baselines(datasets[split], self.hits)

    def deployer(self, recipe: Recipe) -> LinkDeployer:
        return LinkDeployer(self, recipe)

    def reporter(self) -> LinkReporter:
        return LinkReporter(self)
