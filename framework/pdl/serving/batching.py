"""Dynamic batching: requests that wait for the same model go through it together.

A batcher has a queue of bounded length and threads that run batches. Nobody waits for a batch to fill up unless `delay`
says so: while one batch runs the next gathers, so a lone request runs at once and batches grow with the load. What a
batch costs is measured, and decides its size. A request waits at most for the batch under way and then runs in the
next, so two runs must fit the latency budget: a run takes half of it at most, if one row does. And all rows of a batch
wait for the last one, so a larger batch is made only where its rows cost clearly less; a net that is busy with
arithmetic at one row, as convolutions often are, goes one by one.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from time import monotonic, perf_counter, thread_time
from typing import Any, TypeAlias

import numpy as np

from pdl.dtype import Array
from pdl.errors import UsageError
from pdl.serving.errors import Refused, full, late

#: outputs by name for inputs by name, within so many seconds (None: as long as it takes)
Run: TypeAlias = "Callable[[Mapping[str, Array], float | None], Mapping[str, Array]]"
SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
"""Rows of a batch: few sizes, because each has a plan of its own (`pdl.runtime.plan`)."""
INLINE = 3e-4  # seconds of a run, up to which an event loop makes it itself: handing it to a thread would cost more
LONE = 2e-3  # the same where nothing else has been asked
GAIN = 0.9  # of the time of a row in a smaller batch: what one in a larger batch may take at most
STRETCH = 2.0  # times that a batch may take of a row that is too slow itself: one by one, others would wait longer
FORGET = 0.995  # of the time of the next larger size, at each batch beside which others wait: it is tried some time
ROUNDS = 4  # of runs that measure
GROWTH = 1.25  # that a measured time grows by a longer run, at most: the system may have held that one up


@dataclass(frozen=True)
class Batching:
    """How requests are gathered.

    most     rows of a batch
    budget   seconds that a request may take, waiting and running, when the server is not overloaded
    delay    seconds that a request may wait for others when nothing runs
    waiting  requests that may wait; more are refused (429)
    """

    most: int = 32
    budget: float = 0.02
    delay: float = 0.0
    waiting: int = 256

    def __post_init__(self) -> None:
        if not (1 <= self.most <= SIZES[-1] and self.waiting >= 1):
            raise UsageError(
                f"batches of {self.most} rows and {self.waiting} waiting: 1 to {SIZES[-1]} rows, 1 request"
            )
        if not (0 < self.budget <= 60 and 0 <= self.delay <= self.budget):
            raise UsageError(
                f"budget={self.budget:g} s, delay={self.delay:g} s: a delay is within the budget, up to 60"
            )


class Job:
    """Arrays of one request, [rows, ...] each, and what becomes of them: `outputs`, or `error`.

    deadline   of `time.monotonic`
    woken      called once when there is an answer, by the batcher's thread, with all jobs that have one and the same
               `woken`
    """

    __slots__ = ("arrays", "began", "deadline", "done", "error", "outputs", "ran", "rows", "seconds", "waited", "woken")

    def __init__(
        self,
        arrays: Mapping[str, Array],
        rows: int,
        woken: Callable[[list[Job]], None],
        seconds: float | None = None,
    ) -> None:
        self.arrays, self.rows, self.woken, self.seconds = arrays, rows, woken, seconds
        self.began = monotonic()
        self.deadline = None if seconds is None else self.began + seconds
        self.done = False  # answered, given up by who asked, or refused
        self.outputs: Mapping[str, Array] | None = None
        self.error: BaseException | None = None
        self.waited = self.ran = 0.0

    @property
    def key(self) -> tuple[Any, ...]:
        """What jobs of a batch have in common."""
        return tuple([getattr(x, "shape", ())[1:] for x in self.arrays.values()])

    def cancel(self) -> None:
        """Nobody waits for it any more: it does not run, unless it runs already."""
        self.done = True


class Closed(Exception):
    """The batcher takes no more jobs: another version of its model is in its place."""


class Batcher:
    """Runs jobs of one model.

    joins    whether rows of several jobs may go through the model together
    threads  batches that run at the same time
    seen     called with (rows, jobs, seconds) of each batch
    """

    def __init__(
        self,
        name: str,
        run: Run,
        policy: Batching,
        *,
        joins: bool = True,
        threads: int = 1,
        seen: Callable[[int, int, float], None] | None = None,
    ) -> None:
        self.name, self.policy, self._call, self._seen = name, policy, run, seen
        self.sizes = [size for size in SIZES if size <= policy.most] if joins else [1]
        self.joins = joins
        self._queue: deque[Job] = deque()
        self._ready = threading.Condition(threading.Lock())
        self._closed = False
        self._running = 0
        self._flushing = False
        self._costs: dict[int, float] = {}  # rows -> seconds of a run, lately, of the processor: others do not count
        self._threads = [
            threading.Thread(target=self._work, name=f"pdl-serve-{name}-{i}", daemon=True) for i in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def quick(self, rows: int, bound: float = INLINE) -> bool:
        """Whether a run of so many rows is so short that an event loop does better to make it itself, by `submit` with
        `later` or by `run_now`, than to wait for a thread."""
        if not self.joins or self.policy.delay:
            return False
        size = self.sizes[min(bisect_left(self.sizes, rows), len(self.sizes) - 1)]
        return self._costs.get(size, 1.0) * max(rows, size) / size <= bound

    def run_now(self, job: Job) -> bool:
        """Run a job in the calling thread, unless others wait or run: then it is to be submitted. Closed as `submit`
        has it."""
        with self._ready:
            if self._closed:
                raise Closed
            if self._queue or self._running:
                return False
        self._run([job])
        return True

    def submit(self, job: Job, later: Callable[[Callable[[], None]], Any] | None = None) -> None:
        """Put a job into the queue. Refused where there is no room, Closed where it takes none.

        later   `call_soon` of the loop whose thread this is: it runs what has gathered until then, and no thread does
        """
        with self._ready:
            if self._closed:
                raise Closed
            if len(self._queue) >= self.policy.waiting:
                self._queue = deque([each for each in self._queue if not each.done])  # nobody waits for the others
            if len(self._queue) >= self.policy.waiting:
                raise full(self.name, self.policy.waiting)
            self._queue.append(job)
            if later is None:
                if self._running < len(self._threads):
                    self._ready.notify()
                return
            flushing, self._flushing = self._flushing, True
        if not flushing:
            later(partial(self._flush, later))

    def _flush(self, later: Callable[[Callable[[], None]], Any]) -> None:
        """Run a batch in the thread of the loop, and the next one when it has looked at everything else."""
        with self._ready:
            jobs, gone = self._take()
            self._flushing = bool(self._queue)
        if self._flushing:
            later(partial(self._flush, later))
        if gone:
            _tell(gone)
        if jobs:
            self._run(jobs)

    def ask(self, arrays: Mapping[str, Array], rows: int, seconds: float | None = None) -> Mapping[str, Array]:
        """The outputs, in the thread of the caller, which waits."""
        job = _Blocking(arrays, rows, _wake, seconds)
        job.answered = threading.Event()
        self.submit(job)
        if not job.answered.wait(None if seconds is None else seconds + 1.0):
            job.cancel()
            raise late(seconds or 0.0)
        if job.error is not None:
            raise job.error
        assert job.outputs is not None
        return job.outputs

    def measure(self, arrays: Mapping[str, Array]) -> None:
        """Run batches of all sizes, to know how long they take; the first run of each makes its plan. Sizes take turns,
        so that what else the machine does meets all alike; those that are too slow for a batch have two.

        arrays   rows for the largest
        """
        costs: dict[int, float] = {}
        for turn in range(1 + ROUNDS):
            for size in self.sizes:
                if turn > 1 and costs[size] > 2 * max(self.policy.budget, STRETCH * costs[1]):
                    break
                rows = {name: x[:size] for name, x in arrays.items()}
                began = thread_time()
                self._call(rows, None)
                took = thread_time() - began
                costs[size] = min(took, costs.get(size, took))
        self._costs = costs

    @property
    def waiting(self) -> int:
        """Jobs in the queue."""
        return len(self._queue)

    def close(self, seconds: float | None = None) -> bool:
        """Take no more jobs, and answer those that wait; whether all are answered within so many seconds."""
        with self._ready:
            self._closed = True
            self._ready.notify_all()
        end = None if seconds is None else monotonic() + seconds
        for thread in self._threads:
            thread.join(None if end is None else max(0.0, end - monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    # -- the thread ----------------------------------------------------------------------------------------------------
    def _work(self) -> None:
        while True:
            with self._ready:
                while not self._queue:
                    if self._closed:
                        return
                    self._ready.wait()
                self._running += 1
                self._gather()
                jobs, gone = self._take()
            try:
                if gone:
                    _tell(gone)
                if jobs:
                    self._run(jobs)
            finally:
                with self._ready:
                    self._running -= 1
            del jobs, gone  # arrays of a request do not wait for the next one

    def _gather(self) -> None:
        """Wait for more rows than there are, as long as `delay` allows."""
        delay = self.policy.delay
        while delay and self._queue and len(self._queue) < self._fit(self.sizes[-1]) and not self._closed:
            left = self._queue[0].began + delay - monotonic()
            if left <= 0:
                return
            self._running -= 1  # so that who comes wakes this thread
            self._ready.wait(left)
            self._running += 1

    def _take(self) -> tuple[list[Job], list[Job]]:
        """The jobs of the next batch, and those that are too late."""
        now, most = monotonic(), self._fit(self.sizes[-1])
        jobs: list[Job] = []
        gone: list[Job] = []
        left: list[Job] = []
        key: tuple[Any, ...] = ()
        rows, queue = 0, self._queue
        while queue and rows < most:
            job = queue.popleft()
            if job.done:
                continue
            if job.deadline is not None and job.deadline <= now:
                job.error = late(job.seconds or 0.0)
                gone.append(job)
            elif not jobs or (self.joins and rows + job.rows <= most and job.key == (key := key or jobs[0].key)):
                jobs.append(job)
                rows += job.rows
            else:
                left.append(job)
                if len(left) > most:
                    break
        if rows < most and len(jobs) > 1:
            fit = self._fit(rows)
            while rows > fit and len(jobs) > 1:  # the newest wait, in their order
                job = jobs.pop()
                rows -= job.rows
                left.insert(0, job)
        left.sort(key=_age)
        queue.extendleft(reversed(left))
        if queue and jobs:
            self._forget(rows)
        return jobs, gone

    def _fit(self, rows: int) -> int:
        """Rows of the next batch where so many wait: a size that takes at most half of the budget, or where that is
        out of reach, `STRETCH` times as long as one row, and whose rows cost clearly less than those of all smaller
        ones. One that was not run yet is tried."""
        costs = self._costs
        found, least = 1, costs.get(1, 0.0)
        half = self.policy.budget / 2
        longest = half if least <= half else STRETCH * least
        for size in self.sizes:
            if size > rows:
                break
            cost = costs.get(size, least * GAIN * size)
            if cost > longest:
                break
            if cost <= least * GAIN * size:
                found, least = size, cost / size if size in costs else least
        return found

    def _forget(self, rows: int) -> None:
        """Others wait beside so many rows: the next larger size comes nearer to being tried."""
        at = bisect_right(self.sizes, rows)
        if at < len(self.sizes) and self.sizes[at] in self._costs:
            self._costs[self.sizes[at]] *= FORGET

    def _run(self, jobs: list[Job]) -> None:
        began, used, now = perf_counter(), thread_time(), monotonic()
        for job in jobs:
            job.waited = now - job.began
        try:
            outputs = self._call(_joined(jobs), _seconds(jobs, now))
        except Exception as error:
            if len(jobs) > 1 and not isinstance(error, Refused):
                for job in jobs:  # one of them is to blame
                    if not job.done:
                        self._run([job])
                return
            for job in jobs:
                job.error = error
            _tell(jobs)
            return
        took, used = perf_counter() - began, thread_time() - used
        rows = 0
        for job in jobs:
            job.ran = took
            if len(jobs) == 1:
                job.outputs, rows = outputs, job.rows
            else:
                job.outputs = {name: y[rows : rows + job.rows] for name, y in outputs.items()}
                rows += job.rows
        _tell(jobs)
        before = self._costs.get(rows)
        if rows <= self.sizes[-1]:
            self._costs[rows] = used if before is None else min(used, GROWTH * before)
        if self._seen is not None:
            self._seen(rows, len(jobs), took)


class _Blocking(Job):
    __slots__ = ("answered",)
    answered: threading.Event


def _wake(jobs: list[Job]) -> None:
    for job in jobs:
        job.answered.set()  # type: ignore[attr-defined]


def _age(job: Job) -> float:
    return job.began


def _joined(jobs: Sequence[Job]) -> Mapping[str, Array]:
    """The arrays of all jobs, one behind the other."""
    if len(jobs) == 1:
        return jobs[0].arrays
    return {name: np.concatenate([job.arrays[name] for job in jobs]) for name in jobs[0].arrays}


def _seconds(jobs: Sequence[Job], now: float) -> float | None:
    """Those that a batch may take: as many as the one of its jobs that may take longest has left."""
    longest = 0.0
    for job in jobs:
        if job.deadline is None:
            return None
        longest = max(longest, job.deadline - now)
    return max(longest, 1e-3)


def _tell(jobs: list[Job]) -> None:
    """Wake those who wait, each kind by one call."""
    first = jobs[0].woken
    if len(jobs) == 1:
        return first(jobs)
    others: dict[Any, list[Job]] = {}
    for job in jobs:
        others.setdefault(job.woken, []).append(job)
    for woken, group in others.items():
        woken(group)
