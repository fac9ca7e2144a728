"""What a thread sets (its generator, modes, listeners) is its own: work in one does not reach into another."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pdl
from pdl import nn, threads
from pdl.errors import MemoryLimitError, NumericalError
from pdl.limits import limited
from pdl.ops.listeners import observed
from pdl.train import TrainSettings
from tests.framework.train.toy import regression, weights_hash


def elsewhere(function: Callable[[], Any]) -> Any:
    """What a function gives in another thread, while this one waits."""
    found: list[Any] = []

    def call() -> None:
        try:
            found.append(function())
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    if isinstance(found[0], BaseException):
        raise found[0]
    return found[0]


def draw() -> list[float]:
    return pdl.rand((3,)).tolist()


def test_draws_and_seeds_in_another_thread_leave_this_generator_alone() -> None:
    pdl.seed(5)
    whole = [draw(), draw()]
    pdl.seed(5)
    first = draw()
    elsewhere(draw)
    elsewhere(lambda: pdl.seed(1))

    def forked() -> None:
        with pdl.random.fork_seed(9):
            draw()

    elsewhere(forked)
    assert [first, draw()] == whole


def test_a_seed_gives_the_same_numbers_in_any_thread() -> None:
    def seeded() -> list[float]:
        pdl.seed(5)
        return draw()

    assert elsewhere(seeded) == elsewhere(seeded) == seeded()


def test_threads_that_nobody_seeded_draw_different_numbers() -> None:
    assert elsewhere(draw) != elsewhere(draw)


def test_trainings_side_by_side_give_what_each_gives_alone() -> None:
    def train() -> str:
        with pdl.random.fork_seed(0):
            trainer = regression(TrainSettings(epochs=2))
            trainer.fit()
        return weights_hash(trainer.model)

    alone, found = train(), []
    threads = [threading.Thread(target=lambda: found.append(train())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [alone] * 4


def test_the_nan_check_is_of_the_thread_that_asks() -> None:
    def infinite() -> Any:
        return pdl.log(pdl.tensor(0.0)).item()

    with pdl.autograd.detect_anomaly():
        assert elsewhere(infinite) == -np.inf
        with pytest.raises(NumericalError):
            infinite()

    entered, leave = threading.Event(), threading.Event()

    def check_for_a_while() -> None:
        with pdl.autograd.detect_anomaly():
            entered.set()
            leave.wait()

    thread = threading.Thread(target=check_for_a_while)
    thread.start()
    entered.wait()
    assert infinite() == -np.inf
    leave.set()
    thread.join()


def test_listeners_hear_the_ops_of_their_thread() -> None:
    heard: list[str] = []
    with observed(lambda op, ins, outs: heard.append(type(op).__name__)):
        pdl.ones(3) + 1.0
        elsewhere(lambda: pdl.ones(3) * 2.0)
        elsewhere(lambda: nn.summary(nn.Linear(3, 2), (4, 3)))
    pdl.ones(3) - 1.0
    assert heard == ["Add"]


def test_the_allocation_limit_holds_for_ops_that_ran_before() -> None:
    x = pdl.ones((1 << 10, 1 << 10))
    x + x
    with limited(nbytes=1 << 21), pytest.raises(MemoryLimitError, match=r"Add would make an array of shape \(1024"):
        x + x
    with limited(nbytes=1 << 21):
        assert elsewhere(lambda: (x + x).shape) == x.shape


def test_calls_made_together_are_all_made() -> None:
    made: list[int] = []
    threads.together([lambda i=i: made.append(i) for i in range(9)])  # type: ignore[misc]
    assert sorted(made) == list(range(9))


@pytest.mark.parametrize("error", [ValueError, IndexError])
def test_an_error_of_calls_made_together_is_raised(error: type[Exception]) -> None:
    def fails() -> None:
        raise error("of a call")

    with pytest.raises(error, match="of a call"):
        threads.together([int, fails, int])
