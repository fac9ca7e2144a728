"""Columns of rows, brought to a common scale by the training data."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

Array = np.ndarray


class Scaling:
    """(value - shift) / factor of each column, float32."""

    def __init__(self, shift: ArrayLike = (), factor: ArrayLike = ()) -> None:
        self.shift, self.factor = np.asarray(shift, np.float64), np.asarray(factor, np.float64)

    def __call__(self, features: Array) -> Array:
        return ((features - self.shift) / self.factor).astype(np.float32)


def fitted(scale: str, dataset: Any, columns: int) -> Scaling:
    """The scaling "none", "standard" (mean 0, deviation 1) or "angle" (least and largest value to 0 and pi) of a data
    set; a column that never changes keeps its scale."""
    if scale == "none":
        return Scaling(np.zeros(columns), np.ones(columns))
    values = rows_of(dataset).astype(np.float64)
    if scale == "standard":
        shift, factor = values.mean(axis=0), values.std(axis=0)
    else:
        shift, factor = values.min(axis=0), np.ptp(values, axis=0) / np.pi
    return Scaling(shift, np.where(factor > 0, factor, 1.0))


def rows_of(dataset: Any) -> Array:
    """All rows of a data set, or of a part of it, [N, D]."""
    return np.stack([np.asarray(dataset[i]["features"]) for i in range(len(dataset))])
