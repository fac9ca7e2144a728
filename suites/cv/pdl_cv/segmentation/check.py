"""What is wrong with images and masks: of another size, of values without a class, of classes that are hardly there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from pdl.data.checks import Progress, check, open_all
from pdl.data.dataset import Dataset, Sample
from pdl.data.faults import Fault
from pdl.train import Recipe
from pdl_cv.data.index_maps import IGNORED

RARE = 1e-4  # share of all pixels below which a class is almost absent
MOSTLY = 0.9  # share of an image's pixels that count nothing, from which on it is said


def check_recipe(recipe: Recipe, progress: Progress | None = None) -> list[Fault]:
    """The faults of a recipe's data sets: what `pdl.data.check` finds in all of them, masks that cannot be read, are of
    another size than their image or have values without a class, masks of which (nearly) nothing counts, and classes
    without pixels, or with almost none."""
    splits = {split: partial(recipe.data.build, split, on_error="skip") for split in recipe.data.splits}
    faults: list[Fault] = []
    opened = {split: each for split, each in open_all(splits, faults).items() if len(each)}
    pixels = {split: np.zeros(256, np.int64) for split in opened}
    told: set[str] = set()
    for split, dataset in opened.items():
        for each in dataset.faults:
            if str(each) not in told:  # one folder is read for all splits
                told.add(str(each))
                faults.append(replace(each, split=split))

    def inspect(split: str, dataset: Dataset, index: int, sample: Sample) -> Iterator[tuple[str, Fault]]:
        counts = np.bincount(np.asarray(sample["mask"]).reshape(-1), minlength=256)
        pixels[split] += counts
        share = counts[IGNORED] / max(1, counts.sum())
        if share >= MOSTLY:
            path = dataset.mask_of(index) if hasattr(dataset, "mask_of") else dataset.path_of(index)
            what = "no pixel of the mask counts" if share == 1 else f"{share:.0%} of the mask's pixels count nothing"
            advice = "is a class taken for what counts nothing? see `values` and `ignore`, or take the image away"
            yield "nothing", Fault(path, index, what, advice, split=split, severity="warning")

    faults += check(opened, progress=progress, inspect=inspect)
    for split, dataset in opened.items():
        faults += _classes(split, dataset, pixels[split])
    return faults


def _classes(split: str, dataset: Any, pixels: np.ndarray) -> Iterator[Fault]:
    """Classes without pixels, and such that are almost absent."""
    total = max(1, int(pixels[: len(dataset.classes)].sum()))
    for number, name in enumerate(dataset.classes):
        count = int(pixels[number])
        if not count:
            severity = "error" if split == "train" else "warning"
            advice = "add images that show it, or leave it out of classes (values=)"
            yield Fault(None, None, f"class {name!r} has no pixel", advice, split=split, severity=severity)
        elif count < RARE * total:
            what = f"class {name!r} has {count:,} of {total:,} pixels"
            yield Fault(None, None, what, "weigh it: task.class_weights=balanced", split=split, severity="warning")
