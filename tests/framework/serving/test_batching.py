"""Batches: rows of several requests run together, queues are bounded, deadlines and cancellation hold."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from pdl.errors import DataError, UsageError
from pdl.serving import batching
from pdl.serving.batching import Batcher, Batching, Closed, Job
from pdl.serving.errors import Refused

Arrays = Mapping[str, Any]


class Slow:
    """Doubles rows, when it is let."""

    def __init__(self) -> None:
        self.gate, self.sizes, self.entered = threading.Event(), [], threading.Event()  # type: ignore[var-annotated]

    def __call__(self, arrays: Arrays, seconds: float | None) -> Arrays:
        self.sizes.append(len(arrays["x"]))
        self.entered.set()
        assert self.gate.wait(60)
        if (arrays["x"] < 0).any():
            raise DataError("a row below 0")
        return {"y": arrays["x"] * 2}


def asked(batcher: Batcher, count: int, **more: Any) -> tuple[list[Any], list[threading.Thread]]:
    found: list[Any] = [None] * count

    def one(i: int) -> None:
        try:
            found[i] = batcher.ask({"x": np.full((1, 3), i)}, 1, **more)["y"]
        except Exception as error:
            found[i] = error

    threads = [threading.Thread(target=one, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    return found, threads


def waiting(batcher: Batcher, count: int) -> None:
    end = time.monotonic() + 60
    while batcher.waiting < count:
        assert time.monotonic() < end
        time.sleep(0.001)


def test_what_waits_while_a_batch_runs_is_the_next_batch() -> None:
    slow = Slow()
    batcher = Batcher("m", slow, Batching(most=8, budget=60.0))
    _, threads = asked(batcher, 1)
    assert slow.entered.wait(60)
    found, more = asked(batcher, 9)
    waiting(batcher, 9)
    slow.gate.set()
    for thread in threads + more:
        thread.join()
    assert slow.sizes == [1, 8, 1]  # alone at once, then as many as there may be
    for i, y in enumerate(found):
        np.testing.assert_array_equal(y, np.full((1, 3), 2 * i))
    assert batcher.close(60)
    with pytest.raises(Closed):
        batcher.ask({"x": np.zeros((1, 3))}, 1)


def test_requests_of_other_shapes_or_of_models_whose_rows_belong_together_run_alone() -> None:
    for joins in (True, False):
        slow = Slow()
        batcher = Batcher("m", slow, Batching(budget=60.0), joins=joins)
        _, threads = asked(batcher, 1)
        assert slow.entered.wait(60)
        answers: list[list[Job]] = []
        jobs = [Job({"x": np.zeros((1, width))}, 1, answers.append) for width in (3, 4, 3)]
        for job in jobs:
            batcher.submit(job)
        slow.gate.set()
        threads[0].join()
        assert batcher.close(60)
        assert slow.sizes == ([1, 2, 1] if joins else [1, 1, 1, 1])
        assert [job.outputs["y"].shape for job in jobs] == [(1, 3), (1, 4), (1, 3)]  # type: ignore[index]


def test_a_request_that_fails_fails_alone() -> None:
    slow = Slow()
    batcher = Batcher("m", slow, Batching(budget=60.0))
    _, threads = asked(batcher, 1)
    assert slow.entered.wait(60)
    jobs = [Job({"x": np.full((1, 3), value)}, 1, lambda jobs: None) for value in (1, -1, 2)]
    for job in jobs:
        batcher.submit(job)
    slow.gate.set()
    threads[0].join()
    batcher.close(60)
    assert [type(job.error) for job in jobs] == [type(None), DataError, type(None)]


def test_a_full_queue_refuses_and_late_or_cancelled_requests_do_not_run() -> None:
    slow = Slow()
    batcher = Batcher("m", slow, Batching(waiting=2, budget=60.0))
    _, threads = asked(batcher, 1)
    assert slow.entered.wait(60)
    late, cancelled = (Job({"x": np.zeros((1, 3))}, 1, lambda jobs: None, seconds) for seconds in (0.01, None))
    batcher.submit(late)
    batcher.submit(cancelled)
    with pytest.raises(Refused, match="2 requests are waiting") as refused:
        batcher.submit(Job({"x": np.zeros((1, 3))}, 1, lambda jobs: None))
    assert (refused.value.status, refused.value.code, refused.value.retry) == (429, "RESOURCE_EXHAUSTED", 1)
    cancelled.cancel()
    time.sleep(0.02)
    slow.gate.set()
    threads[0].join()
    batcher.close(60)
    assert slow.sizes == [1]
    assert isinstance(late.error, Refused)
    assert late.error.status == 504


class Clock:
    """Time that runs take by their rows."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seconds: Callable[[int], float]) -> None:
        self.seconds, self.now = seconds, 0.0
        self.sizes: list[int] = []
        monkeypatch.setattr(batching, "thread_time", lambda: self.now)

    def __call__(self, arrays: Arrays, seconds: float | None) -> Arrays:
        self.sizes.append(len(arrays["x"]))
        self.now += self.seconds(len(arrays["x"]))
        return {"y": arrays["x"]}

    def made(self, batcher: Batcher, jobs: int) -> list[int]:
        """Rows of the batches that so many requests of a row are answered in, which wait at once."""
        self.sizes.clear()
        later: list[Callable[[], None]] = []
        for _ in range(jobs):
            batcher.submit(Job({"x": np.zeros((1, 3))}, 1, lambda jobs: None), later.append)
        while later:
            later.pop()()
        return list(self.sizes)


