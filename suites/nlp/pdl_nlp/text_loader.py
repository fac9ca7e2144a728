"""Batches of texts of about one length, for all tasks on texts."""

from __future__ import annotations

from typing import Any

from pdl.data import BucketBatchSampler, DataLoader
from pdl.errors import ConfigError
from pdl.train.recipe import Data


def loader_of(tokens: Any, data: Data, *, training: bool, seed: int) -> DataLoader:
    """Batches of a data set with `lengths` and `sizes`, of texts of about one length; in training in a new order each
    epoch."""
    if training and data.sampler(tokens, seed=seed) is not None:
        raise ConfigError(
            "data.balanced: texts are batched by length, not drawn by class; use task.class_weights=balanced instead"
        )
    size = data.size(training=training)
    sampler = BucketBatchSampler(tokens.lengths, size, tokens.sizes, shuffle=training, seed=seed)
    return DataLoader(tokens, sampler=sampler, seed=seed, workers=data.workers, prefetch=data.prefetch)
