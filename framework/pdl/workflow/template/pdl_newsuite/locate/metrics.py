"""Metrics: accumulators over the batches of an evaluation."""

from __future__ import annotations

from typing import Any

import numpy as np

from pdl.train import Metric


class Distance(Metric):
    """The mean distance of points float [N, 2] from where they should be."""

    def __init__(self) -> None:
        self.total, self.count = 0.0, 0

    def update(self, points: Any, wanted: Any) -> None:
        """One batch."""
        self.total += float(np.linalg.norm(np.asarray(points, np.float64) - wanted, axis=1).sum())
        self.count += len(points)

    def compute(self) -> float:
        """NaN before the first batch."""
        return self.total / self.count if self.count else float("nan")
