"""From pairs to batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pdl.data import Batch, DataLoader, Sample
from pdl.data.collating import collate
from pdl.data.transforms import Compose
from pdl.errors import UsageError
from pdl.train.recipe import Data
from pdl_cv.detection.loader import original_loader

NOTHING = Compose(())  # pairs are measured at the size of the net


def pair_loader(dataset: Any, data: Data, *, training: bool, seed: int) -> DataLoader:
    """Batches {"image" [N, H, W, C], "picture" float32 [N, H, W, C] in [-1, 1]}."""
    return original_loader(dataset, data, NOTHING, pair_batch, training=training, seed=seed)


def pair_batch(samples: Sequence[Sample]) -> Batch:
    """Images and pictures, stacked."""
    for sample in samples:
        if "picture" not in sample:
            raise UsageError(f"sample {sample.get('index')} has no picture, uint8 [H, W, C]: what is to be made of it")
    batch = collate([{name: sample[name] for name in ("image", "picture", "index")} for sample in samples])
    batch["picture"] = np.float32(batch["picture"]) / np.float32(127.5) - np.float32(1)
    return batch
