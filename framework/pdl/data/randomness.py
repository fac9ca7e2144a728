"""Random numbers of the data pipeline: counted, not drawn in turn.

A number depends only on (seed, epoch, index, stream, how many were drawn before in that stream), so that it does
not matter which thread handles a sample, in what order, or whether the run was interrupted.
The mixing function and the sequence are SplitMix64 (Steele, Lea, Flood: "Fast Splittable Pseudorandom Number
Generators", OOPSLA 2014).
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from pdl.hashing import splitmix64

_MASK = (1 << 64) - 1
_STEP = 0x9E3779B97F4A7C15
_M1 = 0xBF58476D1CE4E5B9
_M2 = 0x94D049BB133111EB


def _mix(z: int) -> int:
    """SplitMix64's output function on one 64-bit integer."""
    z &= _MASK
    z = ((z ^ (z >> 30)) * _M1) & _MASK
    z = ((z ^ (z >> 27)) * _M2) & _MASK
    return z ^ (z >> 31)


def _stream_step(stream: int | str) -> int:
    number = zlib.crc32(stream.encode()) + (1 << 32) if isinstance(stream, str) else stream
    return _mix((number + 1) * _M2)


def _root(seed: int, epoch: int) -> int:
    return _mix(_mix(_mix(seed) + epoch * _STEP) + _STEP)


class SampleRandom:
    """The random numbers of one sample: a function of (seed, epoch, index).

        rng = SampleRandom(seed=0, epoch=3, index=17)
        rng.uniform(0.0, 1.0); rng.integers(0, 9); rng.chance(0.5)

    `fork(k)` opens an independent stream, so that each transform of a pipeline has its own. `epoch` is known, for what
    is to end or to begin in the course of a training.
    """

    __slots__ = ("_count", "_key", "epoch")

    def __init__(self, seed: int, epoch: int, index: int) -> None:
        self._key = _mix(_root(seed, epoch) + index * _STEP)
        self._count = 0
        self.epoch = epoch

    @classmethod
    def _at(cls, key: int, count: int, epoch: int) -> SampleRandom:
        rng = cls.__new__(cls)
        rng._key, rng._count, rng.epoch = key, count, epoch
        return rng

    def fork(self, stream: int | str) -> SampleRandom:
        """An independent stream, named by a number or a word; the draws of this one do not shift it."""
        return self._at(_mix(self._key ^ _stream_step(stream)), 0, self.epoch)

    def bits(self) -> int:
        """64 random bits."""
        self._count += 1
        return _mix(self._key + self._count * _STEP)

    def uniform(self, low: float = 0.0, high: float = 1.0) -> float:
        """A float in [low, high), with 53 random bits."""
        return low + (high - low) * ((self.bits() >> 11) * 2.0**-53)

    def integers(self, low: int, high: int) -> int:
        """An integer in [low, high)."""
        return low + int(self.uniform() * (high - low))

    def chance(self, p: float) -> bool:
        """True with probability p."""
        return self.uniform() < p

    def permutation(self, n: int) -> list[int]:
        """The numbers 0..n-1 in random order (Fisher-Yates)."""
        order = list(range(n))
        for i in range(n - 1, 0, -1):
            j = self.integers(0, i + 1)
            order[i], order[j] = order[j], order[i]
        return order

    def generator(self) -> np.random.Generator:
        """A NumPy generator started here, for distributions that this class does not have."""
        return np.random.Generator(np.random.Philox(key=self.bits()))


class BatchRandom:
    """The random numbers of many samples at once: draw k of element i equals draw k of sample i's `SampleRandom`."""

    __slots__ = ("_count", "_keys", "epoch")

    def __init__(self, seed: int, epoch: int, indices: Sequence[int] | np.ndarray) -> None:
        index = np.asarray(indices, np.int64).view(np.uint64)
        self._keys = splitmix64(np.uint64(_root(seed, epoch)) + index * np.uint64(_STEP))
        self._count = 0
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self._keys)

    def __getitem__(self, i: int) -> SampleRandom:
        """Sample i's generator, at the same position."""
        return SampleRandom._at(int(self._keys[i]), self._count, self.epoch)

    def fork(self, stream: int | str) -> BatchRandom:
        """See `SampleRandom.fork`."""
        rng = BatchRandom.__new__(BatchRandom)
        rng._keys, rng._count = splitmix64(self._keys ^ np.uint64(_stream_step(stream))), 0
        rng.epoch = self.epoch
        return rng

    def bits(self) -> np.ndarray:
        """64 random bits for each sample: uint64 [N]."""
        self._count += 1
        return splitmix64(self._keys + np.uint64((self._count * _STEP) & _MASK))

    def uniform(self, low: float = 0.0, high: float = 1.0) -> Any:
        """float64 [N] in [low, high)."""
        return low + (high - low) * ((self.bits() >> np.uint64(11)) * 2.0**-53)

    def integers(self, low: int, high: int) -> Any:
        """int64 [N] in [low, high)."""
        return low + (self.uniform() * (high - low)).astype(np.int64)

    def chance(self, p: float) -> Any:
        """bool [N], each True with probability p."""
        return self.uniform() < p
