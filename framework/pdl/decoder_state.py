"""What a net that goes on from step to step keeps, token by token or chunk by chunk, as nets and bundles say it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from pdl.dtype import DType, float32
from pdl.errors import UsageError


@dataclass(frozen=True)
class KeyValues:
    """Keys or values of attention, an array [rows, room, width]: a step writes row r at lengths[r] .. lengths[r] +
    counts[r] and reads nothing behind. Zeros at first; the room grows.

    memory   the number of what `encode` made that it begins with, [sources, positions, width], for every row of its
             source: what is written attends to the source and to itself at once; None: it is empty at first
    lengths  with `memory`, the number of what says how many of these positions are real, int64 [sources]; rows begin
             with such lengths
    ahead    positions behind the last one that a step writes for itself, and that the next one overwrites
    """

    width: int
    dtype: DType = float32
    memory: int | None = None
    lengths: int | None = None
    ahead: int = 0


@dataclass(frozen=True)
class Carried:
    """An array [rows, *shape] that every step replaces: the state of a recurrent layer, say.

    memory   the number of what `encode` made that it begins with, [sources, *shape] with sizes of its own, for every
             row of its source; None: it begins with zeros of `shape`
    """

    shape: tuple[int, ...] = ()
    dtype: DType = float32
    memory: int | None = None


Kept: TypeAlias = "KeyValues | Carried"


@dataclass(frozen=True)
class Framing:
    """How a net that is streamed reads a sequence. Frame f has `size` elements from f shift - before on, with zeros
    where the sequence has none; n elements have 1 + (n + before + after - size) // shift frames. The net takes `chunk`
    frames at once, which is (chunk - 1) shift + size elements, and gives a step for each `stride` of them, the last of
    fewer.
    """

    size: int
    shift: int
    chunk: int
    stride: int = 1
    before: int = 0
    after: int = 0

    @property
    def window(self) -> int:
        """Elements of a chunk."""
        return (self.chunk - 1) * self.shift + self.size

    def frames(self, elements: int) -> int:
        """Frames of a whole sequence."""
        return max(0, (elements + self.before + self.after - self.size) // self.shift + 1)

    def steps(self, frames: int) -> int:
        """Steps of so many frames."""
        return -(-frames // self.stride)


def first_lengths(kinds: Iterable[Kept]) -> int | None:
    """The number of what `encode` made that says how many positions rows have kept before the first token; None:
    none. UsageError where caches disagree."""
    found = {(kind.memory is None, kind.lengths) for kind in kinds if isinstance(kind, KeyValues)}
    if len(found) > 1 or any(empty != (lengths is None) for empty, lengths in found):
        raise UsageError("decoding: all keys and values of a net begin empty, or with memory and the same lengths")
    return next((lengths for _, lengths in found), None)
