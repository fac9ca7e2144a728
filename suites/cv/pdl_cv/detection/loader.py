"""From samples to batches: objects padded to a few numbers of rows, and for evaluation the way back to the original."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pdl.data import Batch, DataLoader, IterableDataset, Sample
from pdl.data.collating import collate
from pdl.data.pipeline import Transform
from pdl.data.randomness import SampleRandom
from pdl.errors import UsageError
from pdl.train.images import frame_of
from pdl.train.recipe import Data

ROWS = 8  # of objects in the smallest batch; programs are compiled for this number and its doubles
ANNOTATIONS = ("boxes", "labels", "masks", "keypoints", "crowd", "difficult", "area")
"""What a sample may say of its objects, a row for each."""


def detection_loader(dataset: Any, data: Data, *, training: bool, seed: int) -> DataLoader:
    """Batches {"image" [N, H, W, C], "boxes" float32 [N, M, 4], "labels" int64 [N, M], "masks" uint8 [N, M, H, W] where
    there are some}; rows without an object have the label -1. M is 8, 16, 32, ... so that a training step is compiled
    for a few numbers.

    For evaluation they also hold, in lists, what the original image shows ("original": the annotations of the data set,
    before any transform) and where the prepared image lies in it ("frame").
    """
    return original_loader(
        dataset, data, Remembered(), training_batch if training else evaluation_batch, training=training, seed=seed
    )


def original_loader(
    dataset: Any, data: Data, remembered: Transform, collate: Callable[[Sequence[Sample]], Batch], *, training: bool,
    seed: int,
) -> DataLoader:  # fmt: skip
    """The loader of a task that is measured on the original images: in evaluation `remembered` keeps what these show,
    before any other transform."""
    transforms = data.transforms(training=training)
    sampler = data.sampler(dataset, seed=seed) if training else None
    return DataLoader(
        dataset,
        batch_size=data.size(training=training),
        shuffle=training and sampler is None and not isinstance(dataset, IterableDataset),
        sampler=sampler,
        transforms=transforms if training else [remembered, *transforms],
        seed=seed,
        workers=data.workers,
        prefetch=data.prefetch,
        drop_last=training and data.drop_last,
        on_error=data.on_error,
        cache=data.cache if training else 0,
        collate=collate,
    )


@dataclass(frozen=True)
class Remembered(Transform):
    """Keeps what the original image shows, and three corners that the transforms move."""

    internal = True

    def __call__(self, sample: Sample, rng: SampleRandom) -> Sample:
        height, width = sample["image"].shape[:2]
        original = {name: sample[name] for name in ANNOTATIONS if name in sample}
        corners = np.array([[0, 0], [width, 0], [0, height]], np.float32)
        return {**sample, "original": {**original, "size": (height, width)}, "points": corners}

    def deployed(self) -> list[dict[str, Any]]:
        return []


def training_batch(samples: Sequence[Sample]) -> Batch:
    """Images stacked, objects padded; crowds and what is marked as difficult teach nothing and are left out."""
    taught = [_taught(sample) for sample in samples]
    rows = ROWS
    while rows < max(len(each["labels"]) for each in taught):
        rows *= 2
    batch = collate([{"image": sample["image"], "index": sample["index"]} for sample in samples])
    batch["boxes"] = np.zeros((len(taught), rows, 4), np.float32)
    batch["labels"] = np.full((len(taught), rows), -1, np.int64)
    if all("masks" in each for each in taught):
        batch["masks"] = np.zeros((len(taught), rows, *batch["image"].shape[1:3]), np.uint8)
    for i, each in enumerate(taught):
        for name in ("boxes", "labels", "masks"):
            if name in batch:
                batch[name][i, : len(each["labels"])] = each[name]
    return batch


def evaluation_batch(samples: Sequence[Sample]) -> Batch:
    """The same, with the annotations of the original images and the frames of the prepared ones."""
    batch = training_batch(samples)
    batch["original"] = [{**sample["original"], "index": sample["index"]} for sample in samples]
    batch["frame"] = [frame_of(sample["points"], sample["original"]["size"]) for sample in samples]
    return batch


def _taught(sample: Sample) -> Sample:
    """The annotations of a sample without crowds, difficult objects and boxes without an area."""
    missing = [name for name in ("boxes", "labels") if name not in sample]
    if missing:
        raise UsageError(f"sample {sample.get('index')} has no {missing[0]}; expected boxes [n, 4] and labels [n]")
    boxes = sample["boxes"]
    kept = (boxes[:, 2] > boxes[:, 0]) & (boxes[:, 3] > boxes[:, 1])
    for name in ("crowd", "difficult"):
        if name in sample:
            kept &= ~sample[name]
    return {name: sample[name][kept] for name in ("boxes", "labels", "masks") if name in sample}
