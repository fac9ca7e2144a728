"""What a net that writes token by token keeps from step to step, as nets and bundles say it."""

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


def first_lengths(kinds: Iterable[Kept]) -> int | None:
    """The number of what `encode` made that says how many positions rows have kept before the first token; None:
    none. UsageError where caches disagree."""
    found = {(kind.memory is None, kind.lengths) for kind in kinds if isinstance(kind, KeyValues)}
    if len(found) > 1 or any(empty != (lengths is None) for empty, lengths in found):
        raise UsageError("decoding: all keys and values of a net begin empty, or with memory and the same lengths")
    return next((lengths for _, lengths in found), None)
