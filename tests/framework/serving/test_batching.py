"""Batches: rows of several requests run together, queues are bounded, deadlines and cancellation hold."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from pdl.errors import DataError, UsageError
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
        assert self.gate.wait(10)
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
    end = time.monotonic() + 10
    while batcher.waiting < count:
        assert time.monotonic() < end
        time.sleep(0.001)


def test_what_waits_while_a_batch_runs_is_the_next_batch() -> None:
    slow = Slow()
    batcher = Batcher("m", slow, Batching(most=8, budget=60.0))
    _, threads = asked(batcher, 1)
    slow.entered.wait(10)
    found, more = asked(batcher, 9)
    waiting(batcher, 9)
    slow.gate.set()
    for thread in threads + more:
        thread.join()
    assert slow.sizes == [1, 8, 1]  # alone at once, then as many as there may be
    for i, y in enumerate(found):
        np.testing.assert_array_equal(y, np.full((1, 3), 2 * i))
    assert batcher.close(5)
    with pytest.raises(Closed):
        batcher.ask({"x": np.zeros((1, 3))}, 1)


def test_requests_of_other_shapes_or_of_models_whose_rows_belong_together_run_alone() -> None:
    for joins in (True, False):
        slow = Slow()
        batcher = Batcher("m", slow, Batching(budget=60.0), joins=joins)
        _, threads = asked(batcher, 1)
        slow.entered.wait(10)
        answers: list[list[Job]] = []
        jobs = [Job({"x": np.zeros((1, width))}, 1, answers.append) for width in (3, 4, 3)]
        for job in jobs:
            batcher.submit(job)
        slow.gate.set()
        threads[0].join()
        assert batcher.close(5)
        assert slow.sizes == ([1, 2, 1] if joins else [1, 1, 1, 1])
        assert [job.outputs["y"].shape for job in jobs] == [(1, 3), (1, 4), (1, 3)]  # type: ignore[index]


def test_a_request_that_fails_fails_alone() -> None:
    slow = Slow()
    batcher = Batcher("m", slow, Batching(budget=60.0))
    _, threads = asked(batcher, 1)
    slow.entered.wait(10)
    jobs = [Job({"x": np.full((1, 3), value)}, 1, lambda jobs: None) for value in (1, -1, 2)]
    for job in jobs:
        batcher.submit(job)
    slow.gate.set()
    threads[0].join()
    batcher.close(5)
    assert [type(job.error) for job in jobs] == [type(None), DataError, type(None)]


def test_a_full_queue_refuses_and_late_or_cancelled_requests_do_not_run() -> None:
    slow = Slow()
    batcher = Batcher("m", slow, Batching(waiting=2, budget=60.0))
    _, threads = asked(batcher, 1)
    slow.entered.wait(10)
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
    batcher.close(5)
    assert slow.sizes == [1]
    assert isinstance(late.error, Refused)
    assert late.error.status == 504


def test_batches_are_kept_to_half_of_the_budget() -> None:
    def run(arrays: Arrays, seconds: float | None) -> Arrays:
        return arrays

    batcher = Batcher("m", run, Batching(most=32, budget=0.020))
    batcher._costs = {1: 0.001, 2: 0.002, 4: 0.004, 8: 0.008, 12: 0.012}
    assert batcher._most() == 8
    batcher._costs = {1: 0.5}
    assert batcher._most() == 1  # one row is always run
    batcher.close(1)


def test_a_short_run_is_made_by_who_asks_where_nothing_else_waits_or_runs() -> None:
    slow = Slow()
    batcher = Batcher("m", slow, Batching(most=4, budget=60.0))
    assert not batcher.quick(1)  # how long it takes is not known
    batcher._costs = {1: 1e-4, 2: 2e-4, 4: 4e-4}
    assert [batcher.quick(rows) for rows in (1, 2, 3, 4, 8)] == [True, True, False, False, False]
    assert [batcher.quick(rows, 2e-3) for rows in (4, 16, 24)] == [True, True, False]
    found, threads = asked(batcher, 1)
    slow.entered.wait(10)
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
    batcher.close(5)
    with pytest.raises(Closed):
        batcher.run_now(job)


def test_a_delay_waits_for_others() -> None:
    slow = Slow()
    slow.gate.set()
    batcher = Batcher("m", slow, Batching(most=4, budget=5.0, delay=5.0))
    _, threads = asked(batcher, 4)
    for thread in threads:
        thread.join()
    batcher.close(1)
    assert slow.sizes == [4]


@pytest.mark.parametrize("wrong", [{"most": 0}, {"most": 999}, {"waiting": 0}, {"budget": 0.0}, {"delay": 1.0}])
def test_policies_that_cannot_be(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        Batching(**wrong)
