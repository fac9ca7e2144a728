"""What nobody has to learn: the class that each place of an image mostly has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.data.transforms.pixels import resize
from pdl_cv.data.index_maps import IGNORED
from pdl_cv.segmentation.metrics import Overlap

if TYPE_CHECKING:
    from pdl_cv.segmentation.task import Segmentation

GRID = 16  # cells along each side of an image


def typical(dataset: Any, classes: int) -> np.ndarray:
    """uint8 [GRID, GRID]: the most frequent class of each cell, over the images of a data set."""
    counts = np.zeros((classes, GRID * GRID), np.int64)
    for index in range(len(dataset)):
        cells = _scaled(dataset.annotation(index)["mask"], (GRID, GRID)).reshape(-1)
        known = np.flatnonzero(cells != IGNORED)
        np.add.at(counts, (cells[known], known), 1)
    return counts.argmax(axis=0).reshape(GRID, GRID).astype(np.uint8)


def baselines(task: Segmentation, train: Any, test: Any) -> dict[str, dict[str, float]]:
    """The typical mask of the training data, laid over every image of the test."""
    mask = typical(train, len(task.classes))
    measured = [metric for metric in task.metrics().values() if isinstance(metric, Overlap)]
    for index in range(len(test)):
        truth = test.annotation(index)["mask"]
        for metric in measured:
            metric.update([_scaled(mask, truth.shape)], [truth])
    return {"typical mask": {name: value for metric in measured for name, value in metric.numbers().items()}}


def _scaled(mask: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    return np.asarray(resize(mask[..., None], size, "nearest"))[..., 0]
