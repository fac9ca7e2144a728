"""From pages to batches: images and maps of them; for evaluation one page at a time, with what the original shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pdl.data import Batch, DataLoader, IterableDataset, Sample
from pdl.data.collating import collate
from pdl.data.pipeline import Transform
from pdl.data.randomness import SampleRandom
from pdl.errors import ConfigError, UsageError
from pdl.train.images import frame_of
from pdl.train.recipe import Data
from pdl_ocr.data.polygons import split_points
from pdl_ocr.detection.maps import TextMaps

FIELDS = ("points", "corners", "ignored")


def page_loader(dataset: Any, data: Data, maps: TextMaps, *, training: bool, seed: int) -> DataLoader:
    """Batches {"image" [N, H, W, C], "maps" as these make them, "index"}. For evaluation of one page each, as pages
    have sizes of their own; with "original", what it shows in its own pixels: {"polygons", "ignored", "index"}, and
    "frame", where the prepared image lies in it."""
    transforms = data.transforms(training=training)
    if training and data.sampler(dataset, seed=seed) is not None:
        raise ConfigError("data.balanced: pages have no classes that could be drawn alike; leave it out")
    return DataLoader(
        dataset,
        batch_size=data.size(training=True) if training else 1,
        shuffle=training and not isinstance(dataset, IterableDataset),
        transforms=[Required(), *([] if training else [Remembered()]), *transforms, maps],
        seed=seed,
        workers=data.workers,
        prefetch=data.prefetch,
        drop_last=training and data.drop_last,
        on_error=data.on_error,
        cache=data.cache if training else 0,
        collate=training_batch if training else evaluation_batch,
    )


@dataclass(frozen=True)
class Required(Transform):
    """The sample, if it is one of a page with polygons."""

    internal = True

    def __call__(self, sample: Sample, rng: SampleRandom) -> Sample:
        missing = [name for name in FIELDS if name not in sample]
        if missing:
            raise UsageError(f"sample {sample.get('index')} has no {missing[0]}; expected those of TextPages: {FIELDS}")
        return sample

    def deployed(self) -> list[dict[str, Any]]:
        return []


@dataclass(frozen=True)
class Remembered(Transform):
    """Keeps what the original image shows, and behind the points three corners that the transforms move."""

    internal = True

    def __call__(self, sample: Sample, rng: SampleRandom) -> Sample:
        height, width = sample["image"].shape[:2]
        corners = np.array([[0, 0], [width, 0], [0, height]], np.float32)
        original = {
            "polygons": split_points(np.asarray(sample["points"], np.float64), sample["corners"]),
            "ignored": sample["ignored"],
            "size": (height, width),
        }
        points = np.concatenate([sample["points"], corners])
        return {**sample, "original": original, "points": points}

    def deployed(self) -> list[dict[str, Any]]:
        return []


def training_batch(samples: Sequence[Sample]) -> Batch:
    """Images and maps, stacked."""
    shapes = {sample["image"].shape for sample in samples}
    if len(shapes) > 1:
        raise ConfigError(
            f"data.transforms.train gives images of {len(shapes)} sizes; end with one size, as "
            "pdl.data.transforms.RandomView does"
        )
    return collate([{name: sample[name] for name in ("image", "maps", "index")} for sample in samples])


def evaluation_batch(samples: Sequence[Sample]) -> Batch:
    """The same of pages alike, with what the originals show and the frames of the prepared images."""
    batch = training_batch(samples)
    batch["original"] = [{**sample["original"], "index": sample["index"]} for sample in samples]
    batch["frame"] = [frame_of(sample["corner"], sample["original"]["size"]) for sample in samples]
    return batch
