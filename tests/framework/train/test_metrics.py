"""Accumulators against their formulas, in several batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pdl.errors import UsageError
from pdl.train.metrics import (
    AUC,
    F1,
    R2,
    Accuracy,
    CalibrationError,
    ConfusionMatrix,
    Mean,
    MeanAbsoluteError,
    MeanSquaredError,
    Metric,
    Precision,
    Recall,
    TopK,
    class_metrics,
    softmax,
)  # fmt: skip

rng = np.random.default_rng(0)
SCORES = rng.normal(size=(50, 7)).round(1)  # rounded, so that there are ties
TARGETS = rng.integers(0, 7, 50)
VALUES, WANTED = rng.normal(size=(50, 2)), rng.normal(size=(50, 2))
PREDICTED = SCORES.argmax(axis=1)
CHANCES = np.exp(SCORES) / np.exp(SCORES).sum(axis=1, keepdims=True)


def fed(metric: Metric, *arrays: np.ndarray) -> Any:
    """The value after batches of 16, 16, 16 and 2."""
    for start in range(0, 50, 16):
        metric.update(*(a[start : start + 16] for a in arrays))
    return metric.compute()


def per_class(of: str) -> list[float]:
    rows = []
    for c in range(7):
        hit, said, is_ = ((c == PREDICTED) & (c == TARGETS)).sum(), (c == PREDICTED).sum(), (c == TARGETS).sum()
        precision, recall = hit / max(said, 1), hit / max(is_, 1)
        f1 = 2 * precision * recall / (precision + recall) if hit else 0.0
        rows.append({"precision": precision, "recall": recall, "f1": f1}[of])
    return rows


def pairs_right(scores: np.ndarray, positive: np.ndarray) -> float:
    """The AUC by its definition: over all pairs of a one and a zero."""
    difference = scores[positive][:, None] - scores[~positive][None]
    return float(((difference > 0) + 0.5 * (difference == 0)).mean())


def calibration_by_loop() -> float:
    """Guo et al., equation 5, bin by bin."""
    sure, right, error = CHANCES.max(axis=1), PREDICTED == TARGETS, 0.0
    for k in range(10):
        inside = (sure > k / 10) & (sure <= (k + 1) / 10)
        if inside.any():
            error += inside.mean() * abs(right[inside].mean() - sure[inside].mean())
    return error


CASES = [
    (Accuracy(), (PREDICTED == TARGETS).mean()),
    (TopK(3), np.mean([t in np.argsort(-s, kind="stable")[:3] for s, t in zip(SCORES, TARGETS, strict=True)])),
    (F1(), np.mean(per_class("f1"))),
    (Precision(), np.mean(per_class("precision"))),
    (Recall(), np.mean(per_class("recall"))),
    (Recall(average="weighted"), (PREDICTED == TARGETS).mean()),
    (F1(average="weighted"), np.average(per_class("f1"), weights=np.bincount(TARGETS))),
    (F1(average="micro"), (PREDICTED == TARGETS).mean()),
    (AUC(), np.mean([pairs_right(CHANCES[:, k], k == TARGETS) for k in range(7)])),
    (CalibrationError(bins=10), calibration_by_loop()),
]


@pytest.mark.parametrize(("metric", "expected"), CASES, ids=lambda x: type(x).__name__)
def test_classification(metric: Metric, expected: float) -> None:
    assert fed(metric, SCORES, TARGETS) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        (MeanSquaredError(), np.square(VALUES - WANTED).mean()),
        (MeanSquaredError(root=True), np.sqrt(np.square(VALUES - WANTED).mean())),
        (MeanAbsoluteError(), np.abs(VALUES - WANTED).mean()),
        (R2(), 1 - np.square(VALUES - WANTED).sum() / np.square(WANTED - WANTED.mean()).sum()),
    ],
)
def test_regression(metric: Metric, expected: float) -> None:
    assert fed(metric, VALUES, WANTED) == pytest.approx(expected)


def test_confusion_rows_are_true_classes() -> None:
    counts = fed(ConfusionMatrix(7), SCORES, TARGETS)
    assert counts.sum() == 50
    assert counts[3, 1] == ((TARGETS == 3) & (PREDICTED == 1)).sum()
    with pytest.raises(UsageError, match=r"class of 6 among 3 classes"):
        fed(ConfusionMatrix(3), SCORES, TARGETS)


def test_mean_is_weighted_and_empty_ones_are_nan() -> None:
    mean = Mean()
    assert np.isnan(mean.compute())
    mean.update(1.0, 3)
    mean.update(5.0, 1)
    assert mean.compute() == 2.0
    assert np.isnan(Accuracy().compute())


def test_area_of_two_classes_and_of_several_labels() -> None:
    two, second = SCORES[:, :2], (TARGETS > 2).astype(np.int64)
    assert fed(AUC(), two, second) == pytest.approx(pairs_right(two[:, 1] - two[:, 0], second == 1))
    labels = (rng.random((50, 3)) < [0.3, 0.6, 0.0]).astype(np.float32)  # nobody has the third
    expected = np.mean([pairs_right(SCORES[:, k], labels[:, k] > 0) for k in range(2)])
    assert fed(AUC(), SCORES[:, :3], labels) == pytest.approx(expected)
    assert np.isnan(fed(AUC(), two, np.zeros(50, np.int64)))


@pytest.mark.parametrize("num_classes", [2, 7, 101])
def test_metrics_of_classes(num_classes: int) -> None:
    scores, targets = rng.normal(size=(50, num_classes)), rng.integers(0, num_classes, 50)
    metrics = class_metrics(num_classes)
    assert ("top5" in metrics, "auc" in metrics) == (num_classes > 5, num_classes <= 100)
    values = {name: fed(metric, scores, targets) for name, metric in metrics.items()}
    assert all(0 <= value <= 1 for name, value in values.items() if name != "confusion")
    assert values["confusion"].sum() == 50
    assert np.allclose(softmax(scores).sum(axis=1), 1)


def test_rates_of_nothing_and_of_classes_that_come_late() -> None:
    assert np.isnan(F1().compute())
    late = F1()
    late.update(np.array([0, 1]), np.array([0, 1]))
    late.update(np.array([4]), np.array([2]))
    assert late.compute() == pytest.approx((1 + 1 + 0 + 0) / 4)
