"""Sparse tensors of TensorFlow Lite: a tree with a level for each axis, of which some are cut in blocks, as in TACO
(Kjolstad et al., "The tensor algebra compiler", 2017). A level has all positions, or those that it lists.
"""

from __future__ import annotations

import math

import numpy as np

from pdl.dtype import Array
from pdl.errors import UsageError
from pdl.onnx.flatbuffers import Table
from pdl.onnx.values import require_room

#: kinds of vectors of integers, by their numbers
_INTEGERS = {1: np.int32, 2: np.uint16, 3: np.uint8}


def dense(table: Table, values: Array, shape: tuple[int, ...], what: str) -> Array:
    """The array [*shape] whose entries other than 0 are `values`, in the order of the tree; UsageError where the tree
    does not fit."""
    require_room(what, shape, values.itemsize)
    order, blocked, levels = table.numbers(0, np.int32), table.numbers(1, np.int32), list(table.tables(2))
    rank, most = len(shape), math.prod(shape)
    if sorted(order) != list(range(len(levels))) or len(levels) != rank + len(blocked) or min(blocked, default=0) < 0:
        raise _fault(what, f"levels of the axes {order[:8]}, blocks of {blocked[:8]}, for {rank} axes")
    if max(blocked, default=-1) >= rank:
        raise _fault(what, f"blocks of the axes {blocked[:8]}")
    sizes = {axis: level.number(1, "i") for axis, level in zip(order, levels, strict=True)}
    at, count = dict[int, Array](), 1
    for axis, level in zip(order, levels, strict=True):
        if level.number(0, "b"):
            segments, found = (_integers(level, field) for field in (2, 4))
            widths = np.diff(segments)
            if len(segments) != count + 1 or segments[0] or (widths < 0).any() or segments[-1] != len(found):
                raise _fault(what, f"{len(segments)} segments for {count} branches")
            here = found
        else:
            if not 0 <= sizes[axis] <= max(most, 1) or count * sizes[axis] > most:
                raise _fault(what, f"{count} branches of {sizes[axis]} each")
            widths = np.full(count, sizes[axis], np.int64)
            here = np.tile(np.arange(sizes[axis]), count)
        at = {known: np.repeat(places, widths) for known, places in at.items()}
        at[axis], count = here, len(here)
    if count != values.size:
        raise _fault(what, f"{count} places for {values.size} values")
    for i, axis in enumerate(blocked):
        at[axis] = at[axis] * sizes[rank + i] + at[rank + i]
    if any(count and not 0 <= at[a].min() <= at[a].max() < shape[a] for a in range(rank)):
        raise _fault(what, f"places outside {shape}")
    made = np.zeros(shape, values.dtype)
    made[tuple(at[a] for a in range(rank))] = values.reshape(-1)
    return made


def _integers(level: Table, field: int) -> Array:
    """A union of vectors of integers."""
    kind, vector = _INTEGERS.get(level.number(field, "B")), level.table(field + 1)
    return np.array([] if kind is None or vector is None else vector.numbers(0, kind), np.int64)


def _fault(what: str, text: str) -> UsageError:
    return UsageError(f"{what} is stored sparse and damaged: {text}")
