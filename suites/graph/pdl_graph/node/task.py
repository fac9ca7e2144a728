"""The task: of which class the nodes of a graph are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np

import pdl
from pdl import Tensor
from pdl.data import Fault
from pdl.errors import ConfigError, DataError
from pdl.hints import Range
from pdl.nn import Module
from pdl.program import CompiledForward
from pdl.program.tree import rebuild
from pdl.train import Deployed, Loss, Metric, Recipe, SmokeTest, Task
from pdl.train.class_loss import ClassLoss, ClassWeights, Gamma
from pdl.train.metrics import AUC, class_metrics
from pdl_graph.batch import GraphBatch
from pdl_graph.data.base import graph_of, nodes_of, unwrap
from pdl_graph.graph import Graph
from pdl_graph.models.base import GraphModel
from pdl_graph.node.baselines import baselines
from pdl_graph.node.check import check_recipe
from pdl_graph.node.deploy import NodeDeployer, deployed_scores
from pdl_graph.node.loader import WholeSplit, among, sampled_loader
from pdl_graph.node.metrics import LabelF1
from pdl_graph.node.report import NodeReporter
from pdl_graph.node.sampler import NeighbourSampler, check_layers, one_by_one
from pdl_graph.node_table import NODES, names_of


class NodeClassification(Task):
    """One class for each node, by cross-entropy; or labels of which a node may have several, by binary cross-entropy.

    classes      their names in the order of the labels; by default the data set's
    multi_label  whether a node may have several labels; by default so where the data's labels are rows [N, K]
    class_weights  weights of the classes in the loss, by name (others 1), or "balanced": all classes count alike; in
                 training only, as the next one
    focal_gamma  of the focal loss (Lin et al., arXiv 1708.02002), 2 in the paper: nodes that are classified well
                 already count less; 0: plain cross-entropy
    inductive    train on those edges alone that join two training nodes. Otherwise (transductive, as the papers on
                 citation graphs do) training sees all nodes and edges, but only the labels of its own nodes.
                 Evaluation is always on the whole graph
    directed     whether edges go one way, and
    weighted     whether they have weights, in the graphs that the model is used on; by default as in the data
    neighbours   train on sampled neighbourhoods: so many neighbours of every node of a batch (`data.batch_size`), then
                 so many of each of these, ...; -1: all. One number for each layer of a net whose layers take graphs of
                 their own (`LayeredModel`: GraphSAGE, RGCN). They are sampled anew at every step, by a thread beside
                 the step (`data.workers`: 1), by default
    sampling     "uniform", or "weighted": in proportion to the weights of edges;    replace  with replacement
    inference    how nodes are scored then: "exact", with all their neighbours, layer by layer; or "sampled", as in
                 training

    Full batch (without `neighbours`): every step and every evaluation is one pass over the whole graph, which the task
    holds as tensors, made once and shared by all splits; the loaders give no more than the nodes of their split and
    their labels. A step that is compiled has the graph as constants, so what depends on the graph alone is computed
    once.
    """

    monitor = "val/accuracy"
    monitor_mode = "max"

    def __init__(
        self,
        *,
        classes: Sequence[str] | None = None,
        multi_label: bool | None = None,
        class_weights: ClassWeights | None = None,
        focal_gamma: Gamma = 0.0,
        inductive: bool = False,
        directed: bool | None = None,
        weighted: bool | None = None,
        neighbours: Sequence[Annotated[int, Range(-1)]] | None = None,
        sampling: Literal["uniform", "weighted"] = "uniform",
        replace: bool = False,
        inference: Literal["exact", "sampled"] = "exact",
    ) -> None:
        self.classes = list(classes or ())
        self.multi_label = multi_label
        self.class_loss = ClassLoss(class_weights, focal_gamma)
        self.inductive = inductive
        self.directed, self.weighted = directed, weighted
        self.neighbours = tuple(neighbours or ())
        self.sampling, self.replace, self.inference = sampling, replace, inference
        self.self_loops = False
        self.sizes: dict[str, int] = {}  # what nets may want to know of the data
        self.graphs: list[GraphBatch] = []  # as tensors; what batches mean by "graph"
        self.samplers: list[NeighbourSampler] = []  # the same where neighbours are sampled
        self.evaluated: Module | None = None  # what was evaluated last: the report draws its vectors
        self._sources: list[tuple[Graph, bool]] = []  # what each was made of
        self.compile = True
        self._evaluation: CompiledForward | None = None

    # -- training ------------------------------------------------------------------------------------------------------
    def step(self, model: Module, batch: Any) -> Loss:
        return self._loss(self.scores(model, batch), batch["label"], self.class_loss)

    def _loss(self, logits: Tensor, labels: Any, of_classes: Callable[[Tensor, Any], Tensor]) -> Loss:
        if self.multi_label:
            target = pdl.astype(pdl.as_tensor(labels), logits.dtype)
            loss = pdl.binary_cross_entropy_with_logits(logits, target)
        else:
            loss = of_classes(logits, pdl.as_tensor(labels))
        return Loss(loss, len(labels), (logits.detach(), labels))

    def _measured(self, model: Module, batch: Any) -> Loss:
        return self._loss(self.scores(model, batch), batch["label"], pdl.cross_entropy)

    def evaluate(self, model: Module, batch: Any) -> Loss:
        """As `step`, by plain cross-entropy, and like that from a program where `train.compile` is on."""
        self.evaluated = model
        if not self.compile or "graph" not in batch or isinstance(model, Deployed):
            return self._measured(model, batch)
        if self._evaluation is None or self._evaluation.module is not model:
            self._evaluation = CompiledForward(partial(self._measured, model), model)
        made: Loss = self._evaluation(batch)
        made.outputs = tuple(np.array(pdl.as_tensor(x).data) for x in made.outputs)  # the next batch overwrites them
        return made

    def scores(self, model: Module, batch: Any) -> Tensor:
        """Logits [B, num_classes] of the nodes of a batch."""
        if isinstance(model, Deployed):  # a bundle, measured as it is deployed
            return deployed_scores(model, self.graphs[batch["graph"]], batch["node"])
        if "blocks" in batch:
            return one_by_one(model, batch["blocks"])
        if self.neighbours:
            return self.samplers[batch["graph"]].scores(model, batch["node"])  # type: ignore[arg-type]
        return pdl.take(model(self.graphs[batch["graph"]]), batch["node"])

    def metrics(self) -> dict[str, Metric]:
        if self.multi_label:
            return {"micro_f1": LabelF1("micro"), "macro_f1": LabelF1("macro"), "auc": AUC()}
        return class_metrics(len(self.classes))

    # -- building ------------------------------------------------------------------------------------------------------
    def prepare(self, recipe: Recipe, datasets: Mapping[str, Any]) -> None:
        """Agree on classes and on the widths of features and labels."""
        self.compile = recipe.settings.compile and not recipe.settings.nan_check
        for split, dataset in datasets.items():
            graph, (base, _) = graph_of(dataset), unwrap(dataset)
            labels = np.asarray(base.y)[nodes_of(dataset)]
            if self.multi_label is None:
                self.multi_label = labels.ndim == 2
            self.classes = self.classes or list(base.classes) or [str(k) for k in range(graph.num_classes)]
            self._check_labels(split, labels, nodes_of(dataset))
            sizes = self._sizes(graph)
            if not graph.num_features and "num_nodes" not in recipe.model.takes:
                raise DataError(f"data.{split}: the nodes have no features, and the net needs some; give the graph x")
            if self.sizes and self.sizes != sizes:
                raise DataError(f"data.{split}: has {sizes}, but the splits before it {self.sizes}; all need the same")
            self.sizes = sizes
            self.directed = graph.directed if self.directed is None else self.directed
            self.weighted = graph.edge_weight is not None if self.weighted is None else self.weighted
        if not self.multi_label:
            self.class_loss.fit(self.classes, datasets)
        elif self.class_loss.weights is not None or self.class_loss.gamma:
            raise ConfigError("task.class_weights and focal_gamma: nodes have several labels here; leave them out")
        if datasets and self.deployer(recipe).by_name:
            self.vocabularies.setdefault(NODES, names_of(graph_of(next(iter(datasets.values())))))

    def _sizes(self, graph: Graph) -> dict[str, int]:
        found = {"num_features": graph.num_features, "num_classes": len(self.classes)}
        if not graph.num_features:
            found["num_nodes"] = graph.num_nodes
        if graph.edge_type is not None:
            found["num_relations"] = int(graph.edge_type.max(initial=-1)) + 1
        return found

    def _check_labels(self, split: str, labels: np.ndarray, nodes: np.ndarray) -> None:
        """Every node of a split has a label, and one that the classes know."""
        rows, k = labels.ndim == 2, len(self.classes)
        if rows != self.multi_label or (rows and labels.shape[1] != k):
            raise DataError(
                f"data.{split}: labels of shape {labels.shape[1:]} for each node, "
                f"expected {f'a row of {k}' if self.multi_label else 'one number'}; see task.multi_label"
            )
        wrong = np.flatnonzero(np.isnan(labels.astype(np.float32)).any(1) if rows else (labels < 0) | (labels >= k))
        if len(wrong):
            first = int(wrong[0])
            raise DataError(
                f"data.{split}: node {nodes[first]} has label {labels[first]}, but classes are 0 to {k - 1} "
                f"({', '.join(self.classes[:5])}{', ...' if k > 5 else ''}); leave it out of the split, or name all "
                "classes in task.classes"
            )

    def facts(self, recipe: Recipe) -> Mapping[str, Any]:
        return self.sizes

    def check_model(self, model: Module, datasets: Mapping[str, Any], recipe: Recipe) -> None:
        if isinstance(model, Deployed):
            self.neighbours = ()  # a bundle reads whole graphs
            self.self_loops = self.deployer(recipe).form.self_loops
            return
        if not isinstance(model, GraphModel):
            raise ConfigError(f"model: {recipe.model.target} is no pdl_graph.GraphModel, so it reads no graph")
        for key, value in self.sizes.items():
            if key in recipe.model.takes and getattr(model, key) != value:
                raise ConfigError(f"model.{key}: {getattr(model, key)}, but the data has {value}; leave it out")
        if self.neighbours:
            check_layers(model, self.neighbours)
        self.self_loops = model.self_loops

    def loader(self, dataset: Any, recipe: Recipe, *, training: bool, seed: int) -> Iterable[Any]:
        """All nodes of a split at once; with `neighbours` batches of them, each with its sampled neighbourhood."""
        if self.neighbours and (training or self.inference == "sampled"):
            sampler = self.samplers[self.hold(graph_of(dataset), self._inside(dataset, training), seed)]
            return sampled_loader(dataset, sampler, self.neighbours, recipe.data, training=training, seed=seed)
        nodes, size = nodes_of(dataset), recipe.data.batch_size
        if training and recipe.data.gives("batch_size") and size < len(nodes):
            raise ConfigError(
                f"data.batch_size: {size}, but a full batch holds all {len(nodes)} training nodes; leave it out, "
                "or train on sampled neighbourhoods (task.neighbours)"
            )
        return WholeSplit(dataset, self.hold(graph_of(dataset), self._inside(dataset, training), seed))

    def _inside(self, dataset: Any, training: bool) -> np.ndarray | None:
        """The nodes between which edges are seen; None: all."""
        return nodes_of(dataset) if training and self.inductive else None

    def hold(self, graph: Graph, nodes: np.ndarray | None = None, seed: int = 0) -> int:
        """The number of a graph among `graphs` or `samplers`, where it is put unless it is there; with `nodes` without
        the edges of others."""
        for number, (source, cut) in enumerate(self._sources):
            if source is graph and cut == (nodes is not None):
                return number
        seen = graph if nodes is None else among(graph, nodes)
        if self.neighbours:
            seen = seen.with_self_loops() if self.self_loops else seen
            weighted = self.sampling == "weighted"
            self.samplers.append(NeighbourSampler(seen, seed=seed, weighted=weighted, replace=self.replace))
        else:
            self.graphs.append(self.read(seen, self.self_loops))
        self._sources.append((graph, nodes is not None))
        return len(self.graphs) - 1

    def read(self, graph: Graph, self_loops: bool) -> GraphBatch:
        """A graph as tensors, as nets of this task read it: with self-loops where they want them."""
        made: GraphBatch = rebuild((graph.with_self_loops() if self_loops else graph).batch(), pdl.as_tensor)
        return made

    def learned_config(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("classes", "multi_label", "directed", "weighted")}

    def check(self, recipe: Recipe, progress: Any = None) -> list[Fault]:
        return check_recipe(recipe, progress)

    def smoke_test(self, recipe: Recipe) -> SmokeTest:
        """Full batch, as in the recipe: an epoch is one step; sampled neighbourhoods in a few of them."""
        if self.neighbours:
            return SmokeTest(train=256, test=60, epochs=8, batch_size=64)
        return SmokeTest(train=120, test=60, epochs=20, batch_size=1 << 20)

    # -- what a task hands over ----------------------------------------------------------------------------------------
    def baselines(self, recipe: Recipe, datasets: Mapping[str, Any], split: str) -> dict[str, dict[str, float]]:
        """The most frequent class, label propagation (edges alone) and ridge regression (features alone)."""
        return baselines(self, datasets, split)

    def deployer(self, recipe: Recipe) -> NodeDeployer:
        return NodeDeployer(self, recipe)

    def reporter(self) -> NodeReporter:
        return NodeReporter(self)
