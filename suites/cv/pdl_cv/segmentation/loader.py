"""From samples to batches; for evaluation with the original masks, and where prepared images lie in the originals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pdl.data import Batch, DataLoader, Sample
from pdl.data.collating import collate
from pdl.data.pipeline import Transform
from pdl.data.randomness import SampleRandom
from pdl.errors import UsageError
from pdl.train.images import frame_of
from pdl.train.recipe import Data
from pdl_cv.detection.loader import original_loader


def segmentation_loader(dataset: Any, data: Data, *, training: bool, seed: int) -> DataLoader:
    """Batches {"image" [N, H, W, C], "mask" uint8 [N, H, W]}; for evaluation they also hold, in lists, the masks of the
    original images ("original") and where the prepared images lie in these ("frame")."""
    return original_loader(
        dataset, data, Remembered(), training_batch if training else evaluation_batch, training=training, seed=seed
    )


@dataclass(frozen=True)
class Remembered(Transform):
    """Keeps the mask of the original image, and three corners that the transforms move."""

    internal = True

    def __call__(self, sample: Sample, rng: SampleRandom) -> Sample:
        height, width = sample["image"].shape[:2]
        corners = np.array([[0, 0], [width, 0], [0, height]], np.float32)
        return {**sample, "original": sample["mask"], "points": corners}

    def deployed(self) -> list[dict[str, Any]]:
        return []


def training_batch(samples: Sequence[Sample]) -> Batch:
    """Images and masks, stacked."""
    for sample in samples:
        if "mask" not in sample:
            raise UsageError(f"sample {sample.get('index')} has no mask; expected uint8 [H, W], a class for each pixel")
    return collate([{name: sample[name] for name in ("image", "mask", "index")} for sample in samples])


def evaluation_batch(samples: Sequence[Sample]) -> Batch:
    """The same, with the originals and the frames."""
    batch = training_batch(samples)
    batch["original"] = [sample["original"] for sample in samples]
    batch["frame"] = [frame_of(sample["points"], sample["original"].shape) for sample in samples]
    return batch
