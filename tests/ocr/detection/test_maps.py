"""What is learned of polygons: against the formulas, and read back by the step that makes lines of maps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdl.runtime.frame import Frame
from pdl_ocr.data.maps import HIGH, LOW, SHRUNK, box_maps, text_maps
from pdl_ocr.data.polygons import overlaps, shapely, shapes
from pdl_ocr.steps.boxes import DbBoxes
from pdl_ocr.steps.east_boxes import EastBoxes


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


# -- EAST --------------------------------------------------------------------------------------------------------------
ANSWERED = [0, 2, 3, 4, 5, 6]  # of the maps that are learned, those that the net answers


def test_maps_of_boxes_are_those_of_the_formulas() -> None:
    maps = box_maps([rectangle(60, 42, 100, 24)], np.array([False]), (80, 120))
    assert maps.shape == (20, 30, 8)
    assert pytest.approx(7.2) == SHRUNK * 24
    y, x = (np.argwhere(maps[..., 0] > 0).T + 0.5) * 4
    assert (y.min(), y.max(), x.min(), x.max()) == (38, 46, 18, 102), "from 37.2 to 46.8, and from 17.2 to 102.8"
    assert maps[9, 10, 2:7] == pytest.approx([38 - 30, 110 - 42, 54 - 38, 42 - 10, 0], abs=1e-4)
    assert np.array_equal(maps[..., 7], maps[..., 0])
    assert maps[..., 1].all()


def test_boxes_of_unreadable_tiny_or_outside_lines_teach_nothing() -> None:
    polygons = [rectangle(30, 20, 40, 12), rectangle(90, 20, 20, 2), rectangle(118, 60, 60, 12),
                np.array([[10.0, 70], [50, 78], [50, 70], [10, 78]]), np.zeros((2, 2))]  # fmt: skip
    maps = box_maps(polygons, np.array([True, False, False, True, False]), (80, 100))
    assert not maps[..., [0, 7]].any()
    assert not maps[[5, 5, 15], [7, 22, 23], 1].any()
    assert maps[10, 10, 1] == 1
    assert np.isfinite(maps).all()


@pytest.mark.parametrize("degrees", [-90, -60, -45, -30, -7, 0, 15, 44, 45, 46, 75])
def test_lines_are_read_back_from_their_boxes(degrees: float) -> None:
    """Within a pixel, a line with more corners than four too; those that lean apart, in reading order."""
    lines = [rectangle(110, 120, 130, 24, degrees), rectangle(330, 123, 140, 40, degrees)]
    more = np.insert(lines[1], 1, lines[1][:2].mean(axis=0), axis=0)
    maps = box_maps([lines[0], more], np.array([False] * 2), (240, 440))
    found = EastBoxes().place(maps[..., ANSWERED], Frame(480, 880, (2.0, 2.0)))["boxes"]
    assert [box["score"] for box in found] == [1, 1]
    for line, box in zip(lines, found, strict=True):
        apart = np.abs(np.array(box["polygon"])[:, None] / 2 - line).max(axis=2)
        assert apart.min(axis=0).max() < 1
        assert sorted(apart.argmin(axis=1).tolist()) == [0, 1, 2, 3]


def test_a_trapezium_is_shrunk_as_it_is() -> None:
    """Its longer pair of edges first, at each end by 0.3 of the shorter edge of the corner: 40 and 80 pixels."""
    line = np.array([[20.0, 40], [220, 20], [220, 100], [20, 80]])
    maps = box_maps([line], np.array([False]), (120, 240))
    cos, sin = np.array([200, 20]) / np.hypot(200, 20)
    left, right = 20 + 12 * cos, 220 - 24 * cos
    upper, lower = 40 - 12 * sin + 12, 20 + 24 * sin + 24
    (inner,) = shapes([np.array([[left, upper], [right, lower], [right, 120 - lower], [left, 120 - upper]])])
    middles = (np.indices((30, 60)).transpose(1, 2, 0)[..., ::-1] + 0.5) * 4
    for drawn, x, y in zip(maps[..., 0].flat, *middles.reshape(-1, 2).T, strict=True):
        point = shapely().Point(x, y)
        assert drawn == 1 or not inner.contains(point)
        assert drawn == 0 or inner.distance(point) < 3
