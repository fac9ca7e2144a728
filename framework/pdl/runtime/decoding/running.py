"""What a search runs: a decoder with its state, in NumPy's arrays, whatever makes the scores."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from pdl.decoder_state import Carried, Kept, KeyValues, first_lengths
from pdl.dtype import Array
from pdl.errors import UsageError
from pdl.limits import check_memory

SMALLEST = 32
"""Positions that rows have room for at least."""
RESERVED = 256 << 20
"""Bytes of state up to which the room for the longest answer is reserved at once: pages that are never written cost
nothing."""


class Decoding(Protocol):
    """A net that writes: encodes sources, and steps. Of a model in training, or of a bundle."""

    kinds: tuple[Kept, ...]

    def encode(self, inputs: Sequence[Array]) -> tuple[Array, ...]:
        """What is computed once for the sources, each [sources, ...]."""

    def step(self, run: Running, tokens: Array, counts: Array) -> Array:
        """Scores [R, V] of what follows tokens int64 [R, T], of which counts [R] are real; puts the new state in the
        place of the old."""


class Running:
    """Rows that are being written, `rows / sources` side by side for each source.

    lengths   int64 [rows]: tokens that each row has kept
    room      positions that rows have room for
    state     arrays [rows, ...] of `Decoding.kinds`; memory, those that `encode` made
    lease     what a decoder keeps for the arrays that it stepped on last
    moved     whether others have taken their place
    """

    def __init__(self, decoding: Decoding, memory: Sequence[Array], sources: int, most: int) -> None:
        self.decoding, self.memory, self.sources = decoding, tuple(memory), sources
        self.rows = sources
        caches = [kind for kind in decoding.kinds if isinstance(kind, KeyValues)]
        self.ahead = max((kind.ahead for kind in caches), default=0)
        self.lengths = np.zeros(sources, np.int64)
        first = first_lengths(caches)
        if first is not None:
            self.lengths += self.memory[first]
            most += self._check_first(caches)
        width = sum(kind.width * kind.dtype.itemsize for kind in caches)
        most, least = most + self.ahead, int(self.lengths.max(initial=0)) + SMALLEST
        fits = rounded(most) * width * sources <= RESERVED
        self.room = rounded(most if fits else least)
        self.state = [self._first(kind) for kind in decoding.kinds]
        self.lease: Any = None
        self.moved = True

    def _first(self, kind: Kept) -> Array:
        if isinstance(kind, KeyValues):
            made = zeros((self.rows, self.room, kind.width), kind)
            if kind.memory is not None:
                used = int(self.lengths.max(initial=0))
                made[:, :used] = self.memory[kind.memory][:, :used]
            return made
        if kind.memory is None:
            return zeros((self.rows, *kind.shape), kind)
        return np.array(self.memory[kind.memory])

    def _check_first(self, caches: Sequence[KeyValues]) -> int:
        """The most positions that rows begin with; UsageError where caches have fewer."""
        there = min(self.memory[kind.memory].shape[1] for kind in caches if kind.memory is not None)
        low, high = int(self.lengths.min(initial=0)), int(self.lengths.max(initial=0))
        if low < 0 or high > there:
            raise UsageError(f"decoding: rows begin with {low} to {high} positions, encode made {there}")
        return high

    def step(self, tokens: Array, counts: Array) -> Array:
        """Scores [rows, V] of what follows tokens int64 [rows, T], of which counts [rows] are real."""
        longest = int((self.lengths + counts).max(initial=0)) + self.ahead
        if longest > self.room:
            self._grow(longest)
        made = self.decoding.step(self, tokens, counts)
        self.lengths = self.lengths + counts
        return made

    def reorder(self, parents: Array) -> None:
        """Row r goes on as row parents[r] did; only what it has kept is moved."""
        moved = np.flatnonzero(parents != np.arange(self.rows))
        if not len(moved):
            return
        sources, used = parents[moved], int(self.lengths[parents].max(initial=0))
        for kind, array in zip(self.decoding.kinds, self.state, strict=True):
            part = array[:, :used] if isinstance(kind, KeyValues) else array
            part[moved] = part[sources]
        self.lengths = self.lengths[parents]

    def take(self, rows: Array, sources: Array) -> None:
        """Go on with these rows, in this order, of these sources."""
        used = int(self.lengths[rows].max(initial=0))
        self.rows, self.sources = len(rows), len(sources)
        for i, kind in enumerate(self.decoding.kinds):
            old = self.state[i]
            if isinstance(kind, KeyValues):
                self.state[i] = zeros((len(rows), self.room, kind.width), kind)
                self.state[i][:, :used] = old[rows, :used]
            else:
                self.state[i] = old[rows]
        self.memory = tuple(each if len(sources) == len(each) else each[sources] for each in self.memory)
        self.lengths, self.moved = self.lengths[rows], True

    def _grow(self, wanted: int) -> None:
        used = int(self.lengths.max(initial=0))
        self.room = rounded(max(wanted, 2 * self.room))
        for i, kind in enumerate(self.decoding.kinds):
            if isinstance(kind, KeyValues):
                old, self.state[i] = self.state[i], zeros((self.rows, self.room, kind.width), kind)
                self.state[i][:, :used] = old[:, :used]
        self.moved = True


def zeros(shape: tuple[int, ...], kind: KeyValues | Carried) -> Array:
    """Zeros, of pages that the system gives when they are first written."""
    size = math.prod(shape) * kind.dtype.itemsize
    check_memory(size)
    from pdl.program.arena import pages  # programs, which a search of other steps can do without

    block = np.zeros(size, np.uint8) if size < 1 << 20 else pages(size)
    return block.view(kind.dtype).reshape(shape)


def rounded(n: int) -> int:
    """The next of few lengths, at most an eighth longer: programs are planned for each."""
    if n <= SMALLEST:
        return SMALLEST
    step = 1 << max(0, (n - 1).bit_length() - 4)
    return -(-n // step) * step
