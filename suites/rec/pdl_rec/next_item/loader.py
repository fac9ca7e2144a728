"""From sessions to batches: parallel sessions with a state that is carried on, whole sequences, or prefixes of them.

Everything is a function of (seed, epoch, position), so that a run can go on anywhere with the same batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np

from pdl.data import DataLoader
from pdl.data.dataset import Batch, Dataset, Sample
from pdl.data.negatives import Negatives
from pdl.data.randomness import SampleRandom
from pdl.data.sampler import BatchSampler, RandomSampler, SequentialSampler
from pdl.errors import ConfigError, UsageError
from pdl.train.recipe import Data
from pdl_rec.data.sessions import Sessions

Order = Literal["random", "time"]


# -- sessions side by side ---------------------------------------------------------------------------------------------
class SessionParallel:
    """Session-parallel batches (Hidasi et al., arXiv 1511.06939): each of `slots` places reads one session, an item a
    step, and takes the next session where its own has ended.

    A batch is {"items" int64 [slots], "targets" int64 [slots], "reset" bool [slots], "filled" float32 []}: the item
    that is read, the one after it, whether the session begins here, so that the state of the one before must be
    forgotten, and how large a part of the places has a target. Every pair of successive items is there once in an
    epoch. At its end, where there are no more sessions, places stay empty: items and targets 0.

    Of processes that `share` them each has every W-th place, and its sessions from their first item to their last; its
    batches are these places of the whole ones, whose numbers are "places" int64 [n].

    order  of the sessions in an epoch: "random", a new one each time, or "time", by when they begin
    """

    def __init__(self, sessions: Sessions, slots: int, *, order: Order = "random", seed: int = 0) -> None:
        if order == "time" and sessions.times is None:
            raise ConfigError("order=time: the data tells no times; name their column, or set task.order=random")
        self.sessions, self.slots, self.order, self.seed = sessions, slots, order, seed
        self.dataset = sessions
        self.rank, self.world = 0, 1
        self.epoch = self.position = self._resume = 0
        self._lengths: dict[int, int] = {}

    def __len__(self) -> int:
        """Batches in this epoch (with a random order a few more or less than in others)."""
        key = self.epoch if self.order == "random" else 0
        if key not in self._lengths:
            self._lengths = {key: sum(1 for _ in parallel(self.sessions.offsets, self._rows(), self.slots))}
        return self._lengths[key]

    def __iter__(self) -> Iterator[Batch]:
        start, self._resume = self._resume, 0
        items = np.append(self.sessions.items, 0)  # what stands at -1: nothing
        for step, (at, reset) in enumerate(parallel(self.sessions.offsets, self._rows(), self.slots)):
            if step >= start:
                self.position = step + 1
                yield self._batch(items[at], items[np.where(at < 0, -1, at + 1)], reset)
        self.epoch, self.position = self.epoch + 1, 0

    def _batch(self, items: np.ndarray, targets: np.ndarray, reset: np.ndarray) -> Batch:
        filled = np.array(np.count_nonzero(targets) / self.slots, np.float32)
        whole = {"items": items, "targets": targets, "reset": reset}
        if self.world == 1:
            return {**whole, "filled": filled}
        own = slice(self.rank, None, self.world)
        return {**{k: v[own] for k, v in whole.items()}, "filled": filled, "places": np.arange(self.slots)[own]}

    def share(self, rank: int, world: int) -> None:
        """From now on give every world-th place alone, from number `rank` on."""
        if world > self.slots:
            raise UsageError(
                f"task.batches=session_parallel: {self.slots} sessions side by side cannot be shared among {world} "
                f"processes; set data.batch_size={world} or more, or train with fewer processes"
            )
        self.rank, self.world = rank, world

    def _rows(self) -> np.ndarray:
        """The sessions in the order of this epoch; those of one item tell nothing."""
        rows = np.flatnonzero(self.sessions.lengths > 1)
        if self.order == "time":
            assert self.sessions.times is not None
            return rows[np.argsort(self.sessions.times[self.sessions.offsets[rows]], kind="stable")]
        return SampleRandom(self.seed, self.epoch, 0).fork("sessions").generator().permutation(rows)

    def set_epoch(self, epoch: int) -> None:
        """The epoch of the next loop; a position that was loaded for this same epoch stays."""
        if epoch != self.epoch:
            self.epoch, self.position, self._resume = epoch, 0, 0

    def state_dict(self) -> dict[str, int]:
        """Where it stands: the batch that the caller holds counts as done."""
        return {"epoch": self.epoch, "position": self.position, **self._same()}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Make the next loop go on behind the batch after which `state` was taken."""
        for name, mine in self._same().items():
            if state.get(name, mine) != mine:
                raise UsageError(
                    f"the saved position belongs to {name}={state[name]}, this loader has {name}={mine}; resume with "
                    "the data and settings of the first run, or start a new run"
                )
        self.epoch = int(state["epoch"])
        self.position = self._resume = int(state["position"])

    def _same(self) -> dict[str, int]:
        return {"seed": self.seed, "slots": self.slots, "events": len(self.sessions.items)}


