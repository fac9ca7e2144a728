"""Who hears of the ops that run: the FLOP counter, the profiler."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import local
from typing import Any, TypeAlias

from pdl.dtype import Array

Observer: TypeAlias = "Callable[[Any, tuple[Array | None, ...], tuple[Array, ...]], None]"
Timer: TypeAlias = "Callable[[Any, tuple[Array | None, ...], tuple[Array, ...], float, float], None]"


class _Listeners(local):
    """Who hears of the ops that run in this thread.

    observers   called after every op with (op, inputs, outputs)
    timers      called after every op with (op, inputs, outputs, begin, end), in seconds of `time.perf_counter`
    """

    def __init__(self) -> None:
        self.observers: list[Observer] = []
        self.timers: list[Timer] = []


listeners = _Listeners()


@contextmanager
def observed(observer: Observer) -> Iterator[None]:
    """Inside the block `observer` is called after every op of this thread, with (op, inputs, outputs)."""
    observers = listeners.observers
    observers.append(observer)
    try:
        yield
    finally:
        observers.remove(observer)


__all__ = ["listeners", "observed"]
