"""The segmentation task: what the trainer calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

import pdl
from pdl.data import DataLoader, Fault
from pdl.errors import ConfigError, listed
from pdl.hints import Range
from pdl.nn import Module
from pdl.suites import suggest
from pdl.train import Loss, Metric, Recipe, SmokeTest, Task
from pdl.train.classes import agreed
from pdl.train.images import answer, first_images
from pdl.train.metrics import Shown
from pdl_cv.data.segmentation import BACKGROUND, pixels_of, segmented_at
from pdl_cv.detection.smoke import smoke_test
from pdl_cv.models.blocks import Auxiliary
from pdl_cv.segmentation import losses
from pdl_cv.segmentation.baselines import baselines
from pdl_cv.segmentation.check import check_recipe
from pdl_cv.segmentation.deploy import SegmentationDeployer
from pdl_cv.segmentation.loader import segmentation_loader
from pdl_cv.segmentation.metrics import BoundaryF, Overlap, Weakest
from pdl_cv.segmentation.preview import SegmentationPreviewer
from pdl_cv.segmentation.report import SegmentationReporter
from pdl_cv.steps.segmentation import classes_of
from pdl_cv.views import MaskViews, View, check_views, with_views

LossName = Literal["cross_entropy", "ohem", "focal", "dice", "lovasz", "boundary"]
_WEIGHTED = ("cross_entropy", "ohem", "focal")
SEEN = 1.02  # in the weight 1 / log(SEEN + share) of a class
GROUNDS = (BACKGROUND, "ground")


class Segmentation(Task):
    """The class of each pixel. Models give logits [N, h, w, num_classes] of images [N, H, W, C], on a grid of any
    coarseness, which are enlarged to the image (bilinear) for the loss and for answers; in training they may return
    `pdl_cv.models.blocks.Auxiliary`, whose losses are added.

    classes        their names in the order of their numbers; by default the data set's
    mode           "rgb" or "gray": how `pdl predict` reads images; by default as many channels as the data set's
    loss           what is learned by, or several with their weights: {cross_entropy: 1, dice: 1}
    class_weights  of cross_entropy, ohem and focal: by name (1 for one that is not named), or "balanced": 1 / log(1.02
                   + the class's share of all pixels) (Paszke et al., arXiv 1606.02147, section 4); in training only
    regions        unions of classes by name, such as {disc: [rim, cup]}, whose IoU and Dice are measured, too
    tta            test-time augmentation: views of each image (horizontal_flip, vertical_flip, rotate90, rotate180,
                   rotate270) whose probabilities are averaged with its own, in evaluation, answers and the bundle, not
                   in training steps
    boundary       measure the F1 of edges, too
    weakest        how many of the images with the least right pixels the report draws

    Samples are {"image": [H, W, C], "mask": uint8 [H, W]}; 255 counts nothing. Measured are the original masks, at
    their own size.
    """

    monitor = "val/mIoU"
    monitor_mode = "max"

    def __init__(
        self,
        *,
        classes: Sequence[str] | None = None,
        mode: Literal["rgb", "gray"] | None = None,
        loss: LossName | Mapping[LossName, Annotated[float, Range(above=0)]] = "cross_entropy",
        class_weights: Literal["balanced"] | Mapping[str, float] | None = None,
        regions: Mapping[str, Sequence[str]] | None = None,
        tta: Sequence[View] = (),
        boundary: bool = False,
        weakest: Annotated[int, Range(0)] = 12,
    ) -> None:
        self.classes, self.mode = list(classes or ()), mode
        self.parts: dict[str, float] = {loss: 1.0} if isinstance(loss, str) else {str(k): v for k, v in loss.items()}
        self.class_weights, self.regions = class_weights, dict(regions or {})
        self.tta = check_views(tta)
        self.boundary, self.weakest = boundary, weakest
        self.weight: pdl.Tensor | None = None
        if class_weights is not None and not any(name in _WEIGHTED for name in self.parts):
            raise ConfigError(f"task.class_weights: only {', '.join(_WEIGHTED)} take weights of classes (task.loss)")

    # -- training ------------------------------------------------------------------------------------------------------
    def step(self, model: Module, batch: Any) -> Loss:
        made = model(pdl.as_tensor(batch["image"]))
        masks = pdl.astype(pdl.as_tensor(batch["mask"]), pdl.int64)
        logits = made.logits if isinstance(made, Auxiliary) else made
        parts = self._losses(logits, masks, self.weight)
        total = sum((self.parts[name] * value for name, value in parts.items()), start=pdl.zeros(()))
        if isinstance(made, Auxiliary):
            for other in made.others:
                for name, value in self._losses(other, masks, self.weight).items():
                    total = total + made.weight * self.parts[name] * value
        shown: dict[str, Any] = {name: value.detach() for name, value in parts.items()} if len(parts) > 1 else {}
        return Loss(total, len(batch["image"]), parts=shown)

    def evaluate(self, model: Module, batch: Any) -> Loss:
        logits = with_views(model, self.tta, MaskViews)(pdl.as_tensor(batch["image"]))
        masks = pdl.astype(pdl.as_tensor(batch["mask"]), pdl.int64)
        parts = self._losses(logits, masks)
        total = sum((self.parts[name] * value for name, value in parts.items()), start=pdl.zeros(()))
        return Loss(total, len(batch["image"]), (logits,))

    def _losses(self, logits: pdl.Tensor, masks: pdl.Tensor, weight: pdl.Tensor | None = None) -> dict[str, pdl.Tensor]:
        size = masks.shape[1:3]
        large = logits if logits.shape[1:3] == size else pdl.resize(logits, size, mode="bilinear")
        large = pdl.astype(large, pdl.float32)
        options = {name: {"weight": weight} if name in _WEIGHTED else {} for name in self.parts}
        return {name: getattr(losses, name)(large, masks, **options[name]) for name in self.parts}

    def metrics(self) -> dict[str, Metric]:
        ground = next((k for k, name in enumerate(self.classes) if name.lower() in GROUNDS), None)
        regions = {name: [self.classes.index(each) for each in members] for name, members in self.regions.items()}
        measured = Shown.all(Overlap(self.classes, background=ground, regions=regions))
        edges: dict[str, Metric] = {"boundary_F": BoundaryF()} if self.boundary else {}
        return {**measured, **edges, "weakest": Weakest(self.weakest)}

    def update_metrics(self, metrics: dict[str, Metric], loss: Loss, batch: Any) -> None:
        (logits,) = loss.outputs
        scores = np.asarray(logits.numpy() if hasattr(logits, "numpy") else logits)
        size = batch["image"].shape[1:3]
        found = [classes_of(each, frame, size) for each, frame in zip(scores, batch["frame"], strict=True)]
        for metric in metrics.values():
            index = [np.asarray(batch["index"])] if isinstance(metric, Weakest) else []
            metric.update(found, batch["original"], *index)

    # -- building ------------------------------------------------------------------------------------------------------
    def loader(self, dataset: Any, recipe: Recipe, *, training: bool, seed: int) -> DataLoader:
        return segmentation_loader(dataset, recipe.data, training=training, seed=seed)

    def prepare(self, recipe: Recipe, datasets: Mapping[str, Any]) -> None:
        """Agree on the class names, and weigh them."""
        for split, dataset in datasets.items():
            self.classes = agreed(self.classes, dataset.classes, split=split)
        if len(self.classes) < 2:
            raise ConfigError("the data set names no classes; list them in task.classes")
        for region, members in self.regions.items():
            self._known(f"task.regions.{region}", members)
        if isinstance(self.class_weights, Mapping):
            self._known("task.class_weights", self.class_weights)
            given = {str(name): float(value) for name, value in self.class_weights.items()}
            self.weight = pdl.Tensor(np.array([given.get(name, 1.0) for name in self.classes], np.float32))
        elif self.class_weights is not None and "train" in datasets:
            pixels = np.asarray(pixels_of(datasets["train"]), np.float64)
            self.weight = pdl.Tensor((1 / np.log(SEEN + pixels / max(1.0, pixels.sum()))).astype(np.float32))

    def _known(self, key: str, names: Any) -> None:
        for name in names:
            if name not in self.classes:
                raise ConfigError(
                    f"{key}: {name!r} is none of the classes {listed(self.classes)}{suggest(str(name), self.classes)}"
                )

    def facts(self, recipe: Recipe) -> Mapping[str, Any]:
        return {"num_classes": len(self.classes)}

    def check_model(self, model: Module, datasets: Mapping[str, Any], recipe: Recipe) -> None:
        """Run one image of each split through its transforms and the model."""
        for images, source in first_images(self, datasets, recipe):
            shape = answer(model, images, source, recipe).shape
            if len(shape) != 4 or shape[-1] != len(self.classes):
                raise ConfigError(
                    f"model: {recipe.model.target} gives outputs of shape {shape}, but the data has "
                    f"{len(self.classes)} classes; set model.num_classes={len(self.classes)}, or leave it out"
                )

    def learned_config(self) -> dict[str, Any]:
        return {"classes": self.classes, "mode": self.mode}

    def data_at(self, path: Path, split: str) -> dict[str, Any]:
        """A folder of images and masks, in any layout of `pdl_cv.data.SegmentationFolder`."""
        return segmented_at(path, split)

    def baselines(self, recipe: Recipe, datasets: Mapping[str, Any], split: str) -> dict[str, dict[str, float]]:
        """The class that each place of an image mostly has."""
        return baselines(self, datasets["train"], datasets[split])

    def check(self, recipe: Recipe, progress: Any = None) -> list[Fault]:
        return check_recipe(recipe, progress)

    def smoke_test(self, recipe: Recipe) -> SmokeTest:
        return smoke_test(recipe, batch_size=4, epochs=3)

    # -- what a task hands over ----------------------------------------------------------------------------------------
    def reporter(self) -> SegmentationReporter:
        return SegmentationReporter(self)

    def previewer(self, recipe: Recipe) -> SegmentationPreviewer:
        return SegmentationPreviewer(self, recipe)

    def deployer(self, recipe: Recipe) -> SegmentationDeployer:
        return SegmentationDeployer(self, recipe)
