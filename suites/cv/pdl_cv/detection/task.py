"""The detection task: what the trainer calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

import pdl
from pdl.data import DataLoader, Fault
from pdl.errors import ConfigError
from pdl.hints import Range
from pdl.nn import Module
from pdl.train import Loss, Metric, Recipe, SmokeTest, Task
from pdl.train.classes import agreed
from pdl.train.images import answer, first_images
from pdl.train.metrics import Shown
from pdl_cv.data.detection import annotated_at
from pdl_cv.detection.baselines import baselines
from pdl_cv.detection.check import check_recipe
from pdl_cv.detection.deploy import DetectionDeployer
from pdl_cv.detection.loader import detection_loader
from pdl_cv.detection.metrics import BoxAP, Protocol
from pdl_cv.detection.preview import DetectionPreviewer
from pdl_cv.detection.report import DetectionReporter
from pdl_cv.detection.smoke import smoke_test
from pdl_cv.models.detector import Detections, Detector, Share, Targets


class Detection(Task):
    """Boxes around objects, and their classes. Models are `pdl_cv.models.detector.Detector`s, which bring their losses.

    classes   their names in the order of the labels; by default the data set's
    mode      "rgb" or "gray": how `pdl predict` reads images; by default as many channels as the data set's
    protocol  of the average precision: "coco" (101 points, mean over IoUs of 0.5 to 0.95) or "voc" (all points, an IoU
              of 0.5, what is marked as difficult does not count)
    score     from which on `pdl predict` and bundles show objects
    least     score from which on detections are measured; by default the model's own
    iou       of the suppression of boxes that overlap; by default the model's own
    most      detections of an image; by default the model's own

    Samples are {"image": [H, W, C], "boxes": float32 [n, 4], "labels": int64 [n]}; boxes are (x1, y1, x2, y2) in
    pixels, and pixel (0, 0) covers the square 0..1.
    """

    monitor_mode = "max"
    outermost = ("num_classes",)
    masks: ClassVar[bool] = False

    def __init__(
        self,
        *,
        classes: Sequence[str] | None = None,
        mode: Literal["rgb", "gray"] | None = None,
        protocol: Protocol = "coco",
        score: Share = 0.3,
        least: Share | None = None,
        iou: Share | None = None,
        most: Annotated[int, Range(1)] | None = None,
    ) -> None:
        self.classes, self.mode, self.protocol = list(classes or ()), mode, protocol
        self.monitor = "val/AP" if protocol == "coco" else "val/mAP"
        self.score = score
        self.selecting: dict[str, Any] = {"score": least, "iou": iou, "most": most}

    # -- training ------------------------------------------------------------------------------------------------------
    def step(self, model: Module, batch: Any) -> Loss:
        parts = model.loss(pdl.as_tensor(batch["image"]), self.targets(batch))  # type: ignore[attr-defined]
        total: Any = sum(parts.values())
        return Loss(total, len(batch["labels"]), parts={name: value.detach() for name, value in parts.items()})

    def targets(self, batch: Any) -> Targets:
        """The objects of a batch as tensors."""
        masks = pdl.as_tensor(batch["masks"]) if self.masks else None
        return Targets(pdl.as_tensor(batch["boxes"]), pdl.as_tensor(batch["labels"]), masks)

    def evaluate(self, model: Module, batch: Any) -> Loss:
        images, count = pdl.as_tensor(batch["image"]), len(batch["labels"])
        if not isinstance(model, Detector):  # a bundle, or a net that is listened to: it answers, and knows no loss
            return Loss(pdl.zeros(()), count, (Detections(*model(images)),), known=False)
        found, parts = model.measured(images, self.targets(batch))
        total: Any = sum(parts.values())
        return Loss(total, count, (found,))

    def metrics(self) -> dict[str, Metric]:
        return Shown.all(BoxAP(self.classes, protocol=self.protocol))

    def update_metrics(self, metrics: dict[str, Metric], loss: Loss, batch: Any) -> None:
        (found,) = loss.outputs
        answers = [self.in_original(found, i, frame) for i, frame in enumerate(batch["frame"])]
        for metric in metrics.values():
            metric.update(answers, batch["original"])

    def in_original(self, found: Detections, i: int, frame: Any) -> dict[str, Any]:
        """What was found on image `i` of a batch, in pixels of the original."""
        boxes, scores, labels = (np.asarray(x.data[i]) for x in found[:3])
        kept = labels >= 0
        boxes = frame.back(boxes[kept].reshape(-1, 2, 2)).reshape(-1, 4)
        return {"boxes": boxes, "scores": scores[kept], "labels": labels[kept]}

    # -- building ------------------------------------------------------------------------------------------------------
    def loader(self, dataset: Any, recipe: Recipe, *, training: bool, seed: int) -> DataLoader:
        return detection_loader(dataset, recipe.data, training=training, seed=seed)

    def prepare(self, recipe: Recipe, datasets: Mapping[str, Any]) -> None:
        """Agree on the class names."""
        for split, dataset in datasets.items():
            self.classes = agreed(self.classes, dataset.classes, split=split)
        if not self.classes:
            raise ConfigError("the data set names no classes; list them in task.classes")

    def facts(self, recipe: Recipe) -> Mapping[str, Any]:
        return {"num_classes": len(self.classes)}

    def model(self, recipe: Recipe) -> Module:
        made = super().model(recipe)
        if not isinstance(made, Detector):
            raise ConfigError(f"model: {recipe.model.target} is no detector; `pdl models --task detection` lists them")
        made.selection = replace(made.selection, **{k: v for k, v in self.selecting.items() if v is not None})
        return made

    def check_model(self, model: Module, datasets: Mapping[str, Any], recipe: Recipe) -> None:
        """Run one image of each split through its transforms and the model."""
        stride = getattr(model, "stride", 1)
        for images, source in first_images(self, datasets, recipe):
            height, width = images.shape[1:3]
            if height % stride or width % stride:
                raise ConfigError(
                    f"{source} gives images of {height} x {width}; {recipe.model.target} takes multiples of {stride}: "
                    "change the size of Letterbox or Resize"
                )
            found = Detections(*answer(model, images, source, recipe))
            if self.masks and found.masks is None:
                raise ConfigError(
                    f"model: {recipe.model.target} finds no masks; choose a net that does, as pdl_cv.MaskRCNN"
                )

    def learned_config(self) -> dict[str, Any]:
        return {"classes": self.classes, "mode": self.mode}

    def data_at(self, path: Path, split: str) -> dict[str, Any]:
        """A folder, or a file of annotations, in any of the formats of `pdl_cv.data.DetectionFolder`."""
        return {**annotated_at(path, split), "classes": self.classes, "allow_empty": True, "masks": self.masks}

    def baselines(self, recipe: Recipe, datasets: Mapping[str, Any], split: str) -> dict[str, dict[str, float]]:
        """The boxes that are most frequent in the training data, for every image."""
        return baselines(self, recipe, datasets, split)

    def check(self, recipe: Recipe, progress: Any = None) -> list[Fault]:
        return check_recipe(recipe, progress)

    def smoke_test(self, recipe: Recipe) -> SmokeTest:
        return smoke_test(recipe, batch_size=4, epochs=3)

    # -- what a task hands over ----------------------------------------------------------------------------------------
    def reporter(self) -> DetectionReporter:
        return DetectionReporter(self)

    def previewer(self, recipe: Recipe) -> DetectionPreviewer:
        return DetectionPreviewer(self, recipe)

    def deployer(self, recipe: Recipe) -> DetectionDeployer:
        return DetectionDeployer(self, recipe)
