"""From recordings of orders to batches: those of like length together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pdl.data import Batch, BucketBatchSampler, DataLoader, Dataset, Sample, bucket_sizes
from pdl.data.collating import collate
from pdl.dtype import Array
from pdl.errors import ConfigError
from pdl.train.recipe import Data
from pdl_speech.recognition.loader import PADDING, SIZES, filled, known


def order_loader(orders: Dataset, data: Data, *, training: bool, seed: int) -> DataLoader:
    """Batches {"audio" float32 [N, T], "samples" int64 [N], "slots" int64 [N, S], "index"}, filled up with zeros to a
    few lengths. In training in a new order each epoch, otherwise from short to long."""
    if training and data.balanced:
        raise ConfigError("data.balanced: orders have no classes that could be drawn alike; leave it out")
    lengths = np.array(known(orders, "lengths", lambda sample: len(sample["audio"])), np.int64)
    sizes = bucket_sizes(lengths, padding=PADDING, most=SIZES)

    def joined(samples: Sequence[Sample]) -> Batch:
        rest = collate([{name: sample[name] for name in ("slots", "index")} for sample in samples])
        return {**filled([sample["audio"] for sample in samples], sizes), **rest}

    return DataLoader(
        orders,
        sampler=BucketBatchSampler(lengths, data.size(training=training), sizes, shuffle=training, seed=seed),
        transforms=data.transforms(training=training),
        seed=seed,
        workers=data.workers,
        prefetch=data.prefetch,
        on_error=data.on_error,
        cache=data.cache if training else 0,
        collate=joined,
    )


def targets_of(orders: Dataset) -> Array:
    """int64 [N, S]: of each order the numbers of the values of its slots; its recordings are not read where the data
    set knows them without (`targets`)."""
    return np.array(known(orders, "targets", lambda sample: sample["slots"]), np.int64)
