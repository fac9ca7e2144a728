"""Whether data sets fit each other, and a net fits their images: what tasks on images look at before training."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pdl
from pdl.dtype import Array
from pdl.errors import ConfigError, DataError, ShapeError, listed
from pdl.nn import Module
from pdl.nn.module import evaluating
from pdl.train import Recipe, Task
from pdl.train.task import first_samples
from pdl_cv.data.boxes.formats import layout
from pdl_cv.data.boxes.tree import Tree


def agreed(known: Sequence[str], names: Sequence[str], *, split: str, what: str = "classes") -> list[str]:
    """The names that a split has in common with what is `known`, where both have some. DataError where they differ."""
    if known and names and list(names) != list(known):
        raise DataError(
            f"data.{split}: has {len(names)} {what} ({listed(names)}), expected {len(known)} ({listed(known)}); all "
            "splits need one list"
        )
    return list(known or names)


def annotated_at(path: Path, split: str, *, keypoints: bool = False) -> dict[str, Any]:
    """The data set, as a recipe writes it, of annotated images at a path: of their `split` where they have that.
    DataError where there are none."""
    _, splits = layout(Tree(path), keypoints=keypoints)
    return {"_target_": "pdl_cv.data.DetectionFolder", "root": str(path), "split": split if split in splits else None,
            "ratios": None, "format": "auto"}  # fmt: skip


def first_images(task: Task, datasets: Mapping[str, Any], recipe: Recipe) -> Iterator[tuple[Array, str]]:
    """Of each split an image as the model is given it, [1, H, W, C], and where it comes from. A task that has a `mode`
    and does not know it yet learns it from the image. ConfigError for images that are no floats."""
    for split, dataset in datasets.items():
        first, training = first_samples(dataset, 1), split == "train"
        loader: Any = task.loader(first, recipe, training=training, seed=0)
        loader.workers, loader.drop_last = 0, False
        batch = next(iter(loader), None)
        if batch is None:  # an unreadable first image, with on_error=skip
            continue
        if getattr(task, "mode", "rgb") is None:
            task.mode = "gray" if first[0]["image"].shape[-1] == 1 else "rgb"  # type: ignore[attr-defined]
        images, source = batch["image"], f"data.{split} after data.transforms.{'train' if training else 'eval'}"
        if images.dtype.kind != "f":
            raise ConfigError(
                f"{source} gives {images.dtype} images; add pdl.data.transforms.Normalize or ToFloat to the list"
            )
        yield images, source


def answer(model: Module, images: Array, source: str, recipe: Recipe) -> Any:
    """What a model makes of images [N, H, W, C], in evaluation mode. ConfigError where it does not take them."""
    try:
        with evaluating(model):
            return model(pdl.as_tensor(images))
    except ShapeError as error:
        raise ConfigError(
            f"model: {recipe.model.target} does not take the images of {source}, shape {images.shape[1:]}: {error}"
        ) from error
