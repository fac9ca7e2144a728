"""Errors of deciding by a score: DET curve, EER and minDCF, against counting."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.interpolate import interp1d
from scipy.optimize import brentq

from pdl.errors import UsageError
from pdl.ranking import detection_error_curve, equal_error_rate, minimum_detection_cost
from pdl.report import detection_sections
from pdl.train.metrics import DetectionCost, EqualErrorRate

RNG = np.random.default_rng(0)
LABELS = np.repeat([1, 0], [80, 500])
SCORES = np.round(RNG.normal(2.0 * LABELS, 1.0), 1)  # with ties


def rates(threshold: float) -> tuple[float, float]:
    """Shares of false alarms and of misses, counted."""
    called = threshold <= SCORES
    return called[LABELS == 0].mean(), (~called)[LABELS == 1].mean()


def test_the_curve_is_what_counting_gives() -> None:
    alarms, misses, thresholds = detection_error_curve(SCORES, LABELS)
    np.testing.assert_allclose(np.stack([alarms, misses], axis=1), [rates(t) for t in thresholds], atol=1e-12)


def test_equal_error_rate() -> None:
    rate, threshold = equal_error_rate(SCORES, LABELS)
    alarms, misses, _ = detection_error_curve(SCORES, LABELS)
    expected = brentq(lambda x: interp1d(alarms, misses)(x) - x, 0, 1)
    assert rate == pytest.approx(expected, abs=1e-9)
    low, high = rates(threshold + 0.1), rates(threshold - 0.1)
    assert low[0] <= rate <= high[0]
    assert high[1] <= rate <= low[1]
    assert equal_error_rate([0.9, 0.8, 0.1], [1, 1, 0]) == (0.0, 0.8)
    assert equal_error_rate([0.1, 0.2, 0.9], [1, 1, 0])[0] == 1.0
    assert np.isnan(equal_error_rate([0.5], [1])).all()


@pytest.mark.parametrize("p", [0.01, 0.05, 0.9])
def test_detection_cost(p: float) -> None:
    found, threshold = minimum_detection_cost(SCORES, LABELS, p, miss=10, false_alarm=2)
    candidates = [*np.unique(SCORES), np.inf]
    costs = [10 * p * rates(t)[1] + 2 * (1 - p) * rates(t)[0] for t in candidates]
    assert found == pytest.approx(min(costs) / min(10 * p, 2 * (1 - p)))
    assert candidates[int(np.argmin(costs))] == pytest.approx(threshold)
    assert minimum_detection_cost([0.1, 0.9], [1, 0], p)[0] == 1.0  # a constant answer is as good
    with pytest.raises(UsageError, match="p_target=0 must lie in"):
        minimum_detection_cost(SCORES, LABELS, 0)


def test_metrics_and_section() -> None:
    eer, cost = EqualErrorRate(), DetectionCost(p_target=0.05)
    for part in (slice(0, 200), slice(200, None)):
        eer.update(SCORES[part], LABELS[part])
        cost.update(SCORES[part], LABELS[part])
    assert eer.compute() == equal_error_rate(SCORES, LABELS)[0]
    assert cost.compute() == minimum_detection_cost(SCORES, LABELS, 0.05)[0]
    assert np.isnan(EqualErrorRate().compute())
    roc, det = detection_sections({"score": (SCORES, LABELS)}, "test")
    assert (roc.title, det.title) == ("ROC (test)", "DET (test)")
    assert f"score ({eer.compute():.2%})" in det.html
    assert ">0.05</text>" in det.html  # a tick at a share, not at its deviate
    assert detection_sections({"score": (SCORES[:80], LABELS[:80])}, "test") == []
