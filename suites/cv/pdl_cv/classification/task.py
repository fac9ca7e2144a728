"""The classification task: what the trainer calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import numpy as np

import pdl
from pdl import Tensor
from pdl.errors import ConfigError, DataError, ShapeError, listed
from pdl.hints import Range
from pdl.nn import Module
from pdl.tensor import no_grad
from pdl.train import Loss, Metric, Recipe, Task
from pdl.train.metrics import Accuracy, ConfusionMatrix, TopK
from pdl.train.task import first_samples
from pdl_cv.classification.baselines import baselines
from pdl_cv.classification.deploy import ClassificationDeployer
from pdl_cv.classification.metrics import Mistakes
from pdl_cv.classification.preview import ClassificationPreviewer
from pdl_cv.classification.report import ClassificationReporter
from pdl_cv.classification.views import View, check_views, with_views
from pdl_cv.models.blocks import Auxiliary


class Classification(Task):
    """One class for each picture, by cross-entropy.

    classes          their names in the order of the labels; by default the data set's
    mode             "rgb" or "gray": how `pdl predict` reads pictures; by default as many channels as the data set's
    label_smoothing  share of the target that is spread evenly over all classes (Szegedy et al., arXiv 1512.00567); in
                     training only
    tta              test-time augmentation: views of each image whose probabilities are averaged with its own, in
                     evaluation, in answers and in bundles, never in training steps (Krizhevsky et al., NIPS 2012,
                     section 4.1). Each view costs as much as the image
    mistakes         how many of the worst mistakes the report shows

    The losses of a net's auxiliary classifiers (`pdl_cv.models.blocks.Auxiliary`) are added in training. Samples are
    {"image": [H, W, C], "label": int}; labels that are soft (MixUp, CutMix) are float [N, classes].
    """

    monitor = "val/accuracy"
    monitor_mode = "max"

    def __init__(
        self,
        *,
        classes: Sequence[str] | None = None,
        mode: Literal["rgb", "gray"] | None = None,
        label_smoothing: Annotated[float, Range(0, below=1)] = 0.0,
        tta: Sequence[View] = (),
        mistakes: Annotated[int, Range(0)] = 24,
    ) -> None:
        self.classes = list(classes or ())
        self.mode = mode
        self.label_smoothing, self.mistakes = label_smoothing, mistakes
        self.tta = check_views(tta)

    # -- training ------------------------------------------------------------------------------------------------------
    def step(self, model: Module, batch: Any) -> Loss:
        return self._loss(model, batch, self.label_smoothing)

    def evaluate(self, model: Module, batch: Any) -> Loss:
        return self._loss(with_views(model, self.tta), batch, 0.0)

    def _loss(self, model: Module, batch: Any, smoothing: float) -> Loss:
        labels = batch["label"]
        made = model(pdl.as_tensor(batch["image"]))
        logits = made.logits if isinstance(made, Auxiliary) else made
        loss = _cross_entropy(logits, labels, smoothing)
        if isinstance(made, Auxiliary):
            for other in made.others:
                loss = loss + made.weight * _cross_entropy(other, labels, smoothing)
        return Loss(loss, len(labels), (logits.detach(), labels))

    def metrics(self) -> dict[str, Metric]:
        several = {"top5": TopK(5)} if len(self.classes) > 5 else {}
        return {
            "accuracy": Accuracy(),
            **several,
            "confusion": ConfusionMatrix(len(self.classes)),
            "mistakes": Mistakes(self.mistakes),
        }

    def update_metrics(self, metrics: dict[str, Metric], loss: Loss, batch: Any) -> None:
        for metric in metrics.values():
            metric.update(*loss.outputs, *((batch["index"],) if isinstance(metric, Mistakes) else ()))

    # -- building ------------------------------------------------------------------------------------------------------
    def prepare(self, recipe: Recipe, datasets: Mapping[str, Any]) -> None:
        """Agree on the class names, and on gray or colour."""
        for split, dataset in datasets.items():
            names = list(dataset.classes)
            if not self.classes:
                self.classes = names or _numbered(dataset)
            if names and names != self.classes:
                expected = f"expected {len(self.classes)} ({listed(self.classes)})"
                raise DataError(
                    f"data.{split}: has {len(names)} classes ({listed(names)}), {expected}; all splits need one list"
                )
            labels = getattr(dataset, "labels", None)
            if labels is not None and len(labels) and not 0 <= labels.min() <= labels.max() < len(self.classes):
                raise DataError(
                    f"data.{split}: labels {labels.min()}..{labels.max()}, but {len(self.classes)} classes are named "
                    f"(0..{len(self.classes) - 1}); correct the labels, or name all classes in task.classes"
                )
        if len(self.classes) < 2:
            have = f"{len(self.classes)} classes ({listed(self.classes)})"
            raise DataError(f"the data has {have}; at least 2 are needed to tell them apart")

    def facts(self, recipe: Recipe) -> Mapping[str, Any]:
        return {"num_classes": len(self.classes)}

    def check_model(self, model: Module, datasets: Mapping[str, Any], recipe: Recipe) -> None:
        """Run one picture of each split through its transforms and the model."""
        for split, dataset in datasets.items():
            training = split == "train"
            loader = self.loader(first_samples(dataset, 1), recipe, training=training, seed=0)
            loader.workers, loader.drop_last = 0, False  # type: ignore[attr-defined]
            batch = next(iter(loader), None)
            if batch is None:  # an unreadable first picture, with on_error=skip
                continue
            if self.mode is None:
                self.mode = "gray" if first_samples(dataset, 1)[0]["image"].shape[-1] == 1 else "rgb"
            self._fits(
                model, batch["image"], f"data.{split} after data.transforms.{'train' if training else 'eval'}", recipe
            )

    def _fits(self, model: Module, images: Any, source: str, recipe: Recipe) -> None:
        if images.dtype.kind != "f":
            raise ConfigError(
                f"{source} gives {images.dtype} images; add pdl.data.transforms.Normalize or ToFloat to the list"
            )
        name, training = recipe.model.target, model.training
        model.eval()
        try:
            with no_grad():
                shape = model(pdl.as_tensor(images)).shape
        except ShapeError as error:
            raise ConfigError(
                f"model: {name} does not take the images of {source}, shape {images.shape[1:]}: {error}"
            ) from error
        model.train(training)
        if shape != (1, len(self.classes)):
            raise ConfigError(
                f"model: {name} gives outputs of shape {shape}, but the data has {len(self.classes)} classes "
                f"({listed(self.classes)}); set model.num_classes={len(self.classes)}, or leave it out"
            )

    def learned_config(self) -> dict[str, Any]:
        return {"classes": self.classes, "mode": self.mode}

    def baselines(self, recipe: Recipe, datasets: Mapping[str, Any], split: str) -> dict[str, dict[str, float]]:
        """The most frequent class, logistic regression and the nearest neighbour."""
        return baselines(self, recipe, datasets, split)

    # -- what a task hands over ----------------------------------------------------------------------------------------
    def deployer(self, recipe: Recipe) -> ClassificationDeployer:
        return ClassificationDeployer(self, recipe)

    def previewer(self, recipe: Recipe) -> ClassificationPreviewer:
        return ClassificationPreviewer(self, recipe)

    def reporter(self) -> ClassificationReporter:
        return ClassificationReporter(self)


def _cross_entropy(logits: Tensor, labels: Any, smoothing: float) -> Tensor:
    """Mean cross-entropy against numbers of classes, or against float [N, C] of their shares."""
    if labels.ndim == 2:
        return soft_cross_entropy(logits, labels, smoothing)
    return pdl.cross_entropy(logits, pdl.as_tensor(labels), label_smoothing=smoothing)


def soft_cross_entropy(logits: Tensor, targets: Any, smoothing: float = 0.0) -> Tensor:
    """Mean over rows of -sum_c t_c log softmax(logits)_c, with t = (1 - smoothing) targets + smoothing / C; targets
    float [N, C]."""
    smooth = targets * np.float32(1 - smoothing) + np.float32(smoothing / targets.shape[1])
    return -(pdl.log_softmax(logits, axis=-1) * pdl.as_tensor(smooth)).sum(axis=-1).mean()


def _numbered(dataset: Any) -> list[str]:
    labels = getattr(dataset, "labels", None)
    if labels is None or not len(labels):
        raise ConfigError("the data set names no classes; list them in task.classes")
    return [str(i) for i in range(int(labels.max()) + 1)]
