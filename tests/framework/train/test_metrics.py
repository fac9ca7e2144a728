"""Accumulators against their formulas, in several batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pdl.errors import UsageError
from pdl.train.metrics import Accuracy, ConfusionMatrix, FScore, Mean, MeanAbsoluteError, MeanSquaredError, Metric, TopK

rng = np.random.default_rng(0)
SCORES = rng.normal(size=(50, 7)).round(1)  # rounded, so that there are ties
TARGETS = rng.integers(0, 7, 50)
VALUES, WANTED = rng.normal(size=(50, 2)), rng.normal(size=(50, 2))
PREDICTED = SCORES.argmax(axis=1)


def fed(metric: Metric, *arrays: np.ndarray) -> Any:
    """The value after batches of 16, 16, 16 and 2."""
    for start in range(0, 50, 16):
        metric.update(*(a[start : start + 16] for a in arrays))
    return metric.compute()


def per_class(of: str) -> float:
    rows = []
    for c in range(7):
        hit, said, is_ = ((c == PREDICTED) & (c == TARGETS)).sum(), (c == PREDICTED).sum(), (c == TARGETS).sum()
        precision, recall = hit / max(said, 1), hit / max(is_, 1)
        f1 = 2 * precision * recall / (precision + recall) if hit else 0.0
        rows.append({"precision": precision, "recall": recall, "f1": f1}[of])
    return float(np.mean(rows))


CASES = [
    (Accuracy(), (PREDICTED == TARGETS).mean()),
    (TopK(3), np.mean([t in np.argsort(-s, kind="stable")[:3] for s, t in zip(SCORES, TARGETS, strict=True)])),
    (FScore(7), per_class("f1")),
    (FScore(7, of="precision"), per_class("precision")),
    (FScore(7, of="recall"), per_class("recall")),
    (FScore(7, average="micro"), (PREDICTED == TARGETS).mean()),
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
