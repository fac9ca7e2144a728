"""`Places`: where each of many 64-bit keys lies; `Dealt`: the keys of a batch, by server; what rows begin with."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from pdl.distributed.tables.growing import Growing
from pdl.dtype import Array
from pdl.errors import UsageError
from pdl.kernels import keys as kernels

_SERVERS, _PLACES = 0, 1  # seeds: keys of one server must not crowd in its table


def same(a: Array, b: Array) -> bool:
    """Whether two arrays of keys are equal."""
    return len(a) == len(b) and kernels.same(a, b)


class Places:
    """int64 keys -> places, in an open table with linear probing, at most two thirds full.

    `find`, `put` (keys that are not there, each once) and `drop` take and give int64 [n].
    """

    def __init__(self, room: int = 1024) -> None:
        self.count = self._used = 0  # keys; slots that are not free
        self._slots = Growing((2,), np.int64, max(2 * room, 16))

    @property
    def bytes(self) -> int:
        """Memory of the table."""
        return int(self._slots.array.nbytes)

    def find(self, keys: Array) -> Array:
        """Their places; -1 for those that are not there."""
        places = np.empty(len(keys), np.int64)
        kernels.find(places, self._slots.array, np.ascontiguousarray(keys), _PLACES)
        return places

    def put(self, keys: Array, places: Array) -> None:
        """Take in new keys."""
        before, count = len(self._slots.array), self.count + len(keys)
        if 3 * (self._used + len(keys)) > 2 * before:
            if 2 * count > before:  # else what fills it are mostly slots of keys that are gone
                self._slots.grow(max(2 * before, 3 * count))
            kernels.grow(self._slots.array, before, _PLACES)
            self._used = self.count
        kernels.put(self._slots.array, np.ascontiguousarray(keys), np.ascontiguousarray(places), _PLACES)
        self.count, self._used = count, self._used + len(keys)

    def drop(self, keys: Array) -> None:
        """Forget keys that are there; their slots stay taken until the table grows, so that probing goes on."""
        self.count -= kernels.drop(self._slots.array, np.ascontiguousarray(keys), _PLACES)

    def items(self) -> tuple[Array, Array]:
        """All keys and their places."""
        keys, places = np.empty(self.count, np.int64), np.empty(self.count, np.int64)
        kernels.items(keys, places, self._slots.array)
        return keys, places


class Dealt:
    """The keys that `index` int64 [n] names, dealt out to servers.

    keys     int64 [k]: each once, those of server s in [starts[s], starts[s + 1]), in order
    back     int64 [n]: where in `keys` each of index lies; -1 for negative numbers and `padding`
    order    int64 [k]: the number of each key among all, in order
    """

    def __init__(self, index: Array, servers: int, padding: int | None = None) -> None:
        self.index, self.padding = index, padding
        keys, self.back, order = (np.empty(len(index), np.int64) for _ in range(3))
        starts = np.empty(servers + 1, np.int64)
        left_out = -1 if padding is None else padding
        kernels.deal(keys, self.back, order, starts, index, left_out=left_out, seed=_SERVERS)
        self.starts: list[int] = starts.tolist()
        self.keys, self.order = keys[: self.starts[-1]], order[: self.starts[-1]]

    def of(self, server: int) -> slice:
        """The keys of a server."""
        return slice(self.starts[server], self.starts[server + 1])

    @cached_property
    def parts(self) -> list[Array]:
        """The keys of each server: one array for all tables, which so is sent once."""
        return [self.keys[self.of(server)] for server in range(len(self.starts) - 1)]

    @cached_property
    def ordered(self) -> Array:
        """The keys in order."""
        keys = np.empty_like(self.keys)
        keys[self.order] = self.keys
        return keys


@dataclass(frozen=True)
class Initial:
    """What rows begin with: N(a, b^2), U(a, b) or all a. A function of (seed, key, column) by SplitMix64, as a counter:
    whoever makes a row, and when, it is the same (Salmon et al., SC 2011).

    zero    a key whose row begins at 0, such as that of padding
    """

    kind: Literal["normal", "uniform", "constant"] = "constant"
    a: float = 0.0
    b: float = 0.0
    seed: int = 0
    zero: int | None = None

    def __call__(self, keys: Array, columns: int, out: Array | None = None) -> Array:
        """float32 [n, columns], new or `out`."""
        values = np.empty((len(keys), columns), np.float32) if out is None else out
        if self.kind == "constant" or (self.kind == "normal" and self.b == 0):
            values.fill(self.a)
        elif self.kind in ("normal", "uniform"):
            kernels.draw(values, np.ascontiguousarray(keys), self.seed, self.kind == "normal", self.a, self.b)
        else:
            raise UsageError(f"initial values {self.kind!r}: choose normal, uniform or constant")
        if self.zero is not None:
            values[keys == self.zero] = 0
        return values


__all__ = ["Dealt", "Initial", "Places", "same"]
