"""The task: the class or the number of a row of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import numpy as np

import pdl
from pdl.config.signature import SECTION
from pdl.data import Fault
from pdl.errors import ConfigError, DataError
from pdl.nn import Module
from pdl.nn.module import evaluating
from pdl.train import Loss, Metric, Recipe
from pdl.train.class_loss import ClassLoss, ClassWeights, Gamma
from pdl.train.metrics import R2, MeanAbsoluteError, MeanSquaredError, class_metrics
from pdl_rec.click_through.fields import FieldSpec, LabelSpec, Learned
from pdl_rec.click_through.task import ClickThrough, table_of
from pdl_rec.data.columns import Columns, Text
from pdl_rec.rows.baselines import baselines
from pdl_rec.rows.check import check
from pdl_rec.rows.deploy import RowDeployer
from pdl_rec.rows.encoding import RowEncoding, Target
from pdl_rec.rows.report import RowReporter

_MONITOR: dict[str, tuple[str, Literal["max", "min"]]] = {
    "class": ("val/accuracy", "max"),
    "number": ("val/rmse", "min"),
}


class RowPrediction(ClickThrough):
    """One of several classes of a row, by cross-entropy; or a number, by squared error on (number - mean) / std.

    fields   name -> what it is (`FieldSpec`), as for `pdl_rec.ClickThrough`
    target   the column to predict
    kind     class or number
    class_weights  weights of the classes in the loss, by name (others 1), or "balanced": all classes count alike; in
             training only, as the next one
    focal_gamma  of the focal loss (Lin et al., arXiv 1708.02002), 2 in the paper: rows that are classified well already
             count less; 0: plain cross-entropy
    classes  their names, and
    mean, std  of the number over the training data; columns, learned: from the data; the run keeps them

    Metrics are those of `pdl.train.metrics.class_metrics`; or rmse, mae and r2 in the units of the data. Batches are
    {"ids" int64 [N, W], "numbers" float32 [N, D], "label" int64 or float32 [N]}.
    """

    def __init__(
        self,
        *,
        fields: Mapping[str, Annotated[FieldSpec, SECTION]],
        target: str,
        kind: Literal["class", "number"] = "class",
        class_weights: ClassWeights | None = None,
        focal_gamma: Gamma = 0.0,
        classes: Sequence[str] | None = None,
        mean: float = 0.0,
        std: float | None = None,
        columns: Sequence[str] | None = None,
        learned: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(fields=fields, labels={"target": LabelSpec(column=target)}, columns=columns, learned=learned)
        self.target, self.kind, self.classes, self.mean, self.std = target, kind, list(classes or ()), mean, std
        self.class_loss = ClassLoss(class_weights, focal_gamma)
        if kind == "number" and (class_weights is not None or focal_gamma):
            raise ConfigError("task.class_weights and focal_gamma are for task.kind=class; leave them out")
        self.monitor, self.monitor_mode = _MONITOR[kind]  # type: ignore[misc, assignment]  # of this task, not of all
        specs = {
            name: each if isinstance(each, FieldSpec) else FieldSpec(**(each or {})) for name, each in fields.items()
        }
        if any((spec.column or name) == target for name, spec in specs.items()):
            raise ConfigError(f"task.fields: {target!r} is what is to be predicted; leave it out")

    # -- training ------------------------------------------------------------------------------------------------------
    def step(self, model: Module, batch: Any) -> Loss:
        label = batch["label"]
        made = model(*self.inputs(batch))
        if self.kind == "class":
            return Loss(self.class_loss(made, label), len(label), (made.detach(), label))
        goal = (pdl.as_tensor(label) - self.mean) / float(self.std or 1.0)
        made = made.squeeze(1)
        return Loss(pdl.mse_loss(made, goal), len(label), (made.detach(), label))

    def evaluate(self, model: Module, batch: Any) -> Loss:
        """Outputs are scores [N, classes], or numbers [N] in the units of the data."""
        found = self.step(model, batch)
        made, label = found.outputs
        if self.kind == "class":
            return Loss(pdl.cross_entropy(made, pdl.as_tensor(label)), len(label), found.outputs)
        found.outputs = made.data * np.float32(self.std or 1.0) + np.float32(self.mean), label
        return found

    def metrics(self) -> dict[str, Metric]:
        if self.kind == "number":
            return {"rmse": MeanSquaredError(root=True), "mae": MeanAbsoluteError(), "r2": R2()}
        return class_metrics(len(self.classes))

    # -- building ------------------------------------------------------------------------------------------------------
    def prepare(self, recipe: Recipe, datasets: Mapping[str, Any]) -> None:
        """Learn the classes, or the number's mean and deviation, and then the fields."""
        if not self.classes and self.std is None:
            columns = [c for split, data in datasets.items() for c in table_of(data, split).blocks([self.target])]
            self._learn_target(columns if self.kind == "class" else self._training(datasets))
        super().prepare(recipe, datasets)
        self.class_loss.fit(self.classes, datasets)

    def _training(self, datasets: Mapping[str, Any]) -> list[Columns]:
        if "train" not in datasets:
            raise DataError("data.train is needed to know the target; give it, or use a run that was trained")
        return list(table_of(datasets["train"], "train").blocks([], [self.target]))

    def _learn_target(self, blocks: Sequence[Columns]) -> None:
        if self.kind == "class":
            found = {text for block in blocks for text in block[self.target].texts() if text}  # type: ignore[union-attr]
            self.classes = sorted(
                found, key=lambda text: (not text.isdigit(), len(text) if text.isdigit() else 0, text)
            )
            if len(self.classes) < 2:
                raise DataError(f"column {self.target!r} has {len(self.classes)} classes; at least 2 are needed")
            return
        columns = [block[self.target] for block in blocks]
        values = np.concatenate([each.numbers() if isinstance(each, Text) else each for each in columns])
        self.mean, self.std = float(np.nanmean(values)), float(np.nanstd(values)) or 1.0

    @property
    def encoding(self) -> RowEncoding:
        base = super().encoding  # which says what is not known yet
        return RowEncoding(base.specs, Target(self.target, self.classes), Learned(self.vocabularies, self.learned))

    @property
    def outputs(self) -> int:
        """Numbers that the model gives for a row."""
        return len(self.classes) if self.kind == "class" else 1

    def model(self, recipe: Recipe) -> Module:
        known = {"fields": self.encoding.schema.plain(), "outputs": self.outputs}
        made: Module = recipe.model.completed(known).build()
        return made

    def check_model(self, model: Module, datasets: Mapping[str, Any], recipe: Recipe) -> None:
        """Run one row through the model."""
        batch = next(iter(self.loader(next(iter(datasets.values())), recipe, training=False, seed=0)))
        with evaluating(model):
            shape = tuple(model(*(x[:2] for x in self.inputs(batch))).shape)
        if len(shape) != 2 or shape[1] != self.outputs:
            raise ConfigError(f"model: {recipe.model.target} gives {shape} for 2 rows, expected (2, {self.outputs}); "
                              "pdl_rec.TableNet gives any number of outputs")  # fmt: skip

    def learned_config(self) -> dict[str, Any]:
        own = {"classes": self.classes} if self.kind == "class" else {"mean": self.mean, "std": self.std}
        return {**super().learned_config(), **own}

    def baselines(self, recipe: Recipe, datasets: Mapping[str, Any], split: str) -> dict[str, dict[str, float]]:
        """The most frequent class, logistic regression and the nearest neighbour; or the mean and ridge regression."""
        return baselines(self, recipe, datasets, split)

    def check(self, recipe: Recipe, progress: Any = None) -> list[Fault]:
        return check(self, recipe, progress)

    # -- what a task hands over ----------------------------------------------------------------------------------------
    def deployer(self, recipe: Recipe) -> RowDeployer:
        return RowDeployer(self, recipe)

    def reporter(self) -> RowReporter:
        return RowReporter(self)
