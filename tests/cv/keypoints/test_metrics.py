"""Keypoints in place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pdl.errors import ShapeError, UsageError
from pdl_cv.detection.metrics import Objects
from pdl_cv.keypoints.metrics import PCK, CutOutAP
from tests.cv.detection.test_metrics import pycocotools_numbers

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


@pytest.mark.parametrize("points", [17, 4])
def test_precision_of_objects_cut_out_equals_pycocotools(points: int) -> None:
    pytest.importorskip("pycocotools", reason="compares with COCO's own program")
    rng = np.random.default_rng(points)
    rows: list[tuple[np.ndarray, dict[str, Any]]] = []
    found: list[Objects] = []
    known: list[Objects] = []
    for image in range(12):
        count = int(rng.integers(1, 5))
        low = rng.uniform(0, 100, (count, 2))
        boxes = np.concatenate([low, low + rng.uniform(20, 160, (count, 2))], axis=1)
        places = boxes[:, None, :2] + rng.random((count, points, 2)) * (boxes[:, None, 2:] - boxes[:, None, :2])
        truth = np.concatenate([places, rng.choice([0, 1, 2], (count, points, 1), p=[0.2, 0.2, 0.6])], axis=2)
        truth[:, 0, 2] = 2  # objects without points are not cut out
        wide = rng.choice([1.0, 4.0, 40.0], (count, 1, 1))
        answer = np.concatenate([places + rng.normal(0, wide, places.shape), rng.random((count, points, 1))], axis=2)
        area = rng.uniform(0.4, 0.9, count) * (boxes[:, 2:] - boxes[:, :2]).prod(axis=1)
        labels = np.zeros(count, np.int64)
        known.append({"labels": labels, "boxes": boxes, "keypoints": truth, "area": area, "crowd": labels})
        found.append({"labels": labels, "boxes": boxes, "scores": answer[..., 2].mean(axis=1), "keypoints": answer})
        rows += [
            (answer[k], {"keypoints": truth[k], "box": boxes[k], "area": area[k], "image": image}) for k in range(count)
        ]
    sigmas = None if points == 17 else [0.05, 0.1, 0.02, 0.07]
    metric = CutOutAP(sigmas=sigmas)
    for start in range(0, len(rows), 5):  # batches cut images
        some = rows[start : start + 5]
        metric.update(np.stack([answer for answer, _ in some]), [truth for _, truth in some])
    theirs = pycocotools_numbers(found, known, 1, "keypoints", sigmas)
    np.testing.assert_allclose(list(metric.numbers().values()), np.where(theirs < 0, np.nan, theirs), atol=1e-12)
    assert 0.05 < metric.compute() < 0.95
