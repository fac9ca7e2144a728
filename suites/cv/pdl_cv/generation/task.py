"""The generation task: what the trainer calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

import pdl
from pdl import random
from pdl.data.folders import split_folder
from pdl.dtype import Array
from pdl.errors import ConfigError
from pdl.hints import Range
from pdl.nn import Module
from pdl.nn.module import evaluating
from pdl.train import Deployed, Evaluation, Loss, Metric, Recipe, SmokeTest, Task
from pdl.train.classes import classes_of
from pdl.train.images import first_images
from pdl_cv.generation.baselines import REAL, baselines
from pdl_cv.generation.deploy import GenerationDeployer
from pdl_cv.generation.judge import Judge, Pixels
from pdl_cv.generation.metrics import generation_metrics
from pdl_cv.generation.preview import GenerationPreviewer
from pdl_cv.generation.report import GenerationReporter
from pdl_cv.steps.pictures import as_pixels, noise_for


class Generation(Task):
    """Pictures that look as those of the data do, of a class that is asked for. Models are those of the task generation
    (`pdl models --task generation`), which begin with noise.

    classes     their names in the order of the labels; by default the data set's
    mode        "rgb" or "gray"; by default as many channels as the data set's
    judge       a classifier of real pictures, a bundle or a name of the hub: what it calls drawn pictures is measured,
                and their Frechet distance by its features. Nothing is learned from it. Without one the distance is of
                the means of 8 x 8 areas
    draw_every  one picture is drawn for each so many that are evaluated, of the same class

    Models give images in [-1, 1], so transforms end with Normalize(mean=0.5, std=0.5). Samples are {"image": [H, W, C],
    "label": int}.
    """

    monitor = "val/frechet"
    overfits = ""
    bounds = (REAL,)

    def __init__(
        self,
        *,
        classes: Sequence[str] | None = None,
        mode: Literal["rgb", "gray"] | None = None,
        judge: str | None = None,
        draw_every: Annotated[int, Range(1)] = 5,
    ) -> None:
        self.classes, self.mode, self.judge, self.draw_every = list(classes or ()), mode, judge, draw_every
        self.image_size, self.in_channels = (0, 0), 0

    # -- training ------------------------------------------------------------------------------------------------------
    def players(self, model: Module) -> Sequence[str]:
        return getattr(model, "players", ())

    def step(self, model: Any, batch: Any) -> Loss:
        value, parts = model.loss(*_of(batch))
        return Loss(value, len(batch["label"]), parts=parts)

    def turn(self, player: str, model: Any, batch: Any) -> Loss:
        value, parts = model.turn(player, *_of(batch))
        return Loss(value, len(batch["label"]), parts=parts)

    def evaluate(self, model: Any, batch: Any) -> Loss:
        """The loss of a model that has one, and a picture for each `draw_every`th of the data."""
        known = not self.players(model) and not isinstance(model, Deployed)
        index, labels = np.asarray(batch["index"]), np.asarray(batch["label"])
        with random.fork_seed(int(index[0])):  # the same noise in every evaluation
            loss = model.loss(*_of(batch))[0] if known else pdl.zeros(())
        chosen = index % self.draw_every == 0
        real, _ = self.eye(as_pixels(np.asarray(batch["image"])))
        pictures, asked = self.drawn(model, labels[chosen], index[chosen]), labels[chosen]
        drawn, called = self.eye(pictures) if len(pictures) else (real[:0], asked)
        return Loss(loss, len(labels), (real, drawn, asked, called, pictures), known=known)

    def drawn(self, model: Any, labels: Array, seeds: Array) -> Array:
        """A picture uint8 [H, W, C] of each of these classes, each with noise of its own."""
        shape = noise_shape(model)
        if not len(labels):
            return np.zeros((0, *self.image_size, self.in_channels), np.uint8)
        noise = np.stack([noise_for(shape, seed) for seed in seeds.tolist()])
        with evaluating(model):
            return as_pixels(model(pdl.as_tensor(noise), pdl.as_tensor(labels.astype(np.int64))).numpy())

    @cached_property
    def eye(self) -> Judge | Pixels:
        """Who looks at pictures."""
        return Pixels() if self.judge is None else Judge(self.judge, self.classes)

    def metrics(self) -> dict[str, Metric]:
        return generation_metrics(len(self.classes), calls=self.eye.calls)

    def pictures(self, evaluation: Evaluation) -> Mapping[str, Array]:
        return {"drawn": evaluation.details["pictures"]} if evaluation.details["pictures"].size else {}

    # -- building ------------------------------------------------------------------------------------------------------
    def prepare(self, recipe: Recipe, datasets: Mapping[str, Any]) -> None:
        """Agree on the class names, on gray or colour, and on the size of pictures."""
        named = [getattr(data, "classes", ()) for data in datasets.values()]
        plain = recipe.model.get("num_classes") == 0 or any(len(names) == 1 for names in named)
        self.classes = [] if plain else classes_of(self.classes, datasets)
        for images, source in first_images(self, datasets, recipe):
            if float(np.abs(images).max()) > 1 + 1e-5:
                raise ConfigError(
                    f"{source}: numbers from {images.min():.3g} to {images.max():.3g}, expected -1 to 1; end the list "
                    "with {_target_: pdl.data.transforms.Normalize, mean: 0.5, std: 0.5}"
                )
            size, channels = images.shape[1:3], images.shape[3]
            if self.in_channels and (size, channels) != (self.image_size, self.in_channels):
                raise ConfigError(
                    f"{source}: images of {size[0]} x {size[1]} x {channels}, others are of {self.image_size[0]} x "
                    f"{self.image_size[1]} x {self.in_channels}; bring all to one size (Resize, CenterCrop)"
                )
            self.image_size, self.in_channels = size, channels

    def facts(self, recipe: Recipe) -> Mapping[str, Any]:
        size = [int(n) for n in self.image_size]
        return {"num_classes": len(self.classes), "image_size": size, "in_channels": self.in_channels}

    def check_model(self, model: Any, datasets: Mapping[str, Any], recipe: Recipe) -> None:
        """Draw one picture, and look at it."""
        shape = self.drawn(model, np.zeros(1, np.int64), np.zeros(1, np.int64)).shape
        if self.in_channels and shape != (1, *self.image_size, self.in_channels):
            raise ConfigError(
                f"model: {recipe.model.target} draws pictures of shape {shape[1:]}, the data's are "
                f"{(*self.image_size, self.in_channels)}; leave model.image_size and model.in_channels out"
            )
        self.eye  # noqa: B018 (a judge that does not fit is an error now)

    def learned_config(self) -> dict[str, Any]:
        return {"classes": self.classes, "mode": self.mode}

    def baselines(self, recipe: Recipe, datasets: Mapping[str, Any], split: str) -> dict[str, dict[str, float]]:
        """Real pictures of the training data, and one mean picture of each class."""
        return baselines(self, recipe, datasets, split)

    def data_at(self, path: Path, split: str) -> dict[str, Any]:
        """A folder of class folders."""
        own = None if split_folder(path, split) is None else split
        return {"_target_": "pdl_cv.data.ImageFolder", "root": str(path), "split": own, "ratios": None,
                "classes": self.classes, "allow_empty": True}  # fmt: skip

    def smoke_test(self, recipe: Recipe) -> SmokeTest:
        """Few steps of a diffusion, and more pictures of the few samples."""
        steps = {"model.sampling_steps": 3, "model.width": 16} if "sampling_steps" in recipe.model.takes else {}
        return SmokeTest(epochs=6, settings={"task.draw_every": 2, "train.eval_every": 3, **steps})

    # -- what a task hands over ----------------------------------------------------------------------------------------
    def deployer(self, recipe: Recipe) -> GenerationDeployer:
        return GenerationDeployer(self, recipe)

    def previewer(self, recipe: Recipe) -> GenerationPreviewer:
        return GenerationPreviewer(self, recipe)

    def reporter(self) -> GenerationReporter:
        return GenerationReporter(self)


def _of(batch: Any) -> tuple[pdl.Tensor, pdl.Tensor]:
    """Images and labels of a batch."""
    return pdl.as_tensor(batch["image"]), pdl.as_tensor(batch["label"])


def noise_shape(model: Any) -> tuple[int, ...]:
    """The shape of what a picture begins with."""
    if isinstance(model, Deployed):
        port: Any = model.session.inputs[0].shape
        return tuple(int(n) for n in port[1:])
    return tuple(model.noise_shape)
