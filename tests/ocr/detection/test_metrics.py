"""Protocols of detection, by cases whose answers follow from their definitions."""

from __future__ import annotations

import numpy as np
import pytest

from pdl_ocr.detection.metrics import detection_metrics


def box(x: float, y: float, width: float, height: float) -> np.ndarray:
    return np.array([[x, y], [x + width, y], [x + width, y + height], [x, y + height]], float)


def measured(found: list[np.ndarray], there: list[np.ndarray], ignored: list[bool] | None = None) -> dict[str, float]:
    metrics = detection_metrics()
    answer = {"boxes": [{"polygon": each.tolist(), "score": 0.9} for each in found]}
    original = {"polygons": there, "ignored": np.array(ignored or [False] * len(there), bool), "index": 0}
    for metric in metrics.values():
        metric.update([answer], [original])
    return {name: metric.compute() for name, metric in metrics.items() if name != "pages"}


def test_what_is_there_is_found() -> None:
    lines = [box(0, 0, 100, 20), box(0, 40, 50, 20)]
    assert measured(lines, lines) == pytest.approx({"hmean": 1, "precision": 1, "recall": 1, "deteval": 1})


def test_pairs_need_an_overlap_of_a_half() -> None:
    found = measured([box(0, 0, 49, 20), box(0, 40, 51, 20)], [box(0, 0, 100, 20), box(0, 40, 100, 20)])
    assert (found["precision"], found["recall"], found["hmean"]) == (0.5, 0.5, 0.5)


def test_a_line_is_matched_once_and_by_the_better() -> None:
    found = measured([box(0, 0, 90, 20), box(0, 0, 100, 20)], [box(0, 0, 100, 20)])
    assert (found["precision"], found["recall"]) == (0.5, 1.0)


def test_what_is_found_in_unreadable_text_does_not_count() -> None:
    found = measured([box(0, 0, 100, 20), box(2, 42, 40, 10)], [box(0, 0, 100, 20), box(0, 40, 100, 20)], [False, True])
    assert (found["precision"], found["recall"]) == (1.0, 1.0)


def test_a_line_in_parts_counts_less_by_deteval_alone() -> None:
    parts = [box(0, 0, 48, 20), box(52, 0, 48, 20)]
    found = measured(parts, [box(0, 0, 100, 20)])
    assert found["hmean"] == 0.0
    assert found["deteval"] == pytest.approx(0.8), "recall 0.8, precision (0.8 + 0.8) / 2"
    found = measured([box(0, 0, 320, 20)], [box(x, 0, 100, 20) for x in (0, 110, 220)])
    assert found["deteval"] == pytest.approx(0.8)


def test_empty_pages() -> None:
    assert measured([], [])["hmean"] == 0
    assert measured([box(0, 0, 9, 9)], [])["precision"] == 0
    assert measured([], [box(0, 0, 9, 9)])["recall"] == 0


def test_lines_are_polygons() -> None:
    bent = np.array([[0, 0], [50, 20], [100, 0], [100, 20], [50, 40], [0, 20]], float)
    assert measured([bent], [bent])["hmean"] == 1
    assert measured([box(0, 0, 100, 40)], [bent])["hmean"] == 0.0, "half of the rectangle is the line, and not more"
