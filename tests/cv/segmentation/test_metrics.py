"""Overlaps and edges of classes."""

from __future__ import annotations

import numpy as np
import pytest

from pdl_cv.data.index_maps import IGNORED
from pdl_cv.segmentation.metrics import BoundaryF, Overlap, Weakest

TRUTH = np.array([[0, 0, 1, 1], [0, 0, 1, IGNORED], [2, 2, 2, IGNORED]], np.uint8)
FOUND = np.array([[0, 1, 1, 1], [0, 0, 1, 0], [2, 2, 1, 2]], np.uint8)


def test_counts_over_all_images() -> None:
    metric = Overlap(["a", "b", "c", "d"], background=0, regions={"bc": [1, 2]})
    metric.update([FOUND, FOUND], [TRUTH, TRUTH])
    numbers = metric.numbers()
    iou, dice = [3 / 4, 3 / 5, 2 / 3], [6 / 7, 6 / 8, 4 / 5]
    assert numbers["mIoU"] == pytest.approx(np.mean(iou))  # d is nowhere
    assert numbers["dice"] == pytest.approx(np.mean(dice[1:]))
    assert numbers["accuracy"] == pytest.approx(8 / 10)
    assert numbers["mean_accuracy"] == pytest.approx(np.mean([3 / 4, 1, 2 / 3]))
    assert numbers["IoU_bc"] == pytest.approx(6 / 7)
    assert numbers["dice_bc"] == pytest.approx(12 / 13)
    row = metric.table()[1]
    assert (row.name, row.precision, row.recall) == ("b", pytest.approx(3 / 5), 1.0)


def test_edges_within_a_distance() -> None:
    truth, near, far = (np.zeros((100, 100), np.uint8) for _ in range(3))
    truth[20:60, 20:60], near[21:61, 20:60], far[35:75, 20:60] = 1, 1, 1

    def score(found: np.ndarray) -> float:
        metric = BoundaryF()
        metric.update([found], [truth])
        return metric.compute()

    assert score(truth) == 1
    assert score(near) == 1  # 0.75 % of the diagonal is one pixel
    assert 0.3 < score(far) < 0.4  # two sides, of which 25 of 40 pixels are on both


def test_weakest_images_first() -> None:
    metric = Weakest(1)
    metric.update([FOUND, TRUTH], [TRUTH, TRUTH], [7, 8])
    ((weak, mask),) = metric.compute()
    assert (weak.index, weak.accuracy) == (7, 0.8)
    assert mask is FOUND
