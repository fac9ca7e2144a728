"""What a net that writes token by token keeps from step to step, as nets and bundles say it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from pdl.dtype import DType, float32


@dataclass(frozen=True)
class KeyValues:
    """Keys or values of attention, an array [rows, room, width]: a step writes row r at lengths[r] .. lengths[r] +
    counts[r] and reads nothing behind. Zeros at first; the room grows."""

    width: int
    dtype: DType = float32


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
