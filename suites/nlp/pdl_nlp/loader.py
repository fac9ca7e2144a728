"""Batches of texts of about one length, for all tasks on texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pdl.data import Batch, BucketBatchSampler, DataLoader, Dataset, Sample, Transform, bucket_sizes
from pdl.data.faults import fault
from pdl.dtype import Array
from pdl.errors import ConfigError, DataError
from pdl.train.recipe import Data
from pdl_nlp.tokenizers import Tokenizer


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

    def lengths_in(self, epoch: int) -> Array:
        """The tokens of each text in an epoch, int64 [N]."""
        return self.lengths

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


class ByPair(ByLength):
    """Pairs of texts as numbers: "tokens" and "pair" int64 [N, T], both as long as the next of `sizes`; or, `joined`,
    both texts in one row of "tokens" with the special tokens that belong around them, and the "segments" of these."""

    def _number(
        self,
        texts: Sequence[str],
        pairs: Sequence[str],
        tokenizer: Tokenizer,
        max_length: int,
        sizes: Sequence[int] | None,
        *,
        joined: bool = False,
    ) -> None:
        """Make the numbers of texts, each cut to `max_length` tokens; of joined ones both together."""
        pad = tokenizer.pad or 0
        if joined:
            made = [tokenizer.encode(*both, max_length=max_length) for both in zip(texts, pairs, strict=True)]
            starts = np.cumsum([0, *(len(segments) for _, segments in made)])
            ids, segments = (np.concatenate(each) for each in zip(*((e.ids, s) for e, s in made), strict=True))
            found = {"tokens": (np.append(ids, pad), starts), "segments": (np.append(segments, 0), starts)}
        else:
            sides = zip(("tokens", "pair"), (texts, pairs), strict=True)
            each = {name: tokenizer.framed(column, max_length=max_length) for name, column in sides}
            found = {name: (np.append(made.ids, pad), made.starts) for name, made in each.items()}
        self.sides = {name: (ids.astype(np.int64), starts, np.diff(starts)) for name, (ids, starts) in found.items()}
        self._measure(np.max([counts for _, _, counts in self.sides.values()], axis=0), max_length, sizes)

    def get_batch(self, indices: np.ndarray) -> Batch:
        """{"tokens", and "pair" or "segments": int64 [N, T]}."""
        return {name: ids[self._at(indices, starts, counts)] for name, (ids, starts, counts) in self.sides.items()}


def pairs_of(dataset: Any) -> tuple[list[str], list[str]]:
    """First and second texts of a data set; DataError for one that has no pairs."""
    samples = [dataset[index] for index in range(len(dataset))]
    if not samples or "pair" not in samples[0]:
        raise DataError("this task needs pairs of texts: name the column of the second ones (pair=)")
    return [sample["text"] for sample in samples], [sample["pair"] for sample in samples]


def scores_of(dataset: Any) -> Array:
    """The labels of a data set as numbers, float64 [N]; DataFault for one that is no number."""
    labels = [int(dataset[index]["label"]) for index in range(len(dataset))]
    numbers = np.zeros(len(dataset.classes))
    for number, name in enumerate(dataset.classes):
        try:
            numbers[number] = float(name)
        except ValueError:
            if number not in labels:
                continue
            index, advice = labels.index(number), "correct it, or name the column (label=)"
            raise fault(dataset.path_of(index), f"score {name!r} is no number", advice, index=index) from None
    found: Array = numbers[labels]
    return found


def loader_of(
    tokens: ByLength, data: Data, *, training: bool, seed: int, transforms: Sequence[Transform] = ()
) -> DataLoader:
    """Batches of a data set, of texts of about one length; in training in a new order each
    epoch."""
    if training and data.sampler(tokens, seed=seed) is not None:
        raise ConfigError(
            "data.balanced: texts are batched by length, not drawn by class; use task.class_weights=balanced instead"
        )
    size = data.size(training=training)
    sampler = BucketBatchSampler(tokens.lengths_in, size, tokens.sizes, shuffle=training, seed=seed)
    return DataLoader(
        tokens, sampler=sampler, transforms=transforms, seed=seed, workers=data.workers, prefetch=data.prefetch
    )
