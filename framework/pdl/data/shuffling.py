"""An order over files of samples that can be read without reading all, and by several processes apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from pdl.data.randomness import SampleRandom
from pdl.data.sampler import Sampler
from pdl.errors import UsageError


class ShardSampler(Sampler):
    """A new order of all samples each epoch, a function of (seed, epoch): files are put into a new order, so are blocks
    of neighbours within each, and the samples of each window of what that gives.

    The whole is read in `lanes` parts of equal length, one sample of each in turn. So rank r of W, which takes every
    W-th sample, needs the files of every W-th lane alone, where W divides the lanes and the batch; and the order is the
    same for any number of ranks.

    sizes   int [F]: samples of each file, as they are numbered
    block   samples that stay together when a file is shuffled
    lanes   parts that are read side by side
    window  samples that are shuffled together, of all lanes; memory is bounded by them
    """

    def __init__(
        self,
        sizes: Sequence[int] | np.ndarray,
        *,
        block: int = 256,
        lanes: int = 16,
        window: int = 1 << 14,
        seed: int = 0,
    ) -> None:
        self.sizes = np.asarray(sizes, np.int64)
        if min(block, lanes, window) < 1:
            raise UsageError(f"ShardSampler: block={block}, lanes={lanes} and window={window} must be 1 or more")
        self.block, self.lanes, self.seed = block, lanes, seed
        self.window = -(-window // lanes)  # of each lane
        self.begins = np.concatenate([[0], np.cumsum(self.sizes)])
        self._held: dict[tuple[int, int], tuple[np.ndarray, np.ndarray]] = {}

    def __len__(self) -> int:
        return int(self.begins[-1])

    def order(self, epoch: int) -> np.ndarray:
        return np.concatenate([np.empty(0, np.int64), *self.pieces(epoch)])

    def pieces(self, epoch: int, start: int = 0) -> Iterator[np.ndarray]:
        """The order of the epoch from position `start` on, a window at a time."""
        files = self._random(epoch).fork("files").generator().permutation(len(self.sizes))
        ends = np.cumsum(self.sizes[files])
        least, more = divmod(len(self), self.lanes)
        lane = np.arange(self.lanes)
        first, length = lane * least + np.minimum(lane, more), least + (lane < more)
        step = self.window * self.lanes
        for number in range(start // step, -(-len(self) // step)):
            count = np.clip(length - number * self.window, 0, self.window)
            places = np.full((self.window, self.lanes), -1, np.int64)
            for each in range(self.lanes):
                rng = self._random(epoch, number * self.lanes + each).fork("window").generator()
                within = rng.permutation(int(count[each]))
                places[: count[each], each] = first[each] + number * self.window + within
            found = places.reshape(-1)
            found = self._samples(found[found >= 0], files, ends, epoch)
            yield found[max(0, start - number * step) :]

    def _samples(self, places: np.ndarray, files: np.ndarray, ends: np.ndarray, epoch: int) -> np.ndarray:
        """The samples at these places of the files in their order, the blocks of each in theirs."""
        slots = np.searchsorted(ends, places, side="right")
        grouped = np.argsort(slots, kind="stable")
        found = np.empty(len(places), np.int64)
        for mine in np.split(grouped, np.flatnonzero(np.diff(slots[grouped])) + 1):
            slot = int(slots[mine[0]])
            file = int(files[slot])
            blocks, begins = self._blocks(epoch, file)
            inside = places[mine] - (ends[slot] - self.sizes[file])
            which = np.searchsorted(begins, inside, side="right") - 1
            found[mine] = self.begins[file] + blocks[which] * self.block + inside - begins[which]
        return found

    def _blocks(self, epoch: int, file: int) -> tuple[np.ndarray, np.ndarray]:
        """The blocks of a file in their order, and where each begins in it."""
        if (epoch, file) not in self._held:
            while len(self._held) > 4 * self.lanes:
                self._held.pop(next(iter(self._held)), None)
            size = int(self.sizes[file])
            blocks = self._random(epoch, file).fork("blocks").generator().permutation(-(-size // self.block))
            lengths = np.minimum(self.block, size - blocks * self.block)
            self._held[epoch, file] = blocks, np.cumsum(lengths) - lengths
        return self._held[epoch, file]

    def _random(self, epoch: int, number: int = 0) -> SampleRandom:
        return SampleRandom(self.seed, epoch, number).fork("shards")
