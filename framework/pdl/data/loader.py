"""The loader: from a data set to batches, in a fixed order, with threads that prepare them ahead of time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import Any, Literal, NamedTuple

import numpy as np

from pdl.data.collating import collate as default_collate
from pdl.data.dataset import Batch, IterableDataset, Sample, TupleDataset, as_dataset
from pdl.data.faults import DataFault, Fault
from pdl.data.pipeline import Pipeline, Transform, annotated, one_opencv_thread
from pdl.data.randomness import BatchRandom, SampleRandom
from pdl.data.reading import Partners, Reader
from pdl.data.sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler
from pdl.errors import ConfigError, UsageError

MAX_FAULTS_KEPT = 1000
KEPT = 512
"""MiB of decoded samples that a loader keeps by default where transforms join several."""


class _Job(NamedTuple):
    """One batch to build: which samples (read already, for a stream), and the global positions it spans."""

    epoch: int
    indices: np.ndarray
    samples: list[Sample] | None
    start: int
    end: int


class _Built(NamedTuple):
    batch: Batch | None
    faults: list[Fault]
    end: int


class DataLoader:
    """Iterate over batches (dicts of NumPy arrays) of a data set, one epoch per `for` loop. Where samples are tuples
    (x, y), so are batches.

    Every batch is a function of (seed, epoch, position) alone: the number of workers changes nothing.

    dataset     a `Dataset` or `IterableDataset`, or anything with `__len__` and `__getitem__`; if it has `get_batch`
                and all transforms offer `batch`, whole batches are read and transformed at once
    batch_size  samples in a batch (of all ranks together, see `share`); left out when `sampler` is a BatchSampler
    shuffle     a new order each epoch, the data set's own (`shuffled(seed)`) where it has one; or give a `sampler`
    transforms  one transform or a list; MixUp and CutMix last
    workers     threads that build batches (0: the caller builds them); OpenCV and NumPy release the GIL
    prefetch    batches that each worker may be ahead
    on_error    "error": a sample that cannot be read raises DataError with path and index;
                "skip": it is left out of its batch, counted in `skipped` and kept in `faults` (not for streams)
    cache       MiB of samples that stay decoded in memory, the first that are read; None: 512 where transforms join
                several samples (Mosaic), which read each several times an epoch, otherwise 0

    `position` counts samples of the global order that were delivered in this epoch (by all ranks together), including
    the batch the caller holds. A finished loop goes on to the next epoch; a loop that was left early starts again.
    """

    def __init__(self, dataset: Any, *, batch_size: int | None = None, shuffle: bool = False,
                 sampler: Sampler | BatchSampler | None = None,
                 transforms: Transform | Sequence[Transform] | None = None, seed: int = 0, workers: int = 0,
                 prefetch: int = 2, drop_last: bool = False, on_error: Literal["error", "skip"] = "error",
                 collate: Callable[[Sequence[Sample]], Batch] | None = None, cache: int | None = None) -> None:
        self.dataset = dataset = as_dataset(dataset)
        self.seed, self.shuffle, self.drop_last = seed, shuffle, drop_last
        self.batch_size, self.workers, self.prefetch, self.on_error = batch_size, workers, prefetch, on_error
        self.rank, self.world = 0, 1
        self.pipeline, self.cache = Pipeline(transforms), cache
        self._check(sampler)
        own = getattr(dataset, "shuffled", None)
        self.sampler = sampler if sampler is not None or isinstance(dataset, IterableDataset) else (
            SequentialSampler(len(dataset)) if not shuffle else
            RandomSampler(len(dataset), seed=seed) if own is None else own(seed))
        joins = self.pipeline.joins
        self.reader = Reader(dataset, (KEPT if joins else 0) * 2**20 if cache is None else cache * 2**20)
        self.partners = Partners(self.reader, self._length(), skip=on_error == "skip") if joins else None
        self.collate = collate or default_collate
        self._stack = collate is None
        self.epoch = 0
        self.position = 0
        self.skipped = 0
        self.faults: dict[int, Fault] = {}
        self._resume = 0

    def _check(self, sampler: Sampler | BatchSampler | None) -> None:
        grouped = isinstance(sampler, BatchSampler)
        stream = isinstance(self.dataset, IterableDataset)
        problems = [text for wrong, text in [
            (grouped and self.batch_size is not None, "batch_size is set by the BatchSampler; leave it out"),
            (not grouped and self.batch_size is None, "batch_size is missing"),
            (self.batch_size is not None and self.batch_size < 1, f"batch_size={self.batch_size} must be at least 1"),
            (self.workers < 0, f"workers={self.workers} must be 0 or more"),
            (self.prefetch < 1, f"prefetch={self.prefetch} must be at least 1"),
            (self.on_error not in ("error", "skip"), f"on_error={self.on_error!r} must be 'error' or 'skip'"),
            (self.shuffle and sampler is not None, "shuffle and sampler both decide the order; give one of them"),
            (stream and (self.shuffle or sampler is not None), "a stream (IterableDataset) has its own order; "
                                                               "leave out shuffle and sampler"),
            (stream and self.on_error == "skip", "a stream (IterableDataset) that fails has ended; on_error='skip' "
                                                 "cannot leave out one of its samples"),
            (stream and self.pipeline.joins, "a stream (IterableDataset) has no samples by index that its transforms "
                                             "could join (Mosaic, MixUpDetection, CopyPaste)"),
            (self.cache is not None and self.cache < 0, f"cache={self.cache} must be 0 MiB or more"),
        ] if wrong]
        if problems:
            raise ConfigError([f"DataLoader: {text}" for text in problems])

    def __len__(self) -> int:
        """Batches in a whole epoch; a stream has no length."""
        if isinstance(self.sampler, BatchSampler):
            return len(self.sampler)
        if self.sampler is None:
            raise TypeError("a DataLoader over an IterableDataset has no len(); iterate it instead")
        size = self.batch_size or 1
        return len(self.sampler) // size if self.drop_last else -(-len(self.sampler) // size)

    def __iter__(self) -> Iterator[Any]:
        if isinstance(self.dataset, TupleDataset):
            names = self.dataset.names
            return (tuple(batch[name] for name in names) for batch in self._batches())
        return self._batches()

    def _batches(self) -> Iterator[Batch]:
        start, self._resume = self._resume, 0
        self.position, self.skipped = start, 0
        self.reader.set_epoch(self.epoch)
        with one_opencv_thread():
            for built in self._built(self._jobs(start)):
                self.position = built.end
                self.skipped += len(built.faults)
                for fault in built.faults:
                    if len(self.faults) < MAX_FAULTS_KEPT and fault.index is not None:
                        self.faults[fault.index] = fault
                if built.batch is not None:
                    yield built.batch
        self.epoch, self.position = self.epoch + 1, 0

    def set_epoch(self, epoch: int) -> None:
        """The epoch of the next loop; a position that was loaded for this same epoch stays."""
        if epoch != self.epoch:
            self.epoch, self.position, self._resume = epoch, 0, 0

    def share(self, rank: int, world: int) -> None:
        """From now on give a part of each batch alone: every world-th of its samples, from number `rank` on. A rank
        that a small batch has no sample for does without it."""
        if not 0 <= rank < world:
            raise UsageError(f"DataLoader: rank={rank} must lie in 0..{world - 1} (world={world})")
        self.rank, self.world = rank, world

    def state_dict(self) -> dict[str, int]:
        """The position, as plain numbers: the batch that was yielded last counts as done."""
        return {"epoch": self.epoch, "position": self.position, "seed": self.seed, "samples": self._length()}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Make the next loop continue after the batch at which `state` was taken, with identical batches."""
        for name, mine in (("seed", self.seed), ("samples", self._length())):
            if state.get(name, mine) != mine:
                raise UsageError(f"DataLoader: the saved position belongs to {name}={state[name]}, this loader has "
                                 f"{name}={mine}; resume with the data and seed of the first run, or start a new run")
        self.epoch = int(state["epoch"])
        self.position = self._resume = int(state["position"])

    def _length(self) -> int:
        """Samples of the data set; -1 of a stream."""
        return -1 if isinstance(self.dataset, IterableDataset) else len(self.dataset)

    def _jobs(self, start: int) -> Iterator[_Job]:
        """The batches of this epoch from global position `start` on."""
        if isinstance(self.dataset, IterableDataset):
            yield from self._stream_jobs(self.dataset, start)
            return
        for begin, indices in self._plan(start):
            yield _Job(self.epoch, indices[self.rank::self.world], None, begin, begin + len(indices))

    def _plan(self, start: int) -> Iterator[tuple[int, np.ndarray]]:
        """(global position, global batch) from `start` on."""
        if isinstance(self.sampler, Sampler):
            held, size = np.empty(0, np.int64), self.batch_size or 1
            for piece in self.sampler.pieces(self.epoch, start):
                held = np.concatenate([held, piece])
                for begin in range(0, len(held) - size + 1, size):
                    yield start + begin, held[begin:begin + size]
                whole = len(held) // size * size
                start, held = start + whole, held[whole:]
            if len(held) and not self.drop_last:
                yield start, held
        elif isinstance(self.sampler, BatchSampler):
            begin = 0
            for indices in self.sampler.batches(self.epoch):
                end = begin + len(indices)
                if begin < start < end:
                    raise UsageError(f"DataLoader: position {start} lies inside the batch at {begin}..{end}; "
                                     "resume with the batch sampler of the first run")
                if begin >= start:
                    yield begin, np.asarray(indices, np.int64)
                begin = end

    def _stream_jobs(self, stream: IterableDataset, start: int) -> Iterator[_Job]:
        samples = islice(iter(stream), start, None)
        size = self.batch_size or 1
        while piece := list(islice(samples, size)):
            if len(piece) < size and self.drop_last:
                return
            end = start + len(piece)
            indices = np.arange(start, end)[self.rank::self.world]
            yield _Job(self.epoch, indices, piece[self.rank::self.world], start, end)
            start = end

    def _built(self, jobs: Iterator[_Job]) -> Iterator[_Built]:
        """The finished batches in order; at most workers * prefetch are under way or waiting."""
        if self.workers == 0:
            yield from map(self._build, jobs)
            return
        pool = ThreadPoolExecutor(self.workers, thread_name_prefix="pdl-data")
        pending: deque[Future[_Built]] = deque()
        try:
            for job in jobs:
                pending.append(pool.submit(self._build, job))
                if len(pending) >= self.workers * self.prefetch:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:  # also when the caller leaves the loop early, or an exception passes
            pool.shutdown(wait=True, cancel_futures=True)

    def samples(self, indices: Sequence[int] | np.ndarray, epoch: int) -> Batch:
        """The samples of these indices as the loader gives them in this epoch, as one batch, but for transforms of
        whole batches (MixUp, CutMix). What on_error="skip" leaves out is not in it; its position does not change."""
        if isinstance(self.dataset, IterableDataset):
            raise UsageError("DataLoader: a stream has no sample by index")
        self.reader.set_epoch(epoch)
        faults: list[Fault] = []
        with one_opencv_thread():
            batch = self._transformed(_Job(epoch, np.asarray(indices, np.int64), None, 0, 0), faults)
        if batch is None:
            raise DataFault(faults[0]) if faults else UsageError("DataLoader: no indices are given")
        return batch

    def stages(self, index: int, epoch: int) -> list[Sample]:
        """Sample `index` as it is read, and as each transform of single samples (`pipeline.steps`) leaves it in this
        epoch."""
        self.reader.set_epoch(epoch)
        sample = self.reader(index)
        if self.partners is not None:
            sample["partners"] = self.partners
        with one_opencv_thread():
            return [sample, *self.pipeline.stages(sample, BatchRandom(self.seed, epoch, [index])[0])]

    def _build(self, job: _Job) -> _Built:
        faults: list[Fault] = []
        batch = self._transformed(job, faults)
        if batch is not None:
            batch = self.pipeline.mix(batch, SampleRandom(self.seed, job.epoch, job.start).fork("batch"))
        return _Built(batch, faults, job.end)

    def _transformed(self, job: _Job, faults: list[Fault]) -> Batch | None:
        """The samples of a job, read and transformed; None if none of them can be read."""
        get_batch = getattr(self.dataset, "get_batch", None)
        if get_batch is not None and self.pipeline.stacked and self._stack and len(job.indices):
            whole = self._read_whole(get_batch, job.indices, faults)
            if whole is None:
                return None
            if not annotated(whole):
                return self.pipeline.run_stacked(whole, BatchRandom(self.seed, job.epoch, whole["index"]))
            samples = [{name: values[i] for name, values in whole.items()} for i in range(len(whole["index"]))]
        else:
            samples = self._read(job, faults)
        if not samples:
            return None
        rngs = BatchRandom(self.seed, job.epoch, [s["index"] for s in samples])
        if self.partners is not None:
            samples = [{**sample, "partners": self.partners} for sample in samples]
        done = self.pipeline.run(samples, rngs, stack=self._stack)
        if self.partners is not None:
            for each in done if isinstance(done, list) else [done]:
                del each["partners"]
        return self.collate(done) if isinstance(done, list) else done

    def _read_whole(self, get_batch: Callable[[Any], Batch], indices: np.ndarray, faults: list[Fault]) -> Batch | None:
        """A batch read at once, None if nothing is left of it. If that fails, its samples are read one by one."""
        try:
            return {**self.reader.guard(get_batch, indices), "index": indices}
        except DataFault as error:
            together = error
        good = [index for index in indices.tolist() if self._fine(get_batch, index, faults)]
        if len(good) == len(indices):
            raise together
        return self._read_whole(get_batch, np.array(good, np.int64), faults) if good else None

    def _fine(self, get_batch: Callable[[Any], Batch], index: int, faults: list[Fault]) -> bool:
        """Whether a sample can be read alone; its fault is kept, or raised where none is left out."""
        try:
            self.reader.guard(get_batch, np.array([index]))
        except DataFault as error:
            if self.on_error == "error":
                raise
            faults.append(error.fault)
            return False
        return True

    def _read(self, job: _Job, faults: list[Fault]) -> list[Sample]:
        if job.samples is not None:
            return [{**s, "index": int(i)} for s, i in zip(job.samples, job.indices, strict=True)]
        samples: list[Sample] = []
        for index in job.indices.tolist():
            try:
                samples.append(self.reader(index))
            except DataFault as error:
                if self.on_error == "error":
                    raise
                faults.append(error.fault)
        return samples
