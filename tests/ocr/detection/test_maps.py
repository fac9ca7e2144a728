"""What is learned of polygons: against the formulas, and read back by the step that makes lines of maps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdl.runtime.frame import Frame
from pdl_ocr.data.polygons import overlaps, shapes
from pdl_ocr.detection.maps import HIGH, LOW, text_maps
from pdl_ocr.steps.boxes import DbBoxes


def rectangle(x: float, y: float, width: float, height: float, degrees: float = 0.0) -> np.ndarray:
    corners = np.array([[-width, -height], [width, -height], [width, height], [-width, height]]) / 2
    a = np.deg2rad(degrees)
    return corners @ np.array([[np.cos(a), np.sin(a)], [-np.sin(a), np.cos(a)]]) + (x, y)


def test_maps_of_a_line_are_those_of_the_formulas() -> None:
    maps = text_maps([rectangle(60, 40, 100, 20)], np.array([False]), (80, 120), 0.4)
    distance = 2000 * (1 - 0.4**2) / 240
    assert distance == pytest.approx(7)
    inside = np.argwhere(maps[..., 0] > 0)
    assert inside.min(axis=0).tolist() == [37, 17]
    assert inside.max(axis=0).tolist() == [43, 103]
    assert maps[..., 1].all()
    middle = maps[:, 60, 2]
    assert middle[30] == pytest.approx(HIGH), "on the border"
    for row, away in ((33, 3), (27, 3), (35, 5)):
        assert middle[row] == pytest.approx(HIGH - (HIGH - LOW) * away / 7, abs=0.01)
    assert middle[10] == pytest.approx(LOW)
    assert maps[:, 60, 3].nonzero()[0].tolist() == list(range(23, 58))


def test_what_is_unreadable_tiny_or_outside_teaches_nothing() -> None:
    polygons = [
        rectangle(30, 20, 40, 12),
        rectangle(90, 20, 20, 2),
        rectangle(118, 60, 60, 12),
        rectangle(60, 60, 40, 12),
    ]
    maps = text_maps(polygons, np.array([True, False, False, False]), (80, 100), 0.4)
    assert not maps[:40, :, 0].any()
    assert not maps[20, [30, 90], 1].any()
    assert not maps[60, 95, 1], "a fifth of the line is on the page"
    assert maps[60, 60, 0] == 1
    assert maps[60, 60, 1] == 1


def test_lines_that_cross_themselves_or_lie_elsewhere_end_nothing() -> None:
    bow = np.array([[10.0, 10], [50, 30], [50, 10], [10, 30]])
    outside = rectangle(-200, -200, 40, 12)
    nothing = np.zeros((2, 2))
    maps = text_maps([bow, outside, nothing], np.array([False] * 3), (64, 64), 0.4)
    assert np.isfinite(maps).all()


@given(
    x=st.floats(80, 120),
    y=st.floats(60, 100),
    width=st.floats(40, 140),
    height=st.floats(22, 40),
    turn=st.floats(-20, 20),
)
def test_lines_are_read_back_from_their_maps(x: float, y: float, width: float, height: float, turn: float) -> None:
    line = rectangle(x, y, width, height, turn)
    maps = text_maps([line], np.array([False]), (160, 200), 0.4)
    (box,) = DbBoxes().place(maps[..., 0], Frame(160, 200))["boxes"]
    both, ours, theirs = overlaps(shapes([np.array(box["polygon"])]), shapes([line]))
    assert both[0, 0] / (ours[0] + theirs[0] - both[0, 0]) > 0.5, "a pair, by the protocol of ICDAR"
