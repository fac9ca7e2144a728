"""Samplers: in what order an epoch visits the samples. An order is a function of (seed, epoch), never of history."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from pdl.data.randomness import SampleRandom
from pdl.errors import ConfigError, UsageError


class Sampler:
    """Gives the order of an epoch: `order(epoch) -> int64 [len]`, the indices to visit."""

    def __len__(self) -> int:
        raise NotImplementedError(f"{type(self).__name__} must define __len__")

    def order(self, epoch: int) -> np.ndarray:
        """The indices of the epoch, int64 [len(self)]."""
        raise NotImplementedError(f"{type(self).__name__} must define order")

    def pieces(self, epoch: int, start: int = 0) -> Iterator[np.ndarray]:
        """The order of the epoch from position `start` on, in pieces; one that is made bit by bit overrides it."""
        yield np.asarray(self.order(epoch), np.int64)[start:]


class SequentialSampler(Sampler):
    """0, 1, ..., n-1 in every epoch."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    def order(self, epoch: int) -> np.ndarray:
        return np.arange(self.n)


class RandomSampler(Sampler):
    """A new permutation of 0..n-1 in every epoch."""

    def __init__(self, n: int, *, seed: int = 0) -> None:
        self.n, self.seed = n, seed

    def __len__(self) -> int:
        return self.n

    def order(self, epoch: int) -> np.ndarray:
        return _generator(self.seed, epoch).permutation(self.n)


class WeightedSampler(Sampler):
    """`num_samples` draws, index i with probability weights[i] / sum(weights); with or without replacement.

    An index drawn twice in an epoch gets the same augmentation both times: randomness hangs on (seed, epoch, index).
    """

    def __init__(self, weights: Sequence[float] | np.ndarray, *, num_samples: int | None = None,
                 replacement: bool = True, seed: int = 0) -> None:
        self.weights = np.asarray(weights, np.float64)
        self.num_samples = len(self.weights) if num_samples is None else num_samples
        self.replacement, self.seed = replacement, seed
        if self.weights.ndim != 1 or not np.isfinite(self.weights).all() or (self.weights < 0).any():
            raise UsageError("WeightedSampler: weights must be one finite, non-negative number a sample")
        positive = int((self.weights > 0).sum())
        if positive == 0:
            raise UsageError(f"WeightedSampler: all {len(self.weights)} weights are zero")
        if not replacement and self.num_samples > positive:
            raise UsageError(f"WeightedSampler: {self.num_samples} draws without replacement from {positive} samples "
                             "with a positive weight; lower num_samples or set replacement=True")

    @classmethod
    def balanced(cls, labels: np.ndarray, *, num_samples: int | None = None, seed: int = 0) -> WeightedSampler:
        """Weights that make every class equally likely: 1 / (samples of its class)."""
        counts = np.bincount(labels)
        return cls(1.0 / counts[labels], num_samples=num_samples, seed=seed)

    def __len__(self) -> int:
        return self.num_samples

    def order(self, epoch: int) -> np.ndarray:
        p = self.weights / self.weights.sum()
        return _generator(self.seed, epoch).choice(len(p), self.num_samples, replace=self.replacement, p=p)


def labels_of(dataset: Any, need: str) -> np.ndarray:
    """The class of every sample, int64 [N]; ConfigError for a data set that does not say it. `need`: who needs it."""
    labels = getattr(dataset, "labels", None)
    if labels is None or np.ndim(labels) != 1 or np.asarray(labels).dtype.kind not in "iu":
        raise ConfigError(
            f"{need} needs the class of every training sample, which {type(dataset).__name__} does not say (labels)"
        )
    return np.asarray(labels, np.int64)


class BatchSampler:
    """Decides whole batches, for data that must be grouped (lines of one width, sentences of one length).

    `batches(epoch) -> list of int64 arrays`. This one cuts a sampler's order into pieces of `batch_size`.
    """

    def __init__(self, sampler: Sampler, batch_size: int, *, drop_last: bool = False) -> None:
        if batch_size < 1:
            raise UsageError(f"BatchSampler: batch_size={batch_size} must be at least 1")
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last

    def __len__(self) -> int:
        n, size = len(self.sampler), self.batch_size
        return n // size if self.drop_last else -(-n // size)

    def batches(self, epoch: int) -> list[np.ndarray]:
        """The batches of the epoch, in order."""
        order = self.sampler.order(epoch)
        return [order[b * self.batch_size:(b + 1) * self.batch_size] for b in range(len(self))]


class ClassBatchSampler(BatchSampler):
    """Batches of `samples` different samples from each of `classes` classes, those of a class one after another, for
    losses that compare the samples of a batch. An epoch has as many batches as fit into the data; classes come equally
    often, whatever they hold: each in a new order, one after the other, and so do the samples of each.

    labels   int [N], the class of every sample
    classes  in a batch; each has at least `samples` samples
    """

    def __init__(self, labels: np.ndarray, *, classes: int, samples: int, seed: int = 0) -> None:
        labels = np.asarray(labels, np.int64)
        super().__init__(RandomSampler(len(labels), seed=seed), classes * samples, drop_last=True)
        self.rows = [np.flatnonzero(labels == label) for label in np.unique(labels)]
        self.classes, self.samples, self.seed = classes, samples, seed
        least = min(map(len, self.rows), default=0)
        if least < samples or len(self.rows) < classes:
            raise UsageError(
                f"ClassBatchSampler: batches of {samples} samples from each of {classes} classes, but there are "
                f"{len(self.rows)} classes, the smallest with {least} samples; ask for fewer, or leave it out"
            )

    def __len__(self) -> int:
        return max(1, super().__len__())

    def batches(self, epoch: int) -> list[np.ndarray]:
        rng = _generator(self.seed, epoch)
        turns = _turns(len(self.rows), self.classes, len(self), rng)
        counts = np.bincount(np.concatenate(turns), minlength=len(self.rows))
        found = [iter(_turns(len(r), self.samples, int(n), rng)) for r, n in zip(self.rows, counts, strict=True)]
        return [np.concatenate([self.rows[label][next(found[label])] for label in turn.tolist()]) for turn in turns]


def _turns(n: int, size: int, count: int, rng: np.random.Generator) -> list[np.ndarray]:
    """`count` draws of `size` different numbers below n: all of them in a new order, again and again. What is left over
    of an order is completed from the next one."""
    made, left = list[np.ndarray](), np.empty(0, np.int64)
    for _ in range(count):
        if len(left) < size:
            order = rng.permutation(n)
            again = np.isin(order, left)
            left = np.concatenate([left, order[~again], order[again]])
        made.append(left[:size])
        left = left[size:]
    return made


def _generator(seed: int, epoch: int) -> np.random.Generator:
    return SampleRandom(seed, epoch, 0).fork("sampler").generator()
