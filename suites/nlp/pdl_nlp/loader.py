"""Batches of texts of about one length, for all tasks on texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pdl.data import Batch, BucketBatchSampler, DataLoader, Dataset, Sample, bucket_sizes
from pdl.dtype import Array
from pdl.errors import ConfigError
from pdl.train.recipe import Data


class ByLength(Dataset):
    """The texts of a `dataset` as numbers, all in one array with padding at its end; batches are as long as the next of
    `sizes`."""

    dataset: Any

    def _measure(self, counts: Array, max_length: int, sizes: Sequence[int] | None) -> None:
        """Take the tokens of each text, int64 [N], and ascending lengths that batches may have; by default those with
        little padding (`pdl.data.bucket_sizes`)."""
        self.lengths = np.maximum(counts, 1)
        own = bucket_sizes(self.lengths) if sizes is None else [size for size in sizes if size < max_length]
        self.sizes = np.array(own if sizes is None else [*own, max_length])

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: int) -> Sample:
        return {name: values[0] for name, values in self.get_batch(np.array([index])).items()}

    def get_batch(self, indices: np.ndarray) -> Batch:
        """Some texts as arrays by name, each with as many positions."""
        raise NotImplementedError

    def _at(self, indices: Array, starts: Array, counts: Array) -> Array:
        """Where the tokens of some texts are, int64 [N, T], of texts that begin at `starts` and have `counts`; -1, the
        padding, behind them."""
        positions = np.arange(self.sizes[np.searchsorted(self.sizes, self.lengths[indices].max())])
        return np.where(positions < counts[indices][:, None], starts[indices][:, None] + positions, -1)

    def path_of(self, index: int) -> str | None:
        found: str | None = self.dataset.path_of(index)
        return found


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
