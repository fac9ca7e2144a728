"""The task: what kind of graph it is, or what can be measured of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal

import numpy as np

import pdl
from pdl.data import DataLoader, Fault
from pdl.errors import ConfigError, DataError, ShapeError
from pdl.hints import Range
from pdl.nn import Module
from pdl.nn.module import evaluating
from pdl.tensor import Tensor
from pdl.train import Deployed, Loss, Metric, Recipe, SmokeTest, Task
from pdl.train.class_loss import ClassLoss, ClassWeights, Gamma
from pdl.train.metrics import class_metrics
from pdl_graph.data.graphs import Chosen
from pdl_graph.graphs.baselines import baselines
from pdl_graph.graphs.check import check_recipe
from pdl_graph.graphs.deploy import GraphDeployer, deployed_outputs
from pdl_graph.graphs.loader import Batches, Passes
from pdl_graph.graphs.metrics import PerTarget, auc, mae, right_side, rmse
from pdl_graph.graphs.report import GraphReporter
from pdl_graph.steps.molecules import MoleculeForm

Kind = Literal["classification", "binary", "regression"]
_MONITOR = {"classification": ("val/accuracy", "max"), "binary": ("val/auc", "max"), "regression": ("val/rmse", "min")}


class GraphPrediction(Task):
    """Learn what whole graphs are.

    kind      "classification": one of several classes, by cross-entropy; metrics `pdl.train.metrics.class_metrics`.
              "binary": one or several yes/no targets, by binary cross-entropy; metrics auc and accuracy.
              "regression": one or several numbers, by squared error; metrics rmse and mae, in the units of the data
    loss      of regression: "mse", "l1" or "huber"
    class_weights  of classification: weights of the classes in the loss, by name (others 1), or "balanced": all classes
              count alike; in training only, as the next one
    focal_gamma  of the focal loss (Lin et al., arXiv 1708.02002), 2 in the paper: graphs that are classified well
              already count less; 0: plain cross-entropy
    epoch_steps  so many steps are an epoch, over whatever many passes; by default it is one pass
    classes   names of the classes; by default the data set's
    targets   names of the numbers or yes/no targets; by default the data set's
    mean, std  of each target over the training data: nets learn (target - mean) / std; by default from the data
    directed  whether edges go one way,
    weighted  whether they have weights, and
    features  how many numbers nodes (num_features) and edges (num_edge_features) have, and
    molecules  how SMILES become graphs (`pdl_graph.steps.molecules.MoleculeForm`, as plain values; None: graphs are no
              molecules), in the graphs that the model is used on; inferred from the data

    Targets that are not known (NaN) count in neither loss nor metrics; with several targets a metric is the mean over
    them. The model maps a `GraphBatch` to [graphs, outputs]; its num_features, num_edge_features and num_classes
    follow from the data where the recipe leaves them out.
    """

    outermost = ("num_classes",)

    def __init__(
        self,
        *,
        kind: Kind = "classification",
        loss: Literal["mse", "l1", "huber"] = "mse",
        class_weights: ClassWeights | None = None,
        focal_gamma: Gamma = 0.0,
        epoch_steps: Annotated[int, Range(1)] | None = None,
        classes: Sequence[str] | None = None,
        targets: Sequence[str] | None = None,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
        directed: bool | None = None,
        weighted: bool | None = None,
        features: Mapping[str, int] | None = None,
        molecules: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self.kind, self.loss, self.epoch_steps = kind, loss, epoch_steps
        self.class_loss = ClassLoss(class_weights, focal_gamma)
        if kind != "classification" and (class_weights is not None or focal_gamma):
            raise ConfigError("task.class_weights and focal_gamma are for task.kind=classification; leave them out")
        self.classes, self.targets = list(classes or ()), list(targets or ())
        self.mean, self.std = list(mean or ()), list(std or ())
        self.monitor, self.monitor_mode = _MONITOR[kind]  # type: ignore[misc, assignment]  # of this task, not of all
        self.self_loops = False  # whether the model wants them
        self.directed, self.weighted = directed, weighted
        self.sizes: dict[str, int] = dict(features or {})
        self.molecules = None if molecules is None else MoleculeForm.read(molecules)

    @property
    def outputs(self) -> int:
        """Numbers that the model gives for a graph."""
        return len(self.classes) if self.kind == "classification" else len(self.targets)

    @property
    def scale(self) -> tuple[np.ndarray, np.ndarray]:
        """`mean` and `std`, float32 [T] each."""
        return np.array(self.mean, np.float32), np.array(self.std, np.float32)

    # -- training ------------------------------------------------------------------------------------------------------
    def step(self, model: Module, batch: Any) -> Loss:
        # a bundle in the model's place is measured as it is deployed
        made = deployed_outputs(model, batch["graph"]) if isinstance(model, Deployed) else model(batch["graph"])
        if self.kind == "classification":
            labels = batch["label"]
            return Loss(self.class_loss(made, labels), len(labels), (made.detach(), labels))
        target, known = pdl.as_tensor(batch["target"]), pdl.as_tensor(batch["known"])
        count = known.sum()
        value = (self._each(made, target) * known).sum() / pdl.maximum(count, 1.0)
        return Loss(value, count, (made.detach(), batch["target"], batch["known"]))

    def _each(self, made: Tensor, target: Tensor) -> Tensor:
        """The loss of every number."""
        if self.kind == "binary":
            return pdl.binary_cross_entropy_with_logits(made, target, reduction="none")
        mean, std = self.scale
        target = (target - pdl.as_tensor(mean)) / pdl.as_tensor(std)
        losses = {"mse": pdl.mse_loss, "l1": pdl.l1_loss, "huber": pdl.huber_loss}
        return losses[self.loss](made, target, reduction="none")

    def evaluate(self, model: Module, batch: Any) -> Loss:
        """Outputs are scores and labels, or numbers in the units of the data and targets with NaN where not known."""
        found = self.step(model, batch)
        if self.kind == "classification":
            made, labels = found.outputs
            return Loss(pdl.cross_entropy(made, pdl.as_tensor(labels)), len(labels), found.outputs)
        made, target, known = found.outputs
        found.outputs = self.values(made.data), np.where(known > 0, target, np.nan)
        return found

    def values(self, made: Any) -> np.ndarray:
        """What the model's outputs stand for: numbers in the units of the data; logits stay."""
        if self.kind != "regression":
            return np.asarray(made)
        mean, std = self.scale
        return np.asarray(made) * std + mean

    def metrics(self) -> dict[str, Metric]:
        if self.kind == "regression":
            return {"rmse": PerTarget(rmse), "mae": PerTarget(mae)}
        if self.kind == "binary":
            return {"auc": PerTarget(auc), "accuracy": PerTarget(right_side)}
        return class_metrics(len(self.classes))

    # -- building ------------------------------------------------------------------------------------------------------
    def prepare(self, recipe: Recipe, datasets: Mapping[str, Any]) -> None:
        """Agree on classes or targets and on the widths of features; standardise by the training data."""
        for split, dataset in datasets.items():
            found = Chosen(dataset)
            self._names(split, found)
            self._read_alike(split, found)
            for name, width in _widths(found).items():
                if self.sizes.setdefault(name, width) != width:
                    raise DataError(f"data.{split}: graphs have {name}={width}, those before {self.sizes[name]}")
            first = found.graphs[0]
            self.directed = first.directed if self.directed is None else self.directed
            self.weighted = first.edge_weight is not None if self.weighted is None else self.weighted
        if self.kind == "regression" and not self.mean:
            if "train" not in datasets:
                raise DataError(
                    "data.train is needed to standardise the targets; give it, or use a run that was trained"
                )
            self.mean, self.std = _scale(Chosen(datasets["train"]).targets)
        self.class_loss.fit(self.classes, datasets)

    def _read_alike(self, split: str, found: Chosen) -> None:
        """All splits are of molecules that are read alike, or none is."""
        if not self.sizes:  # the first split, and no run that remembers
            self.molecules = found.molecules
        if found.molecules != self.molecules:
            raise DataError(
                f"data.{split}: molecules become graphs as {found.molecules}, elsewhere as {self.molecules}; "
                "give all splits the same elements, atoms and bonds"
            )

    def _names(self, split: str, found: Chosen) -> None:
        own, held = (found.classes, "classes") if self.kind == "classification" else (found.names, "targets")
        values = found.labels if self.kind == "classification" else found.targets
        if values is None or not own:
            raise ConfigError(
                f"task.kind={self.kind} needs {held}, but data.{split} has {_have(found)}; "
                "correct task.kind, or the data set's settings"
            )
        if not getattr(self, held):
            setattr(self, held, own)
        if own != getattr(self, held):
            raise DataError(f"data.{split} has the {held} {own}, expected {getattr(self, held)}")
        if self.kind == "binary" and not np.isin(values[~np.isnan(values)], (0, 1)).all():
            raise DataError(f"data.{split}: targets of task.kind=binary are 0 and 1; for other numbers use regression")

    def facts(self, recipe: Recipe) -> Mapping[str, Any]:
        return {**self.sizes, "num_classes": self.outputs}

    def model(self, recipe: Recipe) -> Module:
        """The recipe's model; loaders give its graphs self-loops where it wants them."""
        made = super().model(recipe)
        self.self_loops = bool(getattr(made, "self_loops", False))
        return made

    def check_model(self, model: Module, datasets: Mapping[str, Any], recipe: Recipe) -> None:
        if isinstance(model, Deployed):
            self.self_loops = any(step.get("self_loops") for step in model.steps())
            return
        for split, dataset in datasets.items():
            batch = Batches(Chosen(dataset), self_loops=self.self_loops).get_batch(np.arange(min(2, len(dataset))))
            name = type(model).__name__
            try:
                with evaluating(model):
                    shape = tuple(model(batch["graph"]).shape)
            except ShapeError as error:
                raise ConfigError(f"model: {name} does not take the graphs of data.{split}: {error}") from error
            expected = (batch["graph"].num_graphs, self.outputs)
            if shape != expected:
                raise ConfigError(
                    f"model: {name} gives {shape} for {expected[0]} graphs, expected {expected}; a model of whole "
                    "graphs is pdl_graph.GraphNet, which takes any net of nodes as its encoder"
                )

    def loader(self, dataset: Any, recipe: Recipe, *, training: bool, seed: int) -> Iterable[Any]:
        data, source = recipe.data, Batches(Chosen(dataset), self_loops=self.self_loops)
        if not training or self.epoch_steps is None:
            return super().loader(source, recipe, training=training, seed=seed)
        size = data.batch_size * self.epoch_steps
        return DataLoader(
            source,
            batch_size=data.batch_size,
            sampler=data.sampler(source, seed=seed, num_samples=size) or Passes(len(source), size, seed=seed),
            seed=seed,
            workers=data.workers,
            prefetch=data.prefetch,
            drop_last=data.drop_last,
        )

    def check(self, recipe: Recipe, progress: Any = None) -> list[Fault]:
        return check_recipe(recipe, progress)

    def smoke_test(self, recipe: Recipe) -> SmokeTest:
        return SmokeTest(train=96, test=40, epochs=6, batch_size=32)

    def learned_config(self) -> dict[str, Any]:
        named = {"classes": self.classes} if self.kind == "classification" else {"targets": self.targets}
        scale = {"mean": self.mean, "std": self.std} if self.kind == "regression" else {}
        used_on = {"directed": self.directed, "weighted": self.weighted, "features": self.sizes}
        molecules = {} if self.molecules is None else {"molecules": self.molecules.plain()}
        return {**named, **scale, **used_on, **molecules}

    # -- what a task hands over ----------------------------------------------------------------------------------------
    def baselines(self, recipe: Recipe, datasets: Mapping[str, Any], split: str) -> dict[str, dict[str, float]]:
        """The most frequent answer or the mean, and a linear model of the numbers of nodes and edges of each kind."""
        return baselines(self, datasets, split)

    def deployer(self, recipe: Recipe) -> GraphDeployer:
        return GraphDeployer(self, recipe)

    def reporter(self) -> GraphReporter:
        return GraphReporter(self)


def _widths(found: Chosen) -> dict[str, int]:
    """The widths of what models read of each graph, by the names of their arguments."""
    first = found.graphs[0]
    edges = {} if first.edge_attr is None else {"num_edge_features": int(first.edge_attr.shape[1])}
    return {"num_features": first.num_features, **edges}


def _scale(targets: np.ndarray | None) -> tuple[list[float], list[float]]:
    """Mean and standard deviation of each target, known values only; 1 for one that is constant."""
    assert targets is not None
    values = targets.astype(np.float64)
    std = np.nanstd(values, axis=0)
    return np.nanmean(values, axis=0).tolist(), np.where(std > 0, std, 1.0).tolist()


def _have(found: Chosen) -> str:
    return f"classes {found.classes}" if found.labels is not None else f"targets {found.names}"