@pytest.mark.parametrize(
    ("seconds", "sizes"),
    [
        (lambda rows: 1e-3 * rows, [1] * 7),  # a row costs the same in any batch
        (lambda rows: 0.95e-3 * rows if rows > 1 else 1e-3, [1] * 7),  # hardly less
        (lambda rows: 1e-3 + 1e-5 * rows, [6, 1]),  # what a run costs is shared: all that wait
        (lambda rows: 1e-3 * (rows if rows < 4 else rows / 2), [4, 1, 1, 1]),  # from four on, and no two or three
        (lambda rows: 3e-3 + 1e-3 * rows, [6, 1]),  # within half of the budget
        (lambda rows: 6.5e-3 + 1e-3 * rows, [3, 3, 1]),
        (lambda rows: 0.5, [6, 1]),  # no run is within it
        (lambda rows: 0.2 + 0.3 * rows, [2, 2, 2, 1]),
        (lambda rows: 0.5 * rows, [1] * 7),
    ],
)
def test_a_batch_is_made_where_its_rows_cost_less(
    seconds: Callable[[int], float], sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch, seconds)
    batcher = Batcher("m", clock, Batching(most=8, budget=0.020))
    batcher.measure({"x": np.zeros((8, 3))})
    assert clock.made(batcher, 7) == sizes
    batcher.close(60)


def test_sizes_that_were_measured_wrongly_or_cost_something_else_by_now_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock(monkeypatch, lambda rows: 1e-3 * rows)
    batcher = Batcher("m", clock, Batching(most=8, budget=0.020))
    batcher.measure({"x": np.zeros((8, 3))})
    made = clock.made(batcher, 200)
    assert 1 < made.count(2) < 10  # tried, now and then
    assert max(made) == 2
    clock.seconds = lambda rows: 1e-3
    for _ in range(40):
        made = clock.made(batcher, 200)
    assert made.count(8) == 25
    clock.seconds = lambda rows: 1e-3 * rows
    for _ in range(10):
        made = clock.made(batcher, 200)
    assert made.count(1) > 150
    batcher.close(60)


def test_a_short_run_is_made_by_who_asks_where_nothing_else_waits_or_runs() -> None:
    slow = Slow()
    batcher = Batcher("m", slow, Batching(most=4, budget=60.0))
    assert not batcher.quick(1)  # how long it takes is not known
    batcher._costs = {1: 1e-4, 2: 2e-4, 4: 4e-4}
    assert [batcher.quick(rows) for rows in (1, 2, 3, 4, 8)] == [True, True, False, False, False]
    assert [batcher.quick(rows, 2e-3) for rows in (4, 16, 24)] == [True, True, False]
    found, threads = asked(batcher, 1)
    assert slow.entered.wait(60)
    job = Job({"x": np.ones((1, 3))}, 1, lambda jobs: None)
    assert not batcher.run_now(job)
    slow.gate.set()
    threads[0].join()
    assert found[0] is not None
    while batcher._running:
        time.sleep(0.001)
    assert batcher.run_now(job)
    np.testing.assert_array_equal(job.outputs["y"], np.full((1, 3), 2))  # type: ignore[index]
    batcher._costs[1] = 1e-9
    assert batcher.run_now(Job({"x": np.ones((1, 3))}, 1, lambda jobs: None))
    assert batcher._costs[1] == pytest.approx(1.25e-9)  # one long run says little
    batcher.close(60)
    with pytest.raises(Closed):
        batcher.run_now(job)


def test_a_delay_waits_for_others() -> None:
    slow = Slow()
    slow.gate.set()
    batcher = Batcher("m", slow, Batching(most=4, budget=60.0, delay=60.0))
    _, threads = asked(batcher, 4)
    for thread in threads:
        thread.join()
    batcher.close(60)
    assert slow.sizes == [4]


@pytest.mark.parametrize("wrong", [{"most": 0}, {"most": 999}, {"waiting": 0}, {"budget": 0.0}, {"delay": 1.0}])
def test_policies_that_cannot_be(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        Batching(**wrong)
