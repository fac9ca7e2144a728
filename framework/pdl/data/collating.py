"""From samples to a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pdl.data.dataset import Batch, Sample
from pdl.errors import UsageError


def collate(samples: Sequence[Sample]) -> Batch:
    """Stack the values under each key.

    Arrays [...] become [N, ...], int becomes int64 [N], float float32 [N], bool bool [N]; anything else (strings,
    dicts, lists) a list of N. Arrays of different shapes raise UsageError.
    """
    first = samples[0]
    for number, sample in enumerate(samples):
        if sample.keys() != first.keys():
            keys = f"has keys {sorted(sample)}, sample 0 has {sorted(first)}"
            raise UsageError(f"collate: sample {number} of the batch {keys}; give all samples the same keys")
    return {name: _stack(name, [sample[name] for sample in samples]) for name in first}


def stackable(samples: Sequence[Sample]) -> bool:
    """True if every array has the same shape and dtype in all samples."""
    shapes = [[(v.shape, v.dtype) for v in s.values() if isinstance(v, np.ndarray)] for s in samples]
    return all(shape == shapes[0] for shape in shapes)


def _stack(name: str, values: list[Any]) -> Any:
    head = values[0]
    if isinstance(head, np.ndarray):
        for number, value in enumerate(values):
            if np.shape(value) != head.shape:
                raise UsageError(f"collate: '{name}' has shape {np.shape(value)} in sample {number} of the batch and "
                                 f"{head.shape} in sample 0; add a Resize, or give the loader a collate of your own")
        return np.stack(values)
    if isinstance(head, bool | np.bool_):
        return np.array(values, bool)
    if isinstance(head, int | np.integer):
        return np.array(values, np.int64)
    if isinstance(head, float | np.floating):
        return np.array(values, np.float32)
    return values
