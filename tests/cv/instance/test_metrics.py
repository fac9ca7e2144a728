"""Instance masks found and missed, and the pixels they cover."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pdl.errors import UsageError
from pdl_cv.instance.metrics import MaskDice, MaskMatches


def masks(*boxes: tuple[int, int, int, int]) -> np.ndarray:
    made = np.zeros((len(boxes), 20, 30), np.uint8)
    for mask, (x1, y1, x2, y2) in zip(made, boxes, strict=True):
        mask[y1:y2, x1:x2] = 1
    return made


def objects(*boxes: tuple[int, int, int, int], **more: Any) -> dict[str, Any]:
    return {"labels": np.zeros(len(boxes), int), "masks": masks(*boxes), **more}


TRUTH = objects((0, 0, 10, 10), (20, 0, 30, 10), (0, 12, 8, 20))
ANSWER = objects((0, 0, 10, 8), (0, 1, 10, 10), (20, 0, 30, 4), (15, 15, 18, 18), scores=np.array([0.9, 0.8, 0.7, 0.2]))


def test_matches() -> None:
    """One found with IoU 0.8, its duplicate and one of IoU 0.4 are wrong, two are missed; the last scores too low."""
    metric = MaskMatches()
    metric.update([ANSWER], [TRUTH])
    assert (metric.found, metric.wrong, metric.missed) == (1, 2, 2)
    assert metric.compute() == pytest.approx(1 / 5)
    numbers = metric.numbers()
    assert numbers["SQ"] == pytest.approx(0.8)
    assert numbers["F1"] == pytest.approx(1 / 3)
    assert numbers["PQ"] == pytest.approx(0.8 / 3)
    loose = MaskMatches(iou=0.4, score=0.0)
    loose.update([ANSWER], [TRUTH])
    assert (loose.found, loose.wrong, loose.missed) == (2, 2, 1)


def test_crowds_count_neither_way() -> None:
    metric = MaskMatches(iou=0.4)
    metric.update([ANSWER], [{**TRUTH, "crowd": np.array([False, True, False])}])
    assert (metric.found, metric.wrong, metric.missed) == (1, 1, 1)


def test_other_classes_are_not_found() -> None:
    metric = MaskMatches()
    metric.update([ANSWER], [{**TRUTH, "labels": np.ones(3, int)}])
    assert (metric.found, metric.missed) == (0, 3)


def test_dice_equals_that_of_the_pixels() -> None:
    rng = np.random.default_rng(0)
    metric, expected = MaskDice(), []
    for _ in range(8):
        a, b = ((rng.random((int(rng.integers(0, 4)), 20, 30)) < 0.2).astype(np.uint8) for _ in range(2))
        scores = rng.random(len(a))
        one, other = a[scores >= 0.5].any(axis=0), b.any(axis=0)
        whole = one.sum() + other.sum()
        expected.append(2 * (one & other).sum() / whole if whole else 1.0)
        found = {"labels": np.zeros(len(a), int), "masks": a, "scores": scores}
        metric.update([found], [{"labels": np.zeros(len(b), int), "masks": b}])
    assert metric.compute() == pytest.approx(np.mean(expected))


def test_nothing_at_all() -> None:
    nothing = objects(scores=np.zeros(0))
    dice, matches = MaskDice(), MaskMatches()
    assert np.isnan(dice.compute())
    for metric in (dice, matches):
        metric.update([nothing], [objects()])
    assert dice.compute() == 1.0
    assert np.isnan(matches.compute())
    with pytest.raises(UsageError, match="detections of 1 images, annotations of 2"):
        dice.update([nothing], [TRUTH, TRUTH])
