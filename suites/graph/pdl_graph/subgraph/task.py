"""The task: which nodes of a graph are joined, by the enclosing subgraph of each pair."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

import numpy as np

import pdl
from pdl.data import DataLoader
from pdl.errors import ConfigError
from pdl.hints import Range
from pdl.nn import Module
from pdl.ranking import auc
from pdl.train import Deployed, Loss, Recipe, SmokeTest
from pdl_graph.data.pairs import edge_keys, non_edges, pairs_of
from pdl_graph.graph import Graph
from pdl_graph.link.baselines import heuristics
from pdl_graph.link.loader import split_of
from pdl_graph.link.task import LinkPrediction
from pdl_graph.models.seal import SubgraphModel
from pdl_graph.subgraph.deploy import SubgraphDeployer, bundle_inputs
from pdl_graph.subgraph.loader import Enclosing, EnclosingSubgraphs, enclosing

SMALLEST = 10  # nodes that sort pooling keeps at least, as in the authors' code


class SubgraphLinks(LinkPrediction):
    """Whether two nodes are joined, learned from the enclosing subgraphs of edges and of pairs without one: SEAL
    (Zhang & Chen, arXiv 1802.09691). Loss, metrics and baselines are those of `LinkPrediction`.

    hops           nodes within so many steps of either node are read: 1 or more; None: 1 or 2, chosen on the validation
                   pairs (`hops_by_validation`)
    max_nodes      at most so many, sampled at random, of those that are new in a hop; all by default
    num_negatives  pairs without an edge for each edge of training, drawn once, by the split's seed, among those that
                   the message graph does not join
    keep           share of the training subgraphs that keep at most so many nodes as sort pooling does, where the
                   recipe gives no model.k

    The edge in question is never in its own subgraph, so the edges of val may stay in the message graph
    (`EdgeSplit(val_messages=True)`), as in the paper. Subgraphs are cut once, at the beginning.
    """

    def __init__(
        self,
        *,
        hops: Annotated[int, Range(1)] | None = None,
        max_nodes: Annotated[int, Range(1)] | None = None,
        num_negatives: Annotated[int, Range(1)] = 1,
        hits: Sequence[Annotated[int, Range(1)]] = (10, 50),
        keep: Annotated[float, Range(0, 1)] = 0.6,
    ) -> None:
        super().__init__(num_negatives=num_negatives, hits=hits)
        self.hops, self.max_nodes, self.keep = hops, max_nodes, keep
        self._chosen = False  # whether the data chose hops
        self.train: Any = None  # the data set
        self._cut: dict[tuple[int, bool], tuple[Any, EnclosingSubgraphs]] = {}

    # -- training ------------------------------------------------------------------------------------------------------
    def step(self, model: Module, batch: Any) -> Loss:
        graph, label = batch["graph"], pdl.as_tensor(batch["label"])
        logits = model(*bundle_inputs(graph)) if isinstance(model, Deployed) else model(graph)
        return Loss(pdl.binary_cross_entropy_with_logits(logits, label), len(label), (logits.detach(), label))

    def evaluate(self, model: Module, batch: Any) -> Loss:
        return self.step(model, batch)

    # -- building ------------------------------------------------------------------------------------------------------
    def prepare(self, recipe: Recipe, datasets: Mapping[str, Any]) -> None:
        super().prepare(recipe, datasets)
        self.train = datasets.get("train", self.train)
        if self.hops is None:
            missing = [split for split in ("train", "val") if split not in datasets]
            both = {**datasets, **recipe.data.datasets(missing)}
            if "train" not in both or "val" not in both:
                raise ConfigError("task.hops: 1 or 2 is chosen on data.val, which is not there; name it, or give hops")
            self.hops, self._chosen = hops_by_validation(both["train"], both["val"]), True

    def facts(self, recipe: Recipe) -> Mapping[str, Any]:
        """The labels and sizes of the training subgraphs, which are cut where the recipe's model leaves them open."""
        if self.train is None or all(recipe.model.get(name) is not None for name in ("num_labels", "k")):
            return {}
        parts = self.subgraphs(self.train, training=True).parts
        return {"num_labels": int(parts.label.max()) + 1, "k": kept(parts, self.keep)}

    def check_model(self, model: Module, datasets: Mapping[str, Any], recipe: Recipe) -> None:
        if not isinstance(model, SubgraphModel | Deployed):
            raise ConfigError(f"model: {type(model).__name__} is no pdl_graph.SubgraphModel; use pdl_graph.SEAL")

    def subgraphs(self, dataset: Any, *, training: bool) -> EnclosingSubgraphs:
        """The subgraphs of the pairs of a data set; for training those of pairs without an edge, too. Cut once."""
        key = (id(dataset), training)
        if key not in self._cut:
            self._cut[key] = (dataset, self._make(dataset, training))
        return self._cut[key][1]

    def _make(self, dataset: Any, training: bool) -> EnclosingSubgraphs:
        split, rows = split_of(dataset)
        pairs, targets = split.pairs, split.targets
        if rows is not None:
            pairs, targets = pairs[rows], targets[rows]
        if training:
            rng, graph = np.random.default_rng([split.seed, 1]), split.graph
            count = self.num_negatives * len(pairs)
            negatives = non_edges(edge_keys(graph), graph.num_nodes, count, rng, directed=graph.directed)
            pairs = np.concatenate([pairs, pairs_of(negatives, graph.num_nodes)])
            targets = np.concatenate([targets, np.zeros(count, np.int64)])
        assert self.hops is not None  # since `prepare`
        cut = enclosing(split.graph, pairs, hops=self.hops, max_nodes=self.max_nodes, seed=split.seed)
        return EnclosingSubgraphs(cut, targets, dataset)

    def loader(self, dataset: Any, recipe: Recipe, *, training: bool, seed: int) -> Iterable[Any]:
        data = recipe.data
        return DataLoader(
            self.subgraphs(dataset, training=training),
            batch_size=data.size(training=training, default=50),
            shuffle=training,
            seed=seed,
            workers=data.workers,
            prefetch=data.prefetch,
        )

    def learned_config(self) -> dict[str, Any]:
        return {"hops": self.hops} if self._chosen else {}  # pairs of any graph are read alike

    def smoke_test(self, recipe: Recipe) -> SmokeTest:
        return SmokeTest(train=200, test=60, epochs=6, batch_size=50, settings={"optim.lr": 0.005})

    def deployer(self, recipe: Recipe) -> SubgraphDeployer:
        return SubgraphDeployer(self, recipe)


