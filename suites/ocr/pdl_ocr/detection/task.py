"""The text detection task: what the trainer calls."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

import pdl
from pdl.data import DataLoader, Fault
from pdl.errors import ConfigError
from pdl.hints import Range
from pdl.nn import Module
from pdl.train import Deployed, Loss, Metric, Recipe, SmokeTest, Task
from pdl.train.images import answer, first_images
from pdl_ocr.detection.baselines import baselines
from pdl_ocr.detection.check import check_recipe
from pdl_ocr.detection.deploy import DetectionDeployer
from pdl_ocr.detection.loader import page_loader
from pdl_ocr.detection.maps import TextMaps
from pdl_ocr.detection.metrics import detection_metrics
from pdl_ocr.detection.preview import DetectionPreviewer
from pdl_ocr.detection.report import DetectionReporter
from pdl_ocr.models.detector import Coding, DbCoding, TextDetector

Share = Annotated[float, Range(0, 1)]


class TextDetection(Task):
    """Where lines of text are. Models are `pdl_ocr.models.TextDetector`s. The `coding` of one says what it learns of
    lines, its loss, and the step that makes lines of its answers: by default those of differentiable binarization (M.
    Liao et al., AAAI 2020, arXiv 1911.08947; `pdl_ocr.models.detector.DbCoding`).

    ratio      DB: lines are shrunk by area (1 - ratio^2) / perimeter to be learned
    threshold  a pixel belongs to a line where its probability is above
    score      lines stay whose mean probability is at least
    grow       DB: boxes grow by grow * area / perimeter to become lines again
    mode       "rgb" or "gray": how `pdl predict` reads images; by default as the data set's
    mistakes   how many of the worst pages the report draws

    Samples are those of `pdl_ocr.data.TextPages`.
    """

    monitor = "val/hmean"
    monitor_mode = "max"

    def __init__(
        self,
        *,
        ratio: Annotated[float, Range(0, below=1)] = 0.4,
        threshold: Share = 0.3,
        score: Share = 0.6,
        grow: Annotated[float, Range(0, 10)] = 1.5,
        mode: Literal["rgb", "gray"] | None = None,
        mistakes: Annotated[int, Range(0)] = 12,
    ) -> None:
        self.ratio, self.threshold, self.score, self.grow = ratio, threshold, score, grow
        self.mode, self.mistakes = mode, mistakes
        self.coding: Coding = DbCoding()  # the net's

    @property
    def step_arguments(self) -> dict[str, Any]:
        """The arguments of the step that makes lines of what the net answers."""
        return self.coding.arguments({"threshold": self.threshold, "score": self.score, "grow": self.grow})

    # -- training ------------------------------------------------------------------------------------------------------
    def step(self, model: Module, batch: Any) -> Loss:
        maps = model.maps(pdl.as_tensor(batch["image"]))  # type: ignore[attr-defined]
        parts = self.coding.losses(maps, pdl.as_tensor(batch["maps"]))
        total: Any = sum(parts.values())
        return Loss(total, len(batch["image"]), parts={name: value.detach() for name, value in parts.items()})

    def evaluate(self, model: Module, batch: Any) -> Loss:
        images, count = pdl.as_tensor(batch["image"]), len(batch["image"])
        if not isinstance(model, TextDetector):  # a bundle, or a net that is listened to: it answers, and has no loss
            found = model(images)
            return Loss(pdl.zeros(()), count, (np.asarray(found.data),), known=False)
        maps = model.maps(images)
        total: Any = sum(self.coding.losses(maps, pdl.as_tensor(batch["maps"])).values())
        return Loss(total, count, (self.coding.answer(maps).numpy(),))

    def metrics(self) -> dict[str, Metric]:
        return detection_metrics()

    def update_metrics(self, metrics: dict[str, Metric], loss: Loss, batch: Any) -> None:
        step = self.coding.step(**self.step_arguments)
        found = [step.place(each, frame) for each, frame in zip(loss.outputs[0], batch["frame"], strict=True)]
        for metric in metrics.values():
            metric.update(found, batch["original"])

    # -- building ------------------------------------------------------------------------------------------------------
    def prepare(self, recipe: Recipe, datasets: Mapping[str, Any]) -> None:
        """Learn and answer as the net of the recipe does."""
        self.coding = getattr(recipe.model.cls, "coding", self.coding)

    def loader(self, dataset: Any, recipe: Recipe, *, training: bool, seed: int) -> DataLoader:
        maps = TextMaps(self.coding, self.ratio)
        return page_loader(dataset, recipe.data, maps, training=training, seed=seed)

    def check_model(self, model: Module, datasets: Mapping[str, Any], recipe: Recipe) -> None:
        """Run one page of each split through its transforms and the model."""
        if isinstance(model, Deployed):
            return
        if not isinstance(model, TextDetector):
            raise ConfigError(f"model: {type(model).__name__} is no pdl_ocr.models.TextDetector, so it finds no lines")
        self.coding = model.coding
        for images, source in first_images(self, datasets, recipe):
            shape, (n, height, width), cell = (
                answer(model, images, source, recipe).shape,
                images.shape[:3],
                model.coding.cell,
            )
            expected = (n, height // cell, width // cell, model.coding.channels)
            if shape != expected:
                raise ConfigError(
                    f"model: {recipe.model.target} gives outputs of shape {shape} for images of {images.shape}, "
                    f"expected {expected}: {model.coding.told}"
                )

    def learned_config(self) -> dict[str, Any]:
        return {"mode": self.mode}

    def check(self, recipe: Recipe, progress: Any = None) -> list[Fault]:
        return check_recipe(recipe, progress)

    def smoke_test(self, recipe: Recipe) -> SmokeTest:
        return SmokeTest(
            train=24,
            test=6,
            epochs=6,
            batch_size=4,
            settings={"data.transforms.train.0.size": 128, "data.transforms.eval.0.limit": 192},
        )

    def data_at(self, path: Path, split: str) -> dict[str, Any]:
        """A list or a folder, in any format of `pdl_ocr.data.TextPages`."""
        return {"_target_": "pdl_ocr.data.TextPages", "path": str(path)}

    def baselines(self, recipe: Recipe, datasets: Mapping[str, Any], split: str) -> dict[str, dict[str, float]]:
        """Dark strokes that are close to each other."""
        return baselines(self, datasets[split])

    # -- what a task hands over ----------------------------------------------------------------------------------------
    def previewer(self, recipe: Recipe) -> DetectionPreviewer:
        return DetectionPreviewer(self, recipe)

    def reporter(self) -> DetectionReporter:
        return DetectionReporter(self)

    def deployer(self, recipe: Recipe) -> DetectionDeployer:
        return DetectionDeployer(self, recipe)
