"""Keypoints in place."""

from __future__ import annotations

import numpy as np
import pytest

from pdl.errors import ShapeError, UsageError
from pdl_cv.keypoints.metrics import PCK

NAMES = ["left_shoulder", "right_hip", "head"]
TARGETS = np.array([
    [[0, 0, 2], [30, 40, 2], [0, 100, 1]],
    [[0, 0, 2], [30, 40, 0], [0, 100, 1]],
    [[0, 0, 0], [0, 0, 0], [0, 0, 0]],
], np.float32)  # fmt: skip


def test_share_of_the_torso() -> None:
    """The torso of the first is 50 long, so 10 pixels are allowed; of the others it is not known."""
    predictions = TARGETS[..., :2].copy()
    predictions[0, :, 0] += [10, 10.1, 0]
    metric = PCK(NAMES)
    assert np.isnan(metric.compute())
    metric.update(predictions, TARGETS)
    assert metric.compute() == pytest.approx(2 / 3)
    assert metric.table() == {"left_shoulder": 1.0, "right_hip": 0.0, "head": 1.0}
    assert metric.left_out == 2


def test_share_of_the_box() -> None:
    """The boxes are 100 high; what is not annotated does not count."""
    predictions = TARGETS[..., :2] + np.array([20.5, 0])
    metric = PCK(NAMES, reference="box")
    metric.update(predictions, TARGETS)
    assert metric.compute() == 0.0
    wide = PCK(NAMES, reference="box", threshold=0.21)
    wide.update(predictions, TARGETS)
    assert (wide.compute(), wide.seen.tolist(), wide.left_out) == (1.0, [2, 1, 2], 1)


def test_what_does_not_fit_is_said() -> None:
    with pytest.raises(UsageError, match="'torso' is no keypoint; there are left_shoulder, right_hip, head"):
        PCK(NAMES, reference=("torso", "head"))
    with pytest.raises(ShapeError, match=r"expected \[N, 3, 2\]"):
        PCK(NAMES).update(np.zeros((1, 4, 2)), np.zeros((1, 4, 3)))
