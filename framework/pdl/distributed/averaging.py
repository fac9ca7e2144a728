"""Local SGD: ranks step alone, and take the mean of their weights every few steps (Lin et al., arXiv 1808.07217; with
that of the optimiser's state: Yu et al., arXiv 1905.03817)."""

from __future__ import annotations

import json
from collections.abc import Iterable

import numpy as np

from pdl.distributed.group import Group
from pdl.distributed.reduction import add_rows
from pdl.dtype import Array, bfloat16, float32, real_of
from pdl.kernels.copies import convert
from pdl.kernels.memory import empty
from pdl.optim import Optimizer

_COLUMNS = 1 << 18  # numbers of a rank's share that travel at a time


def average(group: Group, arrays: Iterable[Array]) -> None:
    """Put the mean over the ranks, summed in their order, into contiguous arrays of real or complex numbers: the same
    bits on all."""
    for array in arrays:
        flat = array.reshape(-1)
        flat = flat.view(real_of(flat.dtype)) if flat.dtype.kind == "c" else flat
        dtype = float32 if flat.dtype == bfloat16 else flat.dtype
        for begin in range(0, len(flat), group.size * _COLUMNS):
            piece = flat[begin : begin + group.size * _COLUMNS]
            share = -(-len(piece) // group.size)
            mine, rows = np.zeros((group.size, share), dtype), empty((group.size, share), dtype)
            _convert(mine.reshape(-1)[: len(piece)], piece)
            group.exchange(mine, rows, "sum of weights").wait()
            own = mine[group.rank].copy()
            add_rows(own, rows, 1.0 / group.size)
            group.gather(own, rows, "gather of weights").wait()
            _convert(piece, rows.reshape(-1)[: len(piece)])


def average_state(group: Group, optimizer: Optimizer) -> None:
    """The mean of an optimiser's state over the ranks; counts of steps are the most that a rank has. A rank that has
    not updated a parameter yet counts with zeros."""
    own = {name: {key: _shape(v) for key, v in state.items()} for name, state in optimizer.state.items()}
    told = [json.loads(text) for text in group.texts(json.dumps(own))]
    arrays = []
    for name in sorted({name for each in told for name in each}):
        state = optimizer.state.setdefault(name, {})
        known = [each[name] for each in told if name in each]
        for key in sorted({key for each in known for key in each}):
            values = [each[key] for each in known if key in each]
            if not isinstance(values[0], list):
                state[key] = max(values)
                continue
            dtype, *shape = values[0]
            array = state.get(key)
            if array is None:
                array = state[key] = np.zeros(shape, dtype)
            if array.dtype.kind in "fc":
                arrays.append(array)
    average(group, arrays)


def _shape(value: object) -> object:
    """A plain number as it is, an array by its dtype and shape."""
    return [value.dtype.name, *value.shape] if isinstance(value, np.ndarray) else value


def _convert(target: Array, values: Array) -> None:
    if target.dtype != values.dtype:
        convert(target, np.ascontiguousarray(values))
    else:
        target[...] = values
