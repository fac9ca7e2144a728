"""Look classes of images over before training: classes in two splits, splits without trials, classes of one image."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from pdl.data import Dataset, Fault, labels_of
from pdl.data import check as check_data
from pdl.data.checks import Progress, open_all
from pdl.errors import ConfigError, listed
from pdl.train import Recipe
from pdl.train.open_set import Called, OpenSet, classes_there, shared, without_trials

CALLED = Called("class", "classes", "image")


def check_recipe(recipe: Recipe, progress: Progress | None = None, *, each: int | None = None) -> list[Fault]:
    """Faults of the images of a recipe, of its splits, and of the trials and batches they allow; `each`: how many
    images of a class a batch has."""
    sources = {split: part.build for split, part in recipe.data.splits.items()}
    opened = open_all(sources, [])
    try:
        found = [
            *known(opened),
            *(each for split, data in opened.items() for each in without_trials(split, data, CALLED, "")),
            *(fault for split, data in opened.items() for fault in _scarce(split, data, each)),
        ]
    except ConfigError as error:
        return [Fault(None, None, str(error), "put the images of each class into a folder")]
    looked: dict[str, Callable[[], Dataset]] = {split: _alone(source) for split, source in sources.items()}
    return [*found, *check_data(looked, progress=progress)]


def _alone(source: Callable[[], Dataset]) -> Callable[[], Dataset]:
    """The data set without a class list, as splits have different classes."""

    def made() -> Dataset:
        images = OpenSet(source())
        images.classes = ()
        return images

    return made


def known(datasets: Mapping[str, Any]) -> list[Fault]:
    """A fault for each split other than train that has classes of train."""
    advice = "classes that were learned measure nothing: cut splits by classes (pdl.data.ByClass)"
    return shared(datasets, CALLED, advice)


def _scarce(split: str, data: Dataset, each: int | None) -> list[Fault]:
    """Classes with fewer images than a batch takes of each; outside of training, those that are no queries."""
    labels, counts = np.unique(labels_of(data, "task"), return_counts=True)
    least = (each or 1) if split == "train" else 2
    few = [data.classes[label] for label, count in zip(labels.tolist(), counts.tolist(), strict=True) if count < least]
    if not few or (split != "train" and len(few) == len(classes_there(data))):  # which `without_trials` says
        return []
    if split == "train":
        what = f"{len(few)} of {len(counts)} classes have fewer than {least} images: {listed(few, 5)}"
        return [Fault(None, None, what, f"add images, leave these out, or set task.images_per_class below {least}",
                      split=split)]  # fmt: skip
    what = f"{len(few)} of {len(counts)} classes have one image: {listed(few, 5)}"
    return [Fault(None, None, what, "they are found by none; add a second one", split=split, severity="warning")]
