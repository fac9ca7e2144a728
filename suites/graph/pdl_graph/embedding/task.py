"""The task: a vector for every node, learned from the edges alone, for tasks that are not known yet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

import numpy as np

import pdl
from pdl.data import DataLoader, Fault
from pdl.errors import ConfigError
from pdl.hints import Range
from pdl.nn import Module
from pdl.train import Deployed, Loss, Metric, Recipe, SmokeTest, Task
from pdl_graph.data.base import NodeData, class_names, graph_of, nodes_of, unwrap
from pdl_graph.data.edges import EdgeSplit
from pdl_graph.embedding.baselines import baselines
from pdl_graph.embedding.check import check_recipe
from pdl_graph.embedding.decoders import Linear, Operator, PairDecoder, for_labels, for_pairs, rows_of_labels
from pdl_graph.embedding.deploy import EmbeddingDeployer, deployed_logits
from pdl_graph.embedding.loader import Sequences
from pdl_graph.embedding.metrics import TopF1
from pdl_graph.embedding.report import EmbeddingReporter
from pdl_graph.graph import Graph
from pdl_graph.link.loader import split_of
from pdl_graph.link.metrics import Measure, link_metrics
from pdl_graph.models.skip_gram import SkipGram
from pdl_graph.node_table import NODES, names_of


class NodeEmbedding(Task):
    """Vectors of nodes by skip-gram over walks or edges (DeepWalk, node2vec, metapath2vec, LINE), measured by what a
    logistic regression makes of them that learns of the training split:

        data of `EdgeSplit`   which pairs are joined: the vectors of two nodes become one (`operator`), and edges of
                              training are told apart from pairs without one (Grover and Leskovec, arXiv 1607.00653,
                              section 4.4). Walks use the message graph
        data of nodes         their labels, one against the rest, of half the nodes, say; the best are predicted, as
                              many as a node has (Perozzi et al., arXiv 1403.6652, 5.1.2). Walks use the whole graph

    num_negatives  nodes that each context is compared with, in the mean over
    num_shared     negatives of a batch, shared by all its contexts
    operator       hadamard, average, l1 or l2, see `pdl_graph.embedding.decoders`
    l2             of the regression, see `pdl_graph.embedding.logistic`
    examples       edges of training that it learns of, at most
    hits           hits@k is measured for these k, of pairs

    An epoch is one walk from every node that has neighbours (of LINE, as many edges as there are): DeepWalk's gamma and
    node2vec's r are `train.epochs`. Test edges and labels decide nothing: without data.val the last weights are used.

    classes  names of the labels; by default the data set's
    """

    overfits = ""  # it learns of walks over a graph, and not of samples

    def __init__(
        self,
        *,
        num_negatives: Annotated[int, Range(1)] = 5,
        num_shared: Annotated[int, Range(1)] = 50,
        operator: Operator = "hadamard",
        l2: Annotated[float, Range(above=0)] = 1.0,
        examples: Annotated[int, Range(1)] = 200_000,
        hits: Sequence[Annotated[int, Range(1)]] = (10, 50),
        classes: Sequence[str] | None = None,
    ) -> None:
        self.num_negatives, self.num_shared, self.operator, self.l2 = num_negatives, num_shared, operator, l2
        self.examples, self.hits = examples, tuple(hits)
        self.classes = list(classes or ())  # empty: pairs are asked for
        self.graph: Graph | None = None
        self.evaluated: SkipGram | None = None  # what was evaluated last: the report draws its vectors
        self._train: Any = None  # what the regression learns of
        self._recipe: Recipe | None = None  # which names that, where only other splits were opened
        self._found: tuple[np.ndarray, Linear] | None = None  # the vectors, and the regression that was fitted to them

    # -- training ------------------------------------------------------------------------------------------------------
    def step(self, model: Module, batch: Any) -> Loss:
        assert isinstance(model, SkipGram)
        sequence, negatives = pdl.as_tensor(batch["sequence"]), pdl.as_tensor(batch["negatives"])
        return Loss(model.loss(sequence, negatives, self.num_negatives), sequence.shape[0])

    def evaluate(self, model: Module, batch: Any) -> Loss:
        """Logits of the regression and labels; the loss is its mean cross-entropy."""
        if isinstance(model, Deployed):  # a bundle, measured as it is deployed
            logits = deployed_logits(model, batch)
        else:
            assert isinstance(model, SkipGram)
            self.evaluated = model
            table, decoder = model.vectors(), self.decoder(model)
            kind = "pair" if "pair" in batch else "node"
            rows = pdl.as_tensor(np.asarray(batch[kind]) + 1)
            logits = decoder(table, rows) if isinstance(decoder, PairDecoder) else decoder(pdl.take(table, rows))
        labels = np.asarray(batch["label"])
        if "pair" not in batch:
            labels = rows_of_labels(labels, len(self.classes))
        loss = pdl.binary_cross_entropy_with_logits(logits, pdl.as_tensor(labels.astype(np.float32)))
        return Loss(loss, len(labels), (logits, labels))

    def decoder(self, model: SkipGram) -> Linear:
        """The regression on a model's vectors, fitted where these are not those of the last time."""
        with pdl.no_grad():
            vectors: np.ndarray = np.array(model.vectors().data)
        if self._found is None or not np.array_equal(self._found[0], vectors):
            self._found = vectors, self._fitted(vectors)
        return self._found[1]

    def _fitted(self, vectors: np.ndarray) -> Linear:
        train = self.training_data()
        if not self.classes:
            split, rows = split_of(train)
            return for_pairs(vectors, split, rows, operator=self.operator, l2=self.l2, most=self.examples)
        nodes, (base, _) = nodes_of(train), unwrap(train)
        return for_labels(vectors, nodes, rows_of_labels(base.y[nodes], len(self.classes)), l2=self.l2)

    def training_data(self) -> Any:
        """What the regression learns of; opened where only other splits were."""
        if self._train is None:
            if self._recipe is None or "train" not in self._recipe.data.splits:
                raise ConfigError("data.train: what the vectors are good for is learned of it; name it")
            self._train = self._recipe.data.datasets(("train",))["train"]
        return self._train

    def metrics(self) -> dict[str, Metric]:
        return {name: TopF1(name[:5]) for name in ("micro_f1", "macro_f1")} if self.classes else link_metrics(self.hits)  # type: ignore[arg-type]

    def update_metrics(self, metrics: dict[str, Metric], loss: Loss, batch: Any) -> None:
        first = next(iter(metrics.values()))
        if isinstance(first, Measure):
            first.scores.update(*loss.outputs)  # which the others share
        else:
            super().update_metrics(metrics, loss, batch)

    # -- building ------------------------------------------------------------------------------------------------------
    def prepare(self, recipe: Recipe, datasets: Mapping[str, Any]) -> None:
        """Find the graph, which all splits must share, and the kind of query: nodes or pairs."""
        self._train = datasets.get("train", self._train)
        for split, dataset in datasets.items():
            base, graph = unwrap(dataset)[0], graph_of(dataset)
            if not isinstance(base, EdgeSplit | NodeData) or (isinstance(base, NodeData) and not class_names(graph)):
                what = type(base).__name__ + ("" if not isinstance(base, NodeData) else " without classes")
                raise ConfigError(f"data.{split}: {what} asks nothing of nodes; use EdgeSplit or nodes with labels")
            self.graph = graph if self.graph is None else self.graph
            if graph is not self.graph and graph.fingerprint != self.graph.fingerprint:
                first = next(iter(datasets))
                raise ConfigError(f"data.{split}: its graph is not that of {first}; give all splits the same graph")
            if isinstance(base, NodeData):
                self.classes = self.classes or class_names(graph)
            if isinstance(base, NodeData) != bool(self.classes):
                raise ConfigError(f"data.{split}: some splits hold pairs and others nodes; give all the same kind")
        if self.graph is not None:
            self.vocabularies.setdefault(NODES, names_of(self.graph))

    def model(self, recipe: Recipe) -> Module:
        """The recipe's model; `training_data` is that of the same recipe."""
        self._recipe = recipe
        return super().model(recipe)

    def facts(self, recipe: Recipe) -> Mapping[str, Any]:
        return {} if self.graph is None else {"num_nodes": self.graph.num_nodes}

    def check_model(self, model: Module, datasets: Mapping[str, Any], recipe: Recipe) -> None:
        if isinstance(model, Deployed):
            return
        if not isinstance(model, SkipGram):
            raise ConfigError(f"model: {type(model).__name__} is no pdl_graph.SkipGram, such as pdl_graph.DeepWalk")
        if self.graph is not None and model.num_nodes != self.graph.num_nodes:
            has = f"{model.num_nodes}, but the graph has {self.graph.num_nodes} nodes"
            raise ConfigError(f"model.num_nodes: {has}; leave it out")
        self._learner = model

    def loader(self, dataset: Any, recipe: Recipe, *, training: bool, seed: int) -> Iterable[Any]:
        """Sequences of nodes for training; otherwise the samples of a split, in order."""
        data = recipe.data
        source, size = dataset, data.eval_batch_size or len(dataset)
        if training:
            source = Sequences(graph_of(dataset), self._learner, self.num_shared, seed=seed, origin=dataset)
            size = data.batch_size
        return DataLoader(
            source, batch_size=size, shuffle=training, seed=seed, workers=data.workers, prefetch=data.prefetch
        )

    def learned_config(self) -> dict[str, Any]:
        return {"classes": self.classes}

    def check(self, recipe: Recipe, progress: Any = None) -> list[Fault]:
        return check_recipe(recipe, progress)

    def smoke_test(self, recipe: Recipe) -> SmokeTest:
        """Walks as long, and as many negatives, as in the recipe: with less the loss falls too late."""
        edges = recipe.model.target.endswith("LINE")
        settings = {"model.dim": 32, "optim.lr": 0.05 if edges else 0.01}
        return SmokeTest(
            train=600, test=200, epochs=4 if edges else 3, batch_size=2048 if edges else 32, settings=settings
        )

    # -- what a task hands over ----------------------------------------------------------------------------------------
    def baselines(self, recipe: Recipe, datasets: Mapping[str, Any], split: str) -> dict[str, dict[str, float]]:
        """Of pairs those of `LinkPrediction`; of labels the most frequent ones, and what neighbours have."""
        return baselines(self, datasets, split)

    def deployer(self, recipe: Recipe) -> EmbeddingDeployer:
        return EmbeddingDeployer(self, recipe)

    def reporter(self) -> EmbeddingReporter:
        return EmbeddingReporter(self)
