"""The arguments of sliding windows, as convolution and pooling take them: one entry for each spatial axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from pdl.errors import ShapeError

Sizes: TypeAlias = int | Sequence[int]
Pads: TypeAlias = int | Sequence[int | Sequence[int]]


def each_axis(name: str, label: str, value: Sizes, rank: int, *, lowest: int = 1) -> tuple[int, ...]:
    """One number per spatial axis, from a number or as many numbers; none below `lowest`."""
    if not 1 <= rank <= 3:
        raise ShapeError(f"{name}: x has {rank + 2} dimensions; expected [N, L, C], [N, H, W, C] or [N, D, H, W, C]")
    values = (int(value),) * rank if isinstance(value, int | np.integer) else tuple(int(v) for v in value)
    if len(values) != rank:
        raise ShapeError(f"{name}: {label} {values} has {len(values)} entries, x has {rank} spatial axes")
    if min(values) < lowest:
        raise ShapeError(f"{name}: {label} {values} must be at least {lowest}")
    return values


def pad_pairs(name: str, padding: Pads, rank: int) -> tuple[tuple[int, int], ...]:
    """(before, after) per spatial axis, from a number, or a number or pair for each."""
    given = (padding,) * rank if isinstance(padding, int | np.integer) else tuple(padding)
    if len(given) != rank:
        raise ShapeError(f"{name}: padding {padding} has {len(given)} entries, x has {rank} spatial axes")
    pairs = tuple((int(p), int(p)) if isinstance(p, int | np.integer) else (int(p[0]), int(p[1])) for p in given)
    if min(v for pair in pairs for v in pair) < 0:
        raise ShapeError(f"{name}: padding {padding} must not be negative")
    return pairs
