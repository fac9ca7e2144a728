"""`Places`: where each of many 64-bit keys lies; and what is drawn of keys alone: the server and the first values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from pdl.dtype import Array
from pdl.errors import UsageError
from pdl.hashing import hash_buckets

_EMPTY, _GONE = np.iinfo(np.int64).min, np.iinfo(np.int64).min + 1
_SERVERS, _PLACES = 0, 1  # seeds: keys of one server must not crowd in its table


class Places:
    """int64 keys -> places, in an open table with linear probing, at most half full; all keys of a call together.

    `find`, `put` (keys that are not there, each once) and `drop` take and give int64 [n].
    """

    def __init__(self, room: int = 1024) -> None:
        self.count = self._used = 0  # keys; slots that are not free
        self._make(max(2 * room, 16))

    def _make(self, size: int) -> None:
        self._keys, self._places = np.full(size, _EMPTY), np.zeros(size, np.int64)

    @property
    def bytes(self) -> int:
        """Memory of the table."""
        return int(self._keys.nbytes + self._places.nbytes)

    def find(self, keys: Array) -> Array:
        """Their places; -1 for those that are not there."""
        slots = self._slots(keys)
        return np.where(slots < 0, -1, self._places[slots])

    def _slots(self, keys: Array) -> Array:
        found = np.full(len(keys), -1, np.int64)
        left, at = np.arange(len(keys)), hash_buckets(keys, len(self._keys), seed=_PLACES)
        while len(left):
            there = self._keys[at]
            hit = there == keys[left]
            found[left[hit]] = at[hit]
            on = ~hit & (there != _EMPTY)
            left, at = left[on], at[on] + 1
            at[at == len(self._keys)] = 0
        return found

    def put(self, keys: Array, places: Array) -> None:
        """Take in new keys."""
        if 2 * (self._used + len(keys)) > len(self._keys):
            held, lie = self.items()
            self._make(4 * (self.count + len(keys)))
            self._put(held, lie)
            self._used = self.count
        self._put(keys, places)
        self.count, self._used = self.count + len(keys), self._used + len(keys)

    def _put(self, keys: Array, places: Array) -> None:
        left, at = np.arange(len(keys)), hash_buckets(keys, len(self._keys), seed=_PLACES)
        while len(left):
            free = self._keys[at] == _EMPTY
            self._keys[at[free]] = keys[left[free]]  # of several at one slot the last stays
            won = free & (self._keys[at] == keys[left])
            self._places[at[won]] = places[left[won]]
            left, at = left[~won], at[~won] + 1
            at[at == len(self._keys)] = 0

    def drop(self, keys: Array) -> None:
        """Forget keys that are there; their slots stay taken until the table grows, so that probing goes on."""
        self._keys[self._slots(keys)] = _GONE
        self.count -= len(keys)

    def items(self) -> tuple[Array, Array]:
        """All keys and their places."""
        used = self._keys > _GONE
        return self._keys[used], self._places[used]


def server_of(keys: Array, servers: int) -> Array:
    """The server that has each key: a hash, so that neighbours are spread."""
    return hash_buckets(keys, servers, seed=_SERVERS)


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

    def __call__(self, keys: Array, columns: int) -> Array:
        """float32 [n, columns]."""
        if self.kind == "constant" or (self.kind == "normal" and self.b == 0):
            values = np.full((len(keys), columns), self.a, np.float32)
        elif self.kind in ("normal", "uniform"):
            values = self._drawn(keys, columns)
        else:
            raise UsageError(f"initial values {self.kind!r}: choose normal, uniform or constant")
        if self.zero is not None:
            values[keys == self.zero] = 0
        return values

    def _drawn(self, keys: Array, columns: int) -> Array:
        start = _mixed(np.array([self.seed], np.uint64))[0]
        with np.errstate(over="ignore"):
            bits: Array = keys.astype(np.uint64)[:, None] * np.uint64(columns) + np.arange(columns, dtype=np.uint64)
            bits = _mixed(bits ^ start)
        first = ((bits >> np.uint64(40)).astype(np.float32) + np.float32(0.5)) * np.float32(2**-24)
        if self.kind == "uniform":
            return first * np.float32(self.b - self.a) + np.float32(self.a)
        angle = ((bits >> np.uint64(8)) & np.uint64(0xFFFFFF)).astype(np.float32) * np.float32(2 * np.pi / 2**24)
        normal = np.sqrt(np.float32(-2) * np.log(first)) * np.cos(angle)  # Box & Muller
        return np.asarray(normal * np.float32(self.b) + np.float32(self.a), np.float32)


def _mixed(x: Array) -> Array:
    """SplitMix64 of uint64 numbers."""
    with np.errstate(over="ignore"):
        x = x + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return np.asarray(x ^ (x >> np.uint64(31)))


__all__ = ["Initial", "Places", "server_of"]
