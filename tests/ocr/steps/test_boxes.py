"""The step db_boxes: drawn lines are found again, at any angle, in pixels of the original image."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import pdl
from pdl.dtype import float32
from pdl.errors import DataError, UsageError
from pdl.ops.base import Spec
from pdl.program import trace
from pdl.runtime import bundle
from pdl.runtime.frame import Frame
from pdl.runtime.sample import Sample
from pdl_ocr.steps.boxes import grow, in_reading_order, rectangles
from tests.pipelines import pipeline

cv2 = pytest.importorskip("cv2")

PRE = [{"step": "image", "mode": "gray"}, {"step": "to_float"}]


def boxes(value: Any, frame: Frame | None = None, **arguments: Any) -> list[dict[str, Any]]:
    """What the step finds in a map, which is as large as the image where no frame says otherwise."""
    steps = pipeline({"x": PRE}, {"y": [{"step": "db_boxes", **arguments}]})
    found: list[dict[str, Any]] = steps.finish({"y": value}, Sample({}, frame or Frame(*value.shape[-2:])))["boxes"]
    return found


def map_of(shape: tuple[int, int], *polygons: np.ndarray, value: float = 0.9) -> np.ndarray:
    x = np.zeros(shape, np.float32)
    for each in polygons:
        cv2.fillPoly(x, [np.rint(each).astype(np.int32)], value)
    return x


def turned(middle: tuple[float, float], size: tuple[float, float], degrees: float) -> np.ndarray:
    corners: np.ndarray = cv2.boxPoints((middle, size, degrees))
    return corners


def overlap(a: Any, b: Any) -> float:
    """Intersection over union of two convex polygons."""
    a, b = np.asarray(a, np.float32), np.asarray(b, np.float32)
    both = cv2.intersectConvexConvex(a, b)[0]
    return float(both / (cv2.contourArea(a) + cv2.contourArea(b) - both))


@pytest.mark.parametrize("degrees", [0, 7, 30, 44, 60, 89, 120, -15])
def test_a_line_at_any_angle(degrees: float) -> None:
    line = turned((200.3, 190.8), (160, 40), degrees)
    (found,) = boxes(map_of((400, 420), line)[None], ratio=0)
    assert overlap(found["polygon"], line) > 0.9
    assert 0.85 < found["score"] < 0.9 + 1e-6  # the border of the rectangle takes some pixels from outside
    x, y = np.array(found["polygon"]).T
    assert sorted(x)[:2] == sorted([x[0], x[3]])  # the left two first and last,
    assert y[0] < y[3]  # the upper one first,
    assert np.dot(x, np.roll(y, -1)) > np.dot(y, np.roll(x, -1))  # clockwise on a screen


@pytest.mark.parametrize("degrees", [0, 20, -33])
def test_a_shrunk_line_grows_to_its_size(degrees: float) -> None:
    # training draws lines moved inwards by d = A (1 - r^2) / L; here the inner one is drawn, and d put back with the
    # ratio that makes d' = A' ratio / L' the same
    w, h = 300.0, 60.0
    d = w * h * (1 - 0.4**2) / (2 * (w + h))
    inner = (w - 2 * d, h - 2 * d)
    ratio = d * 2 * sum(inner) / (inner[0] * inner[1])
    x = map_of((500, 500), turned((250, 250), inner, degrees))
    (found,) = boxes(x, ratio=ratio)
    assert overlap(found["polygon"], turned((250, 250), (w, h), degrees)) > 0.9


def test_growing_is_exact() -> None:
    corners = turned((50, 40), (30, 10), 25).astype(np.float64)
    sides = tuple(float(np.hypot(*(corners[i + 1] - corners[i]))) for i in (0, 1))
    grown, short = grow(corners, sides, 1.5)  # type: ignore[arg-type]
    d = 1.5 * 300 / 80
    assert sorted(cv2.minAreaRect(grown.astype(np.float32))[1]) == pytest.approx([10 + 2 * d, 30 + 2 * d], rel=1e-4)
    assert short == pytest.approx(10 + 2 * d, rel=1e-4)
    assert grown.mean(0) == pytest.approx([50, 40], rel=1e-5)


def test_what_counts_as_a_line() -> None:
    sure, unsure = turned((60, 20), (80, 16), 0), turned((60, 60), (80, 16), 0)
    x = np.maximum(map_of((100, 120), sure), map_of((100, 120), unsure, value=0.5))
    x[88:91, 10:19] = 1  # a speck
    assert len(boxes(x, score=0.6)) == 1
    assert [round(each["score"], 1) for each in boxes(x, score=0.4)] == [0.9, 0.5]
    assert boxes(x, threshold=0.95) == []
    assert boxes(np.zeros((64, 64), np.float32)) == []
    assert len(boxes(x, score=0.4, least=1)) == 3
    assert len(boxes(x, score=0.4, most=1)) <= 1


def test_a_hole_is_no_line_and_a_line_in_a_ring_is_one() -> None:
    x = map_of((200, 300), turned((150, 100), (280, 180), 0)) - map_of((200, 300), turned((150, 100), (240, 140), 0))
    assert len(boxes(x, score=0)) == 1
    assert len(boxes(np.maximum(x, map_of((200, 300), turned((150, 100), (100, 20), 0))), score=0)) == 2
    assert rectangles(np.zeros((4, 4), bool), 10) == []


def test_places_are_those_of_the_original_picture() -> None:
    frame = Frame(1000, 400, (2.0, 4.0), (-10.0, 8.0))
    (found,) = boxes(map_of((100, 200), turned((100, 50), (60, 20), 0)), frame, ratio=0)
    assert found["polygon"] == [[130.0, 168.0], [250.0, 168.0], [250.0, 248.0], [130.0, 248.0]]
    (edge,) = boxes(map_of((100, 200), turned((195, 50), (40, 20), 0)), Frame(100, 200), ratio=2)
    assert max(x for x, _ in edge["polygon"]) == 200.0


def test_rows_are_read_from_the_left() -> None:
    places = [(250, 33), (50, 30), (150, 27), (60, 70), (200, 68), (100, 110)]
    order = in_reading_order([turned(place, (60, 20), 1.5)[[1, 2, 3, 0]] for place in places])
    assert [places[i][0] for i in order] == [50, 150, 250, 60, 200, 100]
    assert in_reading_order([]) == []


def test_a_session_tells_places_in_each_image() -> None:
    program = trace(lambda x: pdl.permute_dims(x * 1.0, (0, 3, 1, 2)), Spec((3, 64, 96, 1), float32))
    for value, label in program.names().items():
        value.name = label
    stored = {"kind": "program", "program": program.to_dict(), "inputs": ["x"], "outputs": ["y"]}
    pre = [{"step": "image", "mode": "gray"}, {"step": "resize", "size": [64, 96]}, {"step": "to_float"}]
    steps = {"pre": {"x": pre}, "post": {"y": [{"step": "db_boxes", "ratio": 0}]}}
    captured = {str(v.name): v.tensor._data for v in program.captures if v.tensor is not None}
    session = pdl.runtime.load(bundle.pack(stored, captured, pipeline=steps))
    lines = [((100, 40), (80, 20)), ((60, 200), (50, 60)), ((150, 30), (20, 18))]
    sizes = [(64, 192), (400, 120), (64, 300)]
    images = [
        map_of(size, turned(*line, 0), value=255).astype(np.uint8) for size, line in zip(sizes, lines, strict=True)
    ]
    for line, answer in zip(lines, session.batch(images), strict=True):
        (found,) = answer["boxes"]
        assert overlap(found["polygon"], turned(*line, 0)) > 0.85


def test_boxes_that_agree() -> None:
    steps, sample = pipeline({"x": PRE}, {"y": [{"step": "db_boxes"}]}), Sample({}, Frame(100, 200))
    line = map_of((100, 200), turned((100, 50), (60, 20), 0))
    faint = map_of((100, 200), turned((50, 20), (40, 16), 0), value=0.6 + 1e-4)
    for other, same in (
        (line, True),
        (map_of((100, 200), turned((101, 50), (60, 20), 0)), True),
        (map_of((100, 200), turned((108, 50), (60, 20), 0)), False),
        (np.zeros_like(line), False),
        (np.maximum(line, faint), True),
    ):
        assert steps.agree({"y": line}, {"y": other}, sample, 1e-3) is same


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"threshold": 2}, r"threshold=2 must be from 0 to 1"),
        ({"score": "high"}, r"score='high' must be from 0 to 1"),
        ({"ratio": -1}, r"ratio=-1 must be from 0 to 10"),
        ({"least": 0}, r"least=0 must be a number from 1"),
        ({"most": 10**9}, r"most=1000000000 must be a number from 1 to 100000"),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        boxes(np.zeros((4, 4)), **arguments)


def test_what_it_cannot_take(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"\[H, W, 1\] or \[H, W\], got an output of shape \(2, 4, 4\)"):
        boxes(np.zeros((2, 4, 4)))
    steps = pipeline({"x": PRE}, {"y": [{"step": "db_boxes"}]})
    with pytest.raises(UsageError, match="needs to know where the output lies in an image"):
        steps.finish({"y": np.zeros((4, 4))}, Sample())
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(UsageError, match="outlines are found by OpenCV, which is not installed"):
        boxes(np.ones((9, 9)))
