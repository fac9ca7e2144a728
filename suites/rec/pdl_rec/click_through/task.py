"""The task of click-through rates: what the trainer calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

import numpy as np

import pdl
from pdl.config.signature import SECTION
from pdl.data import Fault
from pdl.errors import ConfigError, DataError
from pdl.nn import Module
from pdl.nn.module import evaluating
from pdl.train import Loss, Metric, Recipe, Reporter, SmokeTest, Task
from pdl_rec.click_through.baselines import baselines
from pdl_rec.click_through.deploy import ClickThroughDeployer
from pdl_rec.click_through.fields import Encoding, FieldSpec, LabelSpec, Learned, expanded, learn
from pdl_rec.click_through.loader import StreamLoader
from pdl_rec.click_through.metrics import AUC, GAUC, BinaryAccuracy, LogLoss, MeanAUC
from pdl_rec.click_through.report import ClickThroughReporter
from pdl_rec.data.click_file import Clicks, ClickStream
from pdl_rec.models.fields import FieldVectors


class ClickThrough(Task):
    """The probability of a yes (a click, a rating of 4 and more, an income) from the fields of a row, by binary
    cross-entropy; of several labels, the sum of theirs.

    fields    name -> what it is (`FieldSpec`); "C*" stands for all columns of such names. Their vocabularies, means and
              quantiles are learned in one pass over the training data
    labels    name -> what counts as yes (`LabelSpec`), in the order of the model's outputs; by default click, of the
              column label. None is named "label": answers keep that word for classes
    group     a column: AUC is also computed within its groups (gauc), such as a user's rows
    columns, learned   from the data; the run keeps them

    Metrics are auc, logloss, accuracy and, with `group`, gauc: of several labels by name (auc_click), and auc their
    mean. Batches are {"ids" int64 [N, W], "numbers" float32 [N, D], "label" float32 [N, labels], "group" int64 [N]}.
    """

    monitor = "val/auc"
    monitor_mode = "max"

    def __init__(
        self,
        *,
        fields: Mapping[str, Annotated[FieldSpec, SECTION]],
        labels: Mapping[str, Annotated[LabelSpec, SECTION]] | None = None,
        group: str | None = None,
        columns: Sequence[str] | None = None,
        learned: Mapping[str, Any] | None = None,
    ) -> None:
        self.declared = dict(fields)
        given: Mapping[str, Any] = {"click": {"column": "label"}} if labels is None else labels
        self.labels = {name: each if isinstance(each, LabelSpec) else LabelSpec(**each) for name, each in given.items()}
        self.group = group
        self.columns = None if columns is None else list(columns)
        self.learned = {name: dict(each) for name, each in (learned or {}).items()}
        if not self.labels or "label" in self.labels:
            raise ConfigError('task.labels: give each label a name, other than "label" (click: {column: label})')

    # -- training ------------------------------------------------------------------------------------------------------
    def step(self, model: Module, batch: Any) -> Loss:
        label = pdl.as_tensor(batch["label"])
        logits = model(*self.inputs(batch))
        flat = logits if logits.ndim == 2 else logits.expand_dims(axis=1)
        loss = pdl.binary_cross_entropy_with_logits(flat, label)
        several = loss * float(len(self.labels)) if len(self.labels) > 1 else loss
        return Loss(several, len(batch["label"]), (flat.detach(), batch["label"]))

    def inputs(self, batch: Mapping[str, Any]) -> list[Any]:
        """What the model takes of a batch."""
        return [pdl.as_tensor(batch[name]) for name in ("ids", "numbers") if name in batch]

    def table_rows(self, model: Module, batch: Any) -> dict[str, np.ndarray]:
        """The names of the rows, of each part of the model that reads them all."""
        if "ids" not in batch:
            return {}
        ids = np.asarray(batch["ids"])
        parts = {name: part for name, part in model.named_modules() if isinstance(part, FieldVectors)}
        rows: dict[bytes, np.ndarray] = {}  # of parts of one schema: one array
        found = {}
        for name, part in parts.items():
            if len(part.offsets) == ids.shape[1]:
                at = part.offsets.tobytes()
                found[f"{name}.table.weight"] = rows[at] if at in rows else rows.setdefault(at, ids + part.offsets)
        return found

    def metrics(self) -> dict[str, Metric]:
        kinds: dict[str, type[Any]] = {"auc": AUC, "logloss": LogLoss, "accuracy": BinaryAccuracy}
        kinds |= {"gauc": GAUC} if self.group else {}
        if len(self.labels) == 1:
            return {name: kind() for name, kind in kinds.items()}
        each = {f"{k}_{label}": kind(i) for i, label in enumerate(self.labels) for k, kind in kinds.items()}
        return {"auc": MeanAUC(len(self.labels)), **each}

    def update_metrics(self, metrics: dict[str, Metric], loss: Loss, batch: Any) -> None:
        groups = (batch["group"],) if "group" in batch else ()
        for metric in metrics.values():
            metric.update(*loss.outputs, *groups)

    # -- building ------------------------------------------------------------------------------------------------------
    def prepare(self, recipe: Recipe, datasets: Mapping[str, Any]) -> None:
        """Learn the fields from the training data where that is not done, and bind every split to them."""
        tables = {split: table_of(dataset, split) for split, dataset in datasets.items()}
        if self.columns is None:
            self.columns = list(next(iter(tables.values())).columns)
        train = tables.get("train")
        if train is not None:
            known = Learned(self.vocabularies, self.learned)
            found = learn(self.specs, train.blocks, known)
            self.vocabularies.update(found.vocabularies)
            self.learned = found.numbers
        encoding = self.encoding
        for table in tables.values():
            table.bind(encoding)

    @property
    def specs(self) -> dict[str, FieldSpec]:
        """The fields, patterns replaced by the columns that they fit."""
        return expanded(self.declared, self.columns or [])

    @property
    def encoding(self) -> Encoding:
        """What turns rows into arrays; DataError while something of it is to be learned."""
        specs = self.specs
        lacking = [
            n
            for n, s in specs.items()
            if s.is_text and s.hash is None and s.like is None and n not in self.vocabularies
        ]
        if lacking:
            raise DataError(
                f"the names of field {lacking[0]!r} are not known; they come from the training data (data.train)"
            )
        return Encoding(specs, self.labels, Learned(self.vocabularies, self.learned), self.group)

    def model(self, recipe: Recipe) -> Module:
        """The recipe's model for these fields and labels. They are not among the `facts`, which config.yaml keeps:
        where a run's recipe is given other data, its fields are learned anew."""
        known = {"fields": self.encoding.schema.plain(), "labels": len(self.labels)}
        made: Module = recipe.model.completed(known).build()
        return made

    def check_model(self, model: Module, datasets: Mapping[str, Any], recipe: Recipe) -> None:
        """Run one row through the model."""
        batch = next(iter(self.loader(next(iter(datasets.values())), recipe, training=False, seed=0)))
        with evaluating(model):
            shape = model(*(x[:2] for x in self.inputs(batch))).shape
        width = 1 if len(shape) == 1 else shape[1]
        if width != len(self.labels):
            raise ConfigError(
                f"model: {recipe.model.target} gives {width} logits a row, the task has {len(self.labels)} labels "
                f"({', '.join(self.labels)})"
            )

    def loader(self, dataset: Any, recipe: Recipe, *, training: bool, seed: int) -> Iterable[Any]:
        if not isinstance(dataset, ClickStream):
            return super().loader(dataset, recipe, training=training, seed=seed)
        return StreamLoader(
            dataset,
            batch_size=recipe.data.size(training=training),
            shuffle=training,
            seed=seed,
            drop_last=training and recipe.data.drop_last,
        )

    def baselines(self, recipe: Recipe, datasets: Mapping[str, Any], split: str) -> dict[str, dict[str, float]]:
        """The prior and logistic regression."""
        return baselines(self, recipe, datasets, split)

    def learned_config(self) -> dict[str, Any]:
        return {"columns": self.columns, "learned": self.learned}

    @property
    def fold_by(self) -> str:  # type: ignore[override]
        """The column of the first label."""
        name, spec = next(iter(self.labels.items()))
        return spec.column or name

    def check(self, recipe: Recipe, progress: Any = None) -> list[Fault]:
        from pdl_rec.click_through.check import check

        return check(self, recipe, progress)

    def smoke_test(self, recipe: Recipe) -> SmokeTest:
        return SmokeTest(train=400, test=100, epochs=6, batch_size=50)

    # -- what a task hands over ----------------------------------------------------------------------------------------
    def deployer(self, recipe: Recipe) -> ClickThroughDeployer:
        return ClickThroughDeployer(self, recipe)

    def reporter(self) -> Reporter:
        return ClickThroughReporter(self)


def table_of(dataset: Any, split: str) -> Clicks:
    """The table below `Few`, `Subset` and the like."""
    inner = dataset
    while not isinstance(inner, Clicks):
        inner = getattr(inner, "dataset", None) or getattr(inner, "stream", None)
        if inner is None:
            raise ConfigError(f"data.{split}: {type(dataset).__name__} is no table of rows; use pdl_rec.data.ClickFile")
    return inner
