"""Steps instead of batches: every step sees the whole problem."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from pdl.data import Batch


class Steps:
    """`count` steps an epoch; `dataset` is what they are about."""

    def __init__(self, count: int, dataset: Any) -> None:
        self.count, self.dataset = count, dataset

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Batch]:
        for _ in range(self.count):
            yield self.batch()

    def batch(self) -> Batch:
        """What a step is given: the numbers of the problems, which are known to the task."""
        return {"problem": np.arange(len(self.dataset))}
