"""The task of making pictures of others: what the trainer calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

import pdl
from pdl.data import DataLoader
from pdl.dtype import Array
from pdl.errors import ConfigError
from pdl.nn import Module
from pdl.train import Evaluation, Loss, Metric, Recipe, SmokeTest, Task
from pdl.train.images import answer, first_images
from pdl_cv.data.paired import paired_at
from pdl_cv.detection.smoke import smoke_test
from pdl_cv.generation.judge import Judge, Pixels
from pdl_cv.image_to_image.baselines import baselines
from pdl_cv.image_to_image.deploy import ImageToImageDeployer
from pdl_cv.image_to_image.loader import pair_loader
from pdl_cv.image_to_image.metrics import pair_metrics
from pdl_cv.image_to_image.preview import ImageToImagePreviewer
from pdl_cv.image_to_image.report import ImageToImageReporter
from pdl_cv.steps.pictures import as_pixels


class ImageToImage(Task):
    """Pictures made of others, learned from pairs: photographs of maps of labels, colours of gray, days of nights.
    Models are those of the task image_to_image (`pdl models --task image_to_image`): images [N, H, W, C] ->
    pictures [N, H, W, C] in [-1, 1].

    mode   "rgb" or "gray": how `pdl predict` reads images; by default as many channels as the data set's
    judge  a classifier of such pictures, a bundle or a name of the hub: measured is the share of made pictures that it
           calls what it calls the true one, and their Frechet distance by its features. Nothing is learned from it.
           Without one the distance is of the means of 8 x 8 areas

    Samples are {"image": [H, W, C], "picture": uint8 [H, W, C]}; transforms end with Normalize(mean=0.5, std=0.5), so
    that images have numbers in [-1, 1], too.
    """

    monitor = "val/l1"
    overfits = "training"

    def __init__(self, *, mode: Literal["rgb", "gray"] | None = None, judge: str | None = None) -> None:
        self.mode, self.judge = mode, judge
        self.channels = (0, 0)

    # -- training ------------------------------------------------------------------------------------------------------
    def players(self, model: Module) -> Sequence[str]:
        return getattr(model, "players", ())

    def turn(self, player: str, model: Any, batch: Any) -> Loss:
        value, parts = model.turn(player, pdl.as_tensor(batch["image"]), pdl.as_tensor(batch["picture"]))
        return Loss(value, len(batch["image"]), parts=parts)

    def evaluate(self, model: Any, batch: Any) -> Loss:
        """The pictures that are made of a batch; the loss, which a discriminator has a part in, is not known."""
        made = model(pdl.as_tensor(batch["image"]))
        seen, wanted = as_pixels(np.asarray(batch["image"])), as_pixels(np.asarray(batch["picture"]))
        return Loss(pdl.zeros(()), len(seen), (seen, wanted, as_pixels(made.numpy())), known=False)

    @cached_property
    def eye(self) -> Judge | Pixels:
        """Who looks at pictures."""
        return Pixels() if self.judge is None else Judge(self.judge)

    def metrics(self) -> dict[str, Metric]:
        return pair_metrics(self.eye)

    def pictures(self, evaluation: Evaluation) -> Mapping[str, Array]:
        return {"pairs": evaluation.details["pairs"]} if evaluation.details["pairs"].size else {}

    # -- building ------------------------------------------------------------------------------------------------------
    def loader(self, dataset: Any, recipe: Recipe, *, training: bool, seed: int) -> DataLoader:
        return pair_loader(dataset, recipe.data, training=training, seed=seed)

    def prepare(self, recipe: Recipe, datasets: Mapping[str, Any]) -> None:
        """Agree on gray or colour."""
        for images, source in first_images(self, datasets, recipe):
            if float(np.abs(images).max()) > 1 + 1e-5:
                raise ConfigError(
                    f"{source}: numbers from {images.min():.3g} to {images.max():.3g}, expected -1 to 1; end the list "
                    "with {_target_: pdl.data.transforms.Normalize, mean: 0.5, std: 0.5}"
                )
        for dataset in datasets.values():
            sample = dataset[0] if len(dataset) else None
            if sample is not None:
                self.channels = sample["image"].shape[-1], sample["picture"].shape[-1]

    def facts(self, recipe: Recipe) -> Mapping[str, Any]:
        seen, made = self.channels
        return {"in_channels": seen, "out_channels": made}

    def check_model(self, model: Module, datasets: Mapping[str, Any], recipe: Recipe) -> None:
        """Make a picture of one image of each split."""
        for images, source in first_images(self, datasets, recipe):
            shape = answer(model, images, source, recipe).shape
            wanted = (*images.shape[:3], self.channels[1])
            if tuple(shape) != wanted:
                raise ConfigError(
                    f"model: {recipe.model.target} makes pictures of shape {tuple(shape[1:])} of {source}, the data's "
                    f"are {wanted[1:]}; leave model.in_channels and model.out_channels out"
                )
        self.eye  # noqa: B018 (a judge that does not fit is an error now)

    def learned_config(self) -> dict[str, Any]:
        return {"mode": self.mode}

    def data_at(self, path: Path, split: str) -> dict[str, Any]:
        """A folder of pairs, in any layout of `pdl_cv.data.PairedFolder` with two folders."""
        return paired_at(path, split)

    def baselines(self, recipe: Recipe, datasets: Mapping[str, Any], split: str) -> dict[str, dict[str, float]]:
        """The mean picture, and that of the training image which is most alike."""
        return baselines(self, recipe, datasets, split)

    def smoke_test(self, recipe: Recipe) -> SmokeTest:
        """Few pairs, of half the size, by a narrow net."""
        cut = smoke_test(recipe, batch_size=4, epochs=4)
        depth = min(5, recipe.model.get("depth") or 5)
        narrow = {"model.width": 8, "model.depth": depth} if {"width", "depth"} <= {*recipe.model.takes} else {}
        return SmokeTest(cut.train, cut.test, cut.epochs, cut.batch_size, {**cut.settings, **narrow})

    # -- what a task hands over ----------------------------------------------------------------------------------------
    def deployer(self, recipe: Recipe) -> ImageToImageDeployer:
        return ImageToImageDeployer(self, recipe)

    def previewer(self, recipe: Recipe) -> ImageToImagePreviewer:
        return ImageToImagePreviewer(self, recipe)

    def reporter(self) -> ImageToImageReporter:
        return ImageToImageReporter(self)
