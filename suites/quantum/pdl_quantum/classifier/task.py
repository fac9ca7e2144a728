"""The task of classifiers: one class for each row of numbers, or picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

import pdl
from pdl.errors import ConfigError, DataError, ShapeError
from pdl.nn import Module
from pdl.nn.module import evaluating
from pdl.tensor import Tensor
from pdl.train import Deployer, Loss, Metric, Recipe, Reporter, SmokeTest, Task
from pdl.train.class_loss import ClassLoss, ClassWeights, Gamma
from pdl.train.metrics import class_metrics
from pdl.train.task import first_samples
from pdl_quantum.classifier.baselines import baselines
from pdl_quantum.classifier.deploy import ClassifierDeployer
from pdl_quantum.classifier.report import ClassifierReporter
from pdl_quantum.classifier.scaling import Scaling, fitted


class QuantumClassifier(Task):
    """One class for each sample, by cross-entropy of the model's scores.

    Samples are rows {"features": float32 [D], "label": int} (`pdl_quantum.data.Table`) or pictures {"image": ...,
    "label": int}, whose transforms make floats of them. num_features and num_classes of the model follow from the data
    where the recipe leaves them out.

    scale     of the columns of rows, by the training data: "none"; "standard", mean 0 and deviation 1; "angle", least
              and largest value to 0 and pi
    class_weights  weights of the classes in the loss, by name (others 1), or "balanced": all classes count alike; in
              training only, as the next one
    focal_gamma  of the focal loss (Lin et al., arXiv 1708.02002), 2 in the paper: samples that are classified well
              already count less; 0: plain cross-entropy
    classes   names of the classes in the order of the labels,
    columns   names of the numbers of a row (none: samples are pictures),
    mode      "gray" or "rgb": how `pdl predict` reads pictures, and
    shift, factor  of each column, (value - shift) / factor being what the model reads: from the data
    """

    monitor = "val/accuracy"
    monitor_mode = "max"

    def __init__(
        self,
        *,
        scale: Literal["none", "standard", "angle"] = "none",
        class_weights: ClassWeights | None = None,
        focal_gamma: Gamma = 0.0,
        classes: Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
        mode: Literal["gray", "rgb"] | None = None,
        shift: Sequence[float] | None = None,
        factor: Sequence[float] | None = None,
    ) -> None:
        self.scale = scale
        self.class_loss = ClassLoss(class_weights, focal_gamma)
        self.classes, self.columns, self.mode = list(classes or ()), list(columns or ()), mode
        self.scaling = Scaling(shift or (), factor or ())
        self.sizes: dict[str, int] = {}
        self.evaluated: Module | None = None

    # -- training ------------------------------------------------------------------------------------------------------
    def inputs(self, batch: Any) -> Tensor:
        """What the model reads of a batch."""
        if "image" in batch:
            return pdl.as_tensor(batch["image"])
        return pdl.as_tensor(self.scaling(batch["features"]))

    def step(self, model: Module, batch: Any) -> Loss:
        labels, made = batch["label"], model(self.inputs(batch))
        return Loss(self.class_loss(made, labels), len(labels), (made.detach(), labels))

    def evaluate(self, model: Module, batch: Any) -> Loss:
        self.evaluated = model
        labels, made = batch["label"], model(self.inputs(batch))
        return Loss(pdl.cross_entropy(made, pdl.as_tensor(labels)), len(labels), (made, labels))

    def metrics(self) -> dict[str, Metric]:
        return class_metrics(len(self.classes))

    # -- building ------------------------------------------------------------------------------------------------------
    def prepare(self, recipe: Recipe, datasets: Mapping[str, Any]) -> None:
        """Agree on classes and columns; scale by the training data."""
        for split, dataset in datasets.items():
            names, columns = list(dataset.classes), _columns(dataset)
            if not self.classes:
                self.classes, self.columns = names, columns
            if names != self.classes or columns != self.columns:
                raise DataError(
                    f"data.{split}: classes {names} and columns {columns}; expected {self.classes} and {self.columns}: "
                    "all splits need the same"
                )
        if len(self.classes) < 2:
            raise DataError(f"the data has the classes {self.classes}; at least 2 are needed to tell them apart")
        self.class_loss.fit(self.classes, datasets)
        if self.columns and not len(self.scaling.shift):
            if self.scale != "none" and "train" not in datasets:
                raise DataError("data.train is needed to scale columns; give it, or use a run that was trained")
            self.scaling = fitted(self.scale, datasets.get("train"), len(self.columns))
        width = len(self.columns) or self._pixels(recipe, next(iter(datasets.values())))
        self.sizes = {"num_features": width, "num_classes": len(self.classes)}

    def facts(self, recipe: Recipe) -> dict[str, int]:
        return self.sizes

    def _pixels(self, recipe: Recipe, dataset: Any) -> int:
        if self.mode is None:
            self.mode = "gray" if dataset[0]["image"].shape[-1] == 1 else "rgb"
        image = self._first(recipe, dataset)["image"]
        if image.dtype.kind != "f":
            raise ConfigError(f"data.transforms.eval gives {image.dtype} images; add pdl.data.transforms.ToFloat")
        return int(np.prod(image.shape[1:]))

    def _first(self, recipe: Recipe, dataset: Any) -> Any:
        """A batch of one sample, prepared as for evaluation."""
        loader: Any = self.loader(first_samples(dataset, 1), recipe, training=False, seed=0)
        loader.workers = 0
        return next(iter(loader))

    def check_model(self, model: Module, datasets: Mapping[str, Any], recipe: Recipe) -> None:
        """Run a sample of each split through the model."""
        for split, dataset in datasets.items():
            batch = self._first(recipe, dataset)
            try:
                with evaluating(model):
                    shape = tuple(model(self.inputs(batch)).shape)
            except ShapeError as error:
                raise ConfigError(f"model: does not take the samples of data.{split}: {error}") from error
            if shape != (1, len(self.classes)):
                raise ConfigError(f"model: gives {shape} for one sample of data.{split}, expected "
                                  f"{(1, len(self.classes))}; leave model.num_classes out")  # fmt: skip

    def learned_config(self) -> dict[str, Any]:
        rows = {"columns": self.columns, "shift": self.scaling.shift.tolist(), "factor": self.scaling.factor.tolist()}
        return {"classes": self.classes, **(rows if self.columns else {"mode": self.mode})}

    def smoke_test(self, recipe: Recipe) -> SmokeTest:
        return SmokeTest(train=96, test=40, epochs=6, batch_size=16)

    def baselines(self, recipe: Recipe, datasets: Mapping[str, Any], split: str) -> dict[str, dict[str, float]]:
        """The most frequent class, logistic regression and the nearest neighbour."""
        return baselines(self, recipe, datasets, split)

    # -- what a task hands over ----------------------------------------------------------------------------------------
    def deployer(self, recipe: Recipe) -> Deployer:
        return ClassifierDeployer(self, recipe)

    def reporter(self) -> Reporter:
        return ClassifierReporter(self)


def _columns(dataset: Any) -> list[str]:
    """Names of the numbers of a row, of a data set or of a part of one."""
    while not hasattr(dataset, "columns") and (hasattr(dataset, "dataset") or hasattr(dataset, "datasets")):
        dataset = dataset.dataset if hasattr(dataset, "dataset") else dataset.datasets[0]
    return list(getattr(dataset, "columns", ()))
