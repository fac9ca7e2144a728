"""Random numbers of the framework: a seeded generator for initialisers and dropout, one in each thread.

Data pipelines do not draw from here: they use counters (seed, epoch, index), see `pdl.data`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from threading import current_thread, local, main_thread
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.random import Generator


class _Thread(local):
    generator: Generator | None = None  # made on first use: numpy.random is a tenth of pdl's import time
    refuse: Callable[[], None] | None = None


_thread = _Thread()
_unseeded = count(1)  # of threads beside the main one


def _fresh(seed: Any) -> Generator:
    return np.random.Generator(np.random.Philox(seed))


def seed(value: int | Sequence[int]) -> None:
    """Restart this thread's generator; same seed (or seeds), same numbers in every thread and on every machine."""
    _thread.generator = _fresh(value)


def generator() -> Generator:
    """The generator of this thread. Until `seed` is called that of the main thread is seeded with 0, and those of other
    threads, so that they differ, in the order of their first use.
    """
    if _thread.refuse is not None:
        _thread.refuse()
    if _thread.generator is None:
        main = current_thread() is main_thread()
        _thread.generator = _fresh(0 if main else np.random.SeedSequence(0, spawn_key=(next(_unseeded),)))
    return _thread.generator


def get_state() -> dict[str, Any]:
    """The generator's state as plain numbers (fit for JSON), for checkpoints."""
    state: dict[str, Any] = dict(generator().bit_generator.state)
    inner = {k: v.tolist() for k, v in state["state"].items()}
    return {**state, "state": inner, "buffer": state["buffer"].tolist()}


def set_state(state: dict[str, Any]) -> None:
    """Go on where `get_state` was taken."""
    inner = {k: np.array(v, np.uint64) for k, v in state["state"].items()}
    generator().bit_generator.state = {**state, "state": inner, "buffer": np.array(state["buffer"], np.uint64)}


@contextmanager
def fork_seed(value: int) -> Iterator[None]:
    """This thread draws from a fresh generator inside the block; its outer one is left as it was."""
    outer, _thread.generator = _thread.generator, _fresh(value)
    try:
        yield
    finally:
        _thread.generator = outer


@contextmanager
def refused(call: Callable[[], None]) -> Iterator[None]:
    """Inside the block this thread calls `call`, which raises, instead of drawing numbers."""
    outer, _thread.refuse = _thread.refuse, call
    try:
        yield
    finally:
        _thread.refuse = outer
