"""Batches of samples of about one length: little padding, and few shapes, because a program is compiled for each."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from pdl.data.randomness import SampleRandom
from pdl.data.sampler import BatchSampler, RandomSampler, SequentialSampler
from pdl.errors import UsageError

MOST = 512  # different lengths that `bucket_sizes` tells apart; of more, those at evenly spread ranks


class BucketBatchSampler(BatchSampler):
    """Batches of samples whose lengths are rounded up to the same size. All batches are full but the last one: what is
    left over of a size is padded to the next. So each size gives one shape of batch, and the largest a second one.

    lengths  int [N] of the samples; or what gives those of an epoch, where they change
    sizes    ascending, the last one no less than the longest sample; see `bucket_sizes`
    shuffle  a new order of samples and of batches each epoch, a function of (seed, epoch); otherwise from short to long
    sorted_epochs  the first epochs whose batches go from short to long all the same, their samples in a new order
             (SortaGrad; Amodei et al., Deep Speech 2, ICML 2016)
    """

    def __init__(
        self,
        lengths: Sequence[int] | np.ndarray | Callable[[int], np.ndarray],
        batch_size: int,
        sizes: Sequence[int] | np.ndarray,
        *,
        shuffle: bool = False,
        sorted_epochs: int = 0,
        seed: int = 0,
    ) -> None:
        self.lengths, self.sizes, self.shuffle, self.seed = lengths, np.asarray(sizes, np.int64), shuffle, seed
        self.sorted_epochs = sorted_epochs
        n = len(self._buckets(0))
        super().__init__(RandomSampler(n, seed=seed) if shuffle else SequentialSampler(n), batch_size)

    def _buckets(self, epoch: int) -> np.ndarray:
        """The number of each sample's size, int64 [N]."""
        lengths = np.asarray(self.lengths(epoch) if callable(self.lengths) else self.lengths, np.int64)
        if not len(self.sizes) or (np.diff(self.sizes) <= 0).any() or lengths.max(initial=0) > self.sizes[-1]:
            raise UsageError(
                f"BucketBatchSampler: sizes {self.sizes.tolist()} must ascend and reach the longest sample's "
                f"{lengths.max(initial=0)}"
            )
        return np.searchsorted(self.sizes, lengths)

    def batches(self, epoch: int) -> list[np.ndarray]:
        buckets, order = self._buckets(epoch), np.asarray(self.sampler.order(epoch))
        order = order[np.argsort(buckets[order], kind="stable")]
        made, over = list[np.ndarray](), order[:0]
        for bucket in np.split(order, np.flatnonzero(np.diff(buckets[order])) + 1):
            held = np.concatenate([over, bucket])
            full = len(held) // self.batch_size * self.batch_size
            made += list(held[:full].reshape(-1, self.batch_size))
            over = held[full:]
        made += [over] if len(over) else []
        if not self.shuffle or epoch < self.sorted_epochs:
            return made
        return [made[k] for k in SampleRandom(self.seed, epoch, 0).fork("batches").generator().permutation(len(made))]


def bucket_sizes(lengths: Sequence[int] | np.ndarray, *, padding: float = 0.08, most: int = 24) -> list[int]:
    """The fewest sizes, ascending, for which samples of these lengths, each rounded up to the next size, are at most
    this share of padding; `most` of them where that takes more. Of all choices of so many sizes it is the one with the
    least padding (dynamic programming over the lengths that occur)."""
    lengths = np.maximum(np.sort(np.asarray(lengths, np.int64)), 1)
    if not len(lengths):
        return [1]
    seen = np.unique(lengths)
    if len(seen) > MOST:
        seen = np.unique(lengths[np.arange(1, MOST + 1) * len(lengths) // MOST - 1])
    below = np.concatenate([[0], np.searchsorted(lengths, seen, side="right")])
    total = np.concatenate([[0], np.cumsum(lengths)])[below]
    # cost[i, j]: padding of the samples longer than seen[i - 1] (all of them for i = 0) and up to seen[j]
    cost = (seen * (below[1:] - below[:-1, None]) - (total[1:] - total[:-1, None])).astype(np.float64)
    cost[np.tril_indices(len(seen), -1)] = np.inf
    best, cuts = cost[0], list[np.ndarray]()
    while best[-1] > padding * (best[-1] + total[-1]) and len(cuts) + 1 < min(most, len(seen)):
        through = best[:-1, None] + cost[1:]
        cuts.append(through.argmin(axis=0))
        best = through.min(axis=0)
    ends = [len(seen) - 1]
    for cut in reversed(cuts):
        ends.append(int(cut[ends[-1]]))
    return [int(seen[end]) for end in reversed(ends)]