def hops_by_validation(train: Any, val: Any) -> int:
    """2 where heuristics that look further than the neighbours that two nodes share, Adamic-Adar or PageRank, have a
    higher AUC on the validation pairs than the number of these, else 1; of the edges of training alone.

    The paper's rule (section 4) compares Adamic-Adar alone, which hardly differs where few pairs share anything: on
    sparse graphs."""
    split, rows = split_of(train)
    pairs, targets = (split.pairs, split.targets) if rows is None else (split.pairs[rows], split.targets[rows])
    edges = pairs[targets == 1]
    graph = Graph.from_edges(edges[:, 0], edges[:, 1], split.graph.num_nodes, directed=False)
    rated, few = split_of(val)
    which = slice(None) if few is None else few
    found = {name: auc(scores, rated.targets[which]) for name, scores in heuristics(graph, rated.pairs[which]).items()}
    further = max(found["Adamic-Adar"], found.get("PageRank", 0.0))
    return 2 if further > found["common neighbours"] else 1


def kept(parts: Enclosing, share: float) -> int:
    """The size that so many of the subgraphs do not exceed, at least `SMALLEST`."""
    sizes = np.sort(parts.sizes)
    return max(SMALLEST, int(sizes[max(0, int(np.ceil(share * len(sizes))) - 1)]))
