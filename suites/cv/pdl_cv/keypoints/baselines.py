"""The mean pose: what nobody has to look for."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from pdl.train.metrics import Metric
from pdl_cv.keypoints.loader import Instances


def mean_pose(instances: Instances) -> np.ndarray:
    """float64 [P, 2]: the mean place of each point that is known, in shares of the window's width and height."""
    total, count = np.zeros(()), np.zeros(())
    for i in range(len(instances)):
        crop, points = instances.placed(i)
        known = points[:, 2:] > 0
        shares = (points[:, :2] - crop[:2]) / np.array(crop[2:], np.float64)
        total, count = total + np.where(known, shares, 0.0), count + known
    return np.asarray(np.where(count > 0, total / np.maximum(count, 1), 0.5))


def baselines(
    train: Instances, test: Instances, metrics: Callable[[], Mapping[str, Metric]]
) -> dict[str, dict[str, float]]:
    """The mean pose of the training data, laid into every window of the test."""
    pose, measured = mean_pose(train), metrics()
    pairs = [test.placed(i) for i in range(len(test))]
    found = np.stack([pose * crop[2:] + crop[:2] for crop, _ in pairs])
    truth = np.stack([points for _, points in pairs])
    for metric in measured.values():
        metric.update(found, truth)
    return {"mean pose": {name: float(metric.compute()) for name, metric in measured.items()}}
