"""Random numbers of the framework: one seeded generator for initialisers and dropout.

Data pipelines do not draw from here: they use counters (seed, epoch, index), see `pdl.data`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import local
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.random import Generator


class _Refusal(local):
    call: Callable[[], None] | None = None


_refusal = _Refusal()
_generator: Generator | None = None  # made on first use: numpy.random is a tenth of pdl's import time


def _fresh(value: int) -> Generator:
    return np.random.Generator(np.random.Philox(value))


def seed(value: int) -> None:
    """Restart the framework's generator; same seed, same numbers on every machine."""
    global _generator
    _generator = _fresh(value)


def generator() -> Generator:
    """The generator in use; seeded with 0 until `seed` is called."""
    global _generator
    if _refusal.call is not None:
        _refusal.call()
    if _generator is None:
        _generator = _fresh(0)
    return _generator


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
    """Draw from a fresh generator inside the block, and leave the outer one as it was."""
    global _generator
    outer, _generator = _generator, _fresh(value)
    try:
        yield
    finally:
        _generator = outer


@contextmanager
def refused(call: Callable[[], None]) -> Iterator[None]:
    """Inside the block this thread calls `call`, which raises, instead of drawing numbers."""
    outer, _refusal.call = _refusal.call, call
    try:
        yield
    finally:
        _refusal.call = outer
