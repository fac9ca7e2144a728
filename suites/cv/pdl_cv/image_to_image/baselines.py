"""What nobody has to learn: the mean picture, and the picture of the pair whose image is most alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.data import Dataset
from pdl.dtype import Array
from pdl.train import Recipe
from pdl_cv.generation.judge import Pixels
from pdl_cv.steps.pictures import as_pixels

if TYPE_CHECKING:
    from pdl_cv.image_to_image.task import ImageToImage

MOST = 2000  # pairs of the training data that are looked at


def baselines(
    task: ImageToImage, recipe: Recipe, datasets: Mapping[str, Any], split: str
) -> dict[str, dict[str, float]]:
    """The mean picture of the training data, and its picture of the image nearest by the means of 8 x 8 areas."""
    train, test = datasets["train"], datasets[split]
    if not isinstance(train, Dataset) or not isinstance(test, Dataset) or train is test:
        return {}
    areas, known, pictures = Pixels(), [], []
    for images, wanted in _read(task, recipe, train):
        known.append(areas(images)[0])
        pictures.append(wanted)
        if sum(map(len, known)) >= MOST:
            break
    features, shown = np.concatenate(known), np.concatenate(pictures)
    mean = np.rint(shown.mean(axis=0)).astype(np.uint8)
    measured = {"mean picture": task.metrics(), "nearest image's picture": task.metrics()}
    for images, wanted in _read(task, recipe, test):
        seen = areas(images)[0]
        apart = np.square(seen).sum(1)[:, None] - 2 * seen @ features.T + np.square(features).sum(1)
        made = {"mean picture": np.broadcast_to(mean, wanted.shape),
                "nearest image's picture": shown[apart.argmin(axis=1)]}  # fmt: skip
        for name, metrics in measured.items():
            for metric in metrics.values():
                metric.update(images, wanted, made[name])
    return {name: {key: float(metric.compute()) for key, metric in metrics.items() if key != "pairs"}
            for name, metrics in measured.items()}  # fmt: skip


def _read(task: ImageToImage, recipe: Recipe, dataset: Any) -> Iterator[tuple[Array, Array]]:
    """Of each batch the images and the pictures, uint8 [N, H, W, C], as they are evaluated."""
    for batch in task.loader(dataset, recipe, training=False, seed=0):
        yield as_pixels(np.asarray(batch["image"])), as_pixels(batch["picture"])
