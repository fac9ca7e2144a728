"""Curves over thresholds and bins of confidence, against their definitions."""

from __future__ import annotations

import numpy as np
import pytest

from pdl.errors import DataError, ShapeError, UsageError
from pdl.ranking import auc, average_precision, calibration_bins, precision_recall_curve, roc_curve


def drawn(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Scores with many ties, of one dtype or the other, and labels, both of which occur."""
    rng = np.random.default_rng(seed)
    count, levels = int(rng.integers(2, 60)), int(rng.integers(1, 40))
    scores = (rng.integers(0, levels, count) / levels).astype(rng.choice([np.float32, np.float64]))
    labels = rng.integers(0, 2, count)
    labels[:2] = 0, 1
    return scores, labels


@pytest.mark.parametrize("seed", range(40))
def test_a_point_is_what_its_threshold_reaches(seed: int) -> None:
    scores, labels = drawn(seed)
    false, true, thresholds = roc_curve(scores, labels, drop_intermediate=False)
    assert thresholds[0] == np.inf
    assert list(thresholds[1:]) == sorted(set(scores.astype(float)), reverse=True)
    for x, y, threshold in zip(false, true, thresholds, strict=True):
        assert x == (scores[labels == 0] >= threshold).mean()
        assert y == (scores[labels == 1] >= threshold).mean()
    precision, recall, thresholds = precision_recall_curve(scores, labels)
    assert (precision[-1], recall[-1]) == (1, 0)
    assert list(thresholds) == sorted(set(scores.astype(float)))
    for p, r, threshold in zip(precision[:-1], recall[:-1], thresholds, strict=True):
        assert p == labels[scores >= threshold].mean()
        assert r == (scores[labels == 1] >= threshold).mean()


@pytest.mark.parametrize("seed", range(40))
def test_areas_are_the_metrics(seed: int) -> None:
    scores, labels = drawn(seed)
    for drop in (False, True):
        false, true, _ = roc_curve(scores, labels, drop_intermediate=drop)
        assert (false[0], true[0], false[-1], true[-1]) == (0, 0, 1, 1)
        assert np.diff(false) @ (true[1:] + true[:-1]) / 2 == pytest.approx(auc(scores, labels), abs=1e-12)
    precision, recall, _ = precision_recall_curve(scores, labels)
    assert -np.diff(recall) @ precision[:-1] == pytest.approx(average_precision(scores, labels), abs=1e-12)


def test_points_between_corners_are_left_out() -> None:
    false, true, thresholds = roc_curve([0.9, 0.8, 0.7, 0.6, 0.5, 0.4], [1, 1, 1, 0, 0, 0])
    assert list(zip(false, true, thresholds, strict=True)) == [(0, 0, np.inf), (0, 1, 0.7), (1, 1, 0.4)]


@pytest.mark.parametrize(("labels", "known"), [([0, 0], "false"), ([1, 1], "true"), ([], "")])
def test_rates_of_a_missing_label_are_nan(labels: list[int], known: str) -> None:
    scores = np.arange(float(len(labels)))
    false, true, _ = roc_curve(scores, labels)
    assert np.isnan(false).all() == (known != "false")
    assert np.isnan(true).all() == (known != "true")
    assert np.isnan(precision_recall_curve(scores, labels)[1]).all() == (known != "true")


def test_bins_by_hand() -> None:
    # bins of 0.25: (0, .25], (.25, .5], (.5, .75], (.75, 1]
    found = calibration_bins([0.0, 0.25, 0.5, 0.9, 1.0, 1.0], [0, 1, 1, 1, 1, 0], bins=4)
    assert list(found.counts) == [2, 1, 0, 3]
    assert found.confidence == pytest.approx([0.125, 0.5, np.nan, 2.9 / 3], nan_ok=True)
    assert found.accuracy == pytest.approx([0.5, 1.0, np.nan, 2 / 3], nan_ok=True)
    assert found.expected_calibration_error == pytest.approx((2 * 0.375 + 0.5 + 3 * 0.3) / 6)
    assert np.isnan(calibration_bins([], []).expected_calibration_error)


@pytest.mark.parametrize("seed", range(20))
def test_bins_add_up(seed: int) -> None:
    rng = np.random.default_rng(seed)
    chances = rng.random(rng.integers(1, 500)).astype(np.float32)
    right = rng.random(len(chances)) < chances
    found = calibration_bins(chances, right, bins=int(rng.integers(1, 30)))
    assert found.counts.sum() == len(chances)
    assert np.nansum(found.counts * found.confidence) == pytest.approx(chances.astype(float).sum())
    assert np.nansum(found.counts * found.accuracy) == pytest.approx(right.sum())
    one = calibration_bins(chances, right, bins=1).expected_calibration_error
    assert one == pytest.approx(abs(chances.astype(float).mean() - right.mean()))
    assert one <= found.expected_calibration_error + 1e-12 <= 1, "a finer look finds no less"


def test_what_cannot_be_read_is_refused() -> None:
    with pytest.raises(DataError, match="label at 1 is 2"):
        roc_curve([0.5, 0.5], [0, 2])
    with pytest.raises(ShapeError, match="2 scores and 1 labels"):
        precision_recall_curve([0.5, 0.5], [0])
    with pytest.raises(DataError, match="outside"):
        calibration_bins([1.01], [1])
    with pytest.raises(UsageError, match="bins=0"):
        calibration_bins([1.0], [1], bins=0)
    assert calibration_bins([1 + 1e-7], [1]).counts[-1] == 1