def parallel(offsets: np.ndarray, rows: np.ndarray, slots: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(event that each slot reads, or -1: int64 [slots]; whether its session begins there: bool [slots]) of each step.

    Sessions `rows`, in this order and of at least two events each, go to the slots that are free, the first slot first.
    """
    lengths = offsets[1:] - offsets[:-1]
    at, left = np.full(slots, -1, np.int64), np.zeros(slots, np.int64)
    taken = 0
    while True:
        reset = np.zeros(slots, bool)
        free = np.flatnonzero(left == 0)
        if len(free) and taken < len(rows):
            new = rows[taken : taken + len(free)]
            taken += len(new)
            filled = free[: len(new)]
            at[filled], left[filled], reset[filled] = offsets[new], lengths[new] - 1, True
        reading = left > 0
        if not reading.any():
            return
        yield np.where(reading, at, -1), reset
        at, left = at + 1, np.maximum(left - 1, 0)


# -- prefixes and sequences --------------------------------------------------------------------------------------------
class Padded(Dataset):
    """Base of data sets of stretches of sessions, whose batches are as long as their longest, rounded up.

    lengths  int64 [len], items of each sample, at most `longest`
    sizes    ascending lengths that batches may have; None: any
    """

    def __init__(
        self, sessions: Sessions, starts: np.ndarray, lengths: np.ndarray, sizes: Sequence[int] | None
    ) -> None:
        self.sessions, self.starts, self.lengths = sessions, starts, lengths
        self.sizes = None if sizes is None else np.asarray(sizes)

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: int) -> Sample:
        batch = self.get_batch(np.array([index]))
        return {name: values[0] for name, values in batch.items()}

    def get_batch(self, indices: np.ndarray) -> Batch:
        raise NotImplementedError

    def path_of(self, index: int) -> str | None:
        return None

    def size_of(self, lengths: np.ndarray) -> np.ndarray:
        """The length that a batch has for samples of these lengths."""
        return lengths if self.sizes is None else self.sizes[np.searchsorted(self.sizes, lengths)]

    def places(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Events int64 [N, T] of samples, bool [N, T] where they are real, bool [N] which samples are: an index of -1
        stands for a row that only fills a batch up; it repeats the first sample."""
        real = indices >= 0
        rows = np.where(real, indices, indices[0])
        lengths = self.lengths[rows]
        steps = np.arange(int(self.size_of(lengths.max(keepdims=True))[0]))
        inside = steps < lengths[:, None]
        return np.where(inside, self.starts[rows][:, None] + steps, 0), inside, real


class Prefixes(Padded):
    """Sample i is {"items": the items before target i, the newest `max_length` of them, "target": it}.

    unknown  whether targets that are no item of the vocabulary (0) are among the samples
    """

    def __init__(
        self, sessions: Sessions, max_length: int, *, sizes: Sequence[int] | None = None, unknown: bool = True
    ) -> None:
        self.rows, self.events = sessions.targets()
        if not unknown:
            known = sessions.items[self.events] > 0
            self.rows, self.events = self.rows[known], self.events[known]
        starts = np.maximum(sessions.offsets[self.rows], self.events - max_length)
        super().__init__(sessions, starts, self.events - starts, sizes)

    def get_batch(self, indices: np.ndarray) -> Batch:
        """{"items" int64 [N, T], zeros behind the end, "target" int64 [N]}."""
        events, inside, real = self.places(indices)
        target = self.sessions.items[self.events[np.where(real, indices, 0)]]
        return {"items": np.where(inside, self.sessions.items[events], 0), "target": np.where(real, target, 0)}


class Stretches(Padded):
    """Sample i is {"items", "targets"}: a stretch of a session, and the items that come next after each of its items.

    Sessions of more than `max_length` + 1 items are cut into several stretches, the newest of full length.
    """

    def __init__(self, sessions: Sessions, max_length: int, *, sizes: Sequence[int] | None = None) -> None:
        ends, lengths = [sessions.offsets[1:] - 1], [sessions.lengths - 1]
        while (more := lengths[-1] > max_length).any():
            ends.append(ends[-1][more] - max_length)
            lengths.append(lengths[-1][more] - max_length)
        end, length = np.concatenate(ends), np.minimum(np.concatenate(lengths), max_length)
        kept = length > 0
        super().__init__(sessions, (end - length)[kept], length[kept], sizes)

    def get_batch(self, indices: np.ndarray) -> Batch:
        """{"items" int64 [N, T], "targets" int64 [N, T]}, zeros behind the end."""
        events, inside, real = self.places(indices)
        items, targets = self.sessions.items[events], self.sessions.items[np.where(inside, events + 1, 0)]
        return {"items": np.where(inside, items, 0), "targets": np.where(inside & real[:, None], targets, 0)}


class ByLength(BatchSampler):
    """Batches of samples of about one length, so that few shapes occur.

    With `shuffle` a new order each epoch; the last batch of a length is filled up with -1 to the full size. Otherwise
    from short to long, as they are.
    """

    def __init__(self, dataset: Padded, batch_size: int, *, shuffle: bool, seed: int = 0) -> None:
        sampler = RandomSampler(len(dataset), seed=seed) if shuffle else SequentialSampler(len(dataset))
        super().__init__(sampler, batch_size)
        self.shuffle, self.seed = shuffle, seed
        self.sizes = dataset.size_of(dataset.lengths)

    def __len__(self) -> int:
        if not self.shuffle:
            return -(-len(self.sizes) // self.batch_size)
        return int(sum(-(-np.unique(self.sizes, return_counts=True)[1] // self.batch_size)))

    def batches(self, epoch: int) -> list[np.ndarray]:
        order = np.asarray(self.sampler.order(epoch))
        order = order[np.argsort(self.sizes[order], kind="stable")]
        if not self.shuffle:
            return [order[b : b + self.batch_size] for b in range(0, len(order), self.batch_size)]
        made = []
        for group in np.split(order, np.flatnonzero(np.diff(self.sizes[order])) + 1):
            filled = np.append(group, np.full(-len(group) % self.batch_size, -1))
            made += list(filled.reshape(-1, self.batch_size))
        shuffled = SampleRandom(self.seed, epoch, 0).fork("batches").generator().permutation(len(made))
        return [made[k] for k in shuffled]


def sizes_up_to(longest: int) -> list[int]:
    """Few lengths for batches: 2, 4, 8, ... up to `longest`; at most seven, the steps wider where it is long."""
    sizes = [longest]
    while sizes[-1] > 2 and len(sizes) < 7:
        sizes.append(-(-sizes[-1] // 2))
    return sizes[::-1]


# -- negatives ---------------------------------------------------------------------------------------------------------
class WithNegatives:
    """Batches of another loader, each with "negatives" int64 [count] for all of it."""

    def __init__(self, loader: Any, draws: Negatives, count: int) -> None:
        self.loader, self.draws, self.count, self.dataset = loader, draws, count, loader.dataset

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[Batch]:
        epoch = self.loader.epoch
        for batch in self.loader:
            negatives = self.draws.shared(self.count, epoch=epoch, step=self.loader.position)
            yield {**batch, "negatives": negatives}

    def set_epoch(self, epoch: int) -> None:
        self.loader.set_epoch(epoch)

    def share(self, rank: int, world: int) -> None:
        """As that of a `DataLoader`; the negatives are those of the whole batch."""
        self.loader.share(rank, world)

    def state_dict(self) -> dict[str, int]:
        return dict(self.loader.state_dict())

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.loader.load_state_dict(state)


def loader_of(dataset: Padded, data: Data, *, training: bool, seed: int) -> DataLoader:
    """A `DataLoader` over prefixes or stretches, batched by length."""
    sampler = ByLength(dataset, data.size(training=training), shuffle=training, seed=seed)
    return DataLoader(dataset, sampler=sampler, seed=seed, workers=data.workers, prefetch=data.prefetch)
