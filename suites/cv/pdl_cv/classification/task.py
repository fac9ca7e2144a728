"""The classification task: what the trainer calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import pdl
from pdl.data.folders import split_folder
from pdl.errors import ConfigError, listed
from pdl.hints import Range
from pdl.nn import Module
from pdl.train import Loss, Metric, Recipe, Task
from pdl.train.class_loss import ClassLoss, ClassWeights, Gamma
from pdl.train.classes import classes_of
from pdl.train.images import answer, first_images
from pdl.train.metrics import Mistakes, class_metrics
from pdl_cv.classification.baselines import baselines
from pdl_cv.classification.deploy import ClassificationDeployer
from pdl_cv.classification.preview import ClassificationPreviewer
from pdl_cv.classification.report import ClassificationReporter
from pdl_cv.models.blocks import Auxiliary
from pdl_cv.views import View, check_views, with_views


class Classification(Task):
    """One class for each image, by cross-entropy.

    classes          their names in the order of the labels; by default the data set's
    mode             "rgb" or "gray": how `pdl predict` reads images; by default as many channels as the data set's
    label_smoothing  share of the target that is spread evenly over all classes (Szegedy et al., arXiv 1512.00567); in
                     training only
    class_weights    weights of the classes in the loss, by name (others 1), or "balanced": all classes count alike; in
                     training only, as the next one
    focal_gamma      of the focal loss (Lin et al., arXiv 1708.02002), 2 in the paper: samples that are classified well
                     already count less; 0: plain cross-entropy
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
        class_weights: ClassWeights | None = None,
        focal_gamma: Gamma = 0.0,
        tta: Sequence[View] = (),
        mistakes: Annotated[int, Range(0)] = 24,
    ) -> None:
        self.classes = list(classes or ())
        self.mode = mode
        self.label_smoothing, self.mistakes = label_smoothing, mistakes
        self.tta = check_views(tta)
        self.class_loss = ClassLoss(class_weights, focal_gamma)

    # -- training ------------------------------------------------------------------------------------------------------
    def inputs(self, batch: Any) -> Any:
        """What the model takes of a batch."""
        return batch["image"]

    def scoring(self, model: Module) -> Module:
        """What gives the logits of evaluation."""
        return with_views(model, self.tta)

    def step(self, model: Module, batch: Any) -> Loss:
        labels = batch["label"]
        made = model(pdl.as_tensor(self.inputs(batch)))
        logits = made.logits if isinstance(made, Auxiliary) else made
        loss = self.class_loss(logits, labels, smoothing=self.label_smoothing)
        if isinstance(made, Auxiliary):
            for other in made.others:
                loss = loss + made.weight * self.class_loss(other, labels, smoothing=self.label_smoothing)
        return Loss(loss, len(labels), (logits.detach(), labels))

    def evaluate(self, model: Module, batch: Any) -> Loss:
        labels, logits = batch["label"], self.scoring(model)(pdl.as_tensor(self.inputs(batch)))
        return Loss(pdl.cross_entropy(logits, pdl.as_tensor(labels)), len(labels), (logits, labels))

    def metrics(self) -> dict[str, Metric]:
        return {**class_metrics(len(self.classes)), "mistakes": Mistakes(self.mistakes)}

    def update_metrics(self, metrics: dict[str, Metric], loss: Loss, batch: Any) -> None:
        for metric in metrics.values():
            metric.update(*loss.outputs, *((batch["index"],) if isinstance(metric, Mistakes) else ()))

    # -- building ------------------------------------------------------------------------------------------------------
    def prepare(self, recipe: Recipe, datasets: Mapping[str, Any]) -> None:
        """Agree on the class names, and on gray or colour."""
        self.classes = classes_of(self.classes, datasets)
        self.class_loss.fit(self.classes, datasets)

    def facts(self, recipe: Recipe) -> Mapping[str, Any]:
        return {"num_classes": len(self.classes)}

    def check_model(self, model: Module, datasets: Mapping[str, Any], recipe: Recipe) -> None:
        """Run one image of each split through its transforms and the model."""
        for images, source in first_images(self, datasets, recipe):
            self.check_logits(answer(model, images, source, recipe), recipe)

    def check_logits(self, logits: Any, recipe: Recipe) -> None:
        """ConfigError where the outputs of one sample are no logits of the classes."""
        if logits.shape != (1, len(self.classes)):
            raise ConfigError(
                f"model: {recipe.model.target} gives outputs of shape {logits.shape}, but the data has "
                f"{len(self.classes)} classes ({listed(self.classes)}); set model.num_classes={len(self.classes)}, "
                "or leave it out"
            )

    def learned_config(self) -> dict[str, Any]:
        return {"classes": self.classes, "mode": self.mode}

    def baselines(self, recipe: Recipe, datasets: Mapping[str, Any], split: str) -> dict[str, dict[str, float]]:
        """The most frequent class, logistic regression and the nearest neighbour."""
        return baselines(self, recipe, datasets, split)

    def data_at(self, path: Path, split: str) -> dict[str, Any]:
        """A folder of class folders."""
        own = None if split_folder(path, split) is None else split
        return {"_target_": "pdl_cv.data.ImageFolder", "root": str(path), "split": own, "ratios": None,
                "classes": self.classes, "allow_empty": True}  # fmt: skip

    # -- what a task hands over ----------------------------------------------------------------------------------------
    def deployer(self, recipe: Recipe) -> ClassificationDeployer:
        return ClassificationDeployer(self, recipe)

    def previewer(self, recipe: Recipe) -> ClassificationPreviewer:
        return ClassificationPreviewer(self, recipe)

    def reporter(self) -> ClassificationReporter:
        return ClassificationReporter(self)
