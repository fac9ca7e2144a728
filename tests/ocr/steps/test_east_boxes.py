"""The step east_boxes: what cells tell becomes boxes, and outputs that make no sense end nothing."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from pdl.errors import DataError, UsageError
from pdl.runtime.frame import Frame
from pdl.runtime.sample import Sample
from pdl_ocr.data.polygons import overlaps, shapes
from pdl_ocr.steps.east_boxes import CELLS, EastBoxes, ious, suppressed
from tests.pipelines import pipeline

PRE = [{"step": "image", "mode": "gray"}, {"step": "to_float"}]


def boxes(value: Any, frame: Frame | None = None, **arguments: Any) -> list[dict[str, Any]]:
    steps = pipeline({"x": PRE}, {"y": [{"step": "east_boxes", **arguments}]})
    frame = frame or Frame(4 * value.shape[0], 4 * value.shape[1])
    found: list[dict[str, Any]] = steps.finish({"y": value}, Sample({}, frame))["boxes"]
    return found


def told(size: tuple[int, int], *lines: tuple[int, int, int, int, float]) -> np.ndarray:
    """Maps [h, w, 6] of upright lines (left, top, right, bottom, probability) in pixels, told by all cells in them."""
    maps = np.zeros((*size, 6), np.float32)
    for left, top, right, bottom, score in lines:
        for row in range(top // 4, bottom // 4):
            for column in range(left // 4, right // 4):
                x, y = 4 * column + 2, 4 * row + 2
                maps[row, column] = [score, y - top, right - x, bottom - y, x - left, 0]
    return maps


def test_each_line_is_one_box() -> None:
    """Two beside each other, which interrupt each other row by row, and one below; the least score counts."""
    maps = told((24, 40), (8, 8, 68, 24, 0.9), (80, 8, 152, 32, 0.95), (20, 60, 120, 80, 0.5))
    found = boxes(maps, threshold=0.4, score=0.4)
    assert [each["polygon"] for each in found] == [
        [[8, 8], [68, 8], [68, 24], [8, 24]],
        [[80, 8], [152, 8], [152, 32], [80, 32]],
        [[20, 60], [120, 60], [120, 80], [20, 80]],
    ]
    assert [each["score"] for each in found] == pytest.approx([0.9, 0.95, 0.5])
    assert len(boxes(maps, threshold=0.4, score=0.6)) == len(boxes(maps)) == 2
    assert boxes(maps, threshold=0.4, score=0.4, least=21) == [found[1]]
    assert len(boxes(maps, threshold=0.4, score=0.4, most=2)) <= 2
    assert boxes(maps, Frame(48, 80, (0.5, 0.5)))[0]["polygon"] == [[4, 4], [34, 4], [34, 12], [4, 12]]


def test_boxes_are_averaged_by_their_probabilities() -> None:
    maps = np.zeros((4, 8, 6), np.float32)
    maps[1, 2], maps[1, 3] = [0.9, 4, 14, 4, 6, 0], [0.6, 6, 16, 6, 10, 0]
    (found,) = boxes(maps, threshold=0.5, score=0.5)
    assert found["score"] == pytest.approx(0.75)
    first, second = np.array([4, 2, 24, 10]), np.array([4, 0, 30, 12])
    left, top, right, bottom = (0.9 * first + 0.6 * second) / 1.5
    expected = [[left, top], [right, top], [right, bottom], [left, bottom]]
    assert np.allclose(found["polygon"], expected, atol=0.06)


def test_overlaps_are_those_of_polygons() -> None:
    """Of boxes that are the same, that share edges, nearly or wholly, and of any others; against Shapely."""
    rng = np.random.default_rng(0)

    def some(n: int) -> np.ndarray:
        middle, (w, h), a = rng.uniform(100, 140, (2, n)), rng.uniform(5, 80, (2, n)), rng.uniform(-0.8, 0.8, n)
        x, y = np.array([-w, w, w, -w]) / 2, np.array([-h, -h, h, h]) / 2
        turned = np.stack([x * np.cos(a) - y * np.sin(a), x * np.sin(a) + y * np.cos(a)])
        return (turned + middle[:, None]).transpose(2, 1, 0)

    a, b = some(400), some(400)
    b[:50] = a[:50]
    b[50:100] = a[50:100] + (a[50:100, 1:2] - a[50:100, :1]) * rng.uniform(-1.2, 1.2, (50, 1, 1))
    b[100:200] = a[100:200] + rng.normal(size=(100, 4, 2)) * 10.0 ** rng.uniform(-12, -3, (100, 1, 1))
    for one, other, ours in zip(a, b, ious(a, b), strict=True):
        both, first, second = overlaps(shapes([one]), shapes([other]))
        assert ours == pytest.approx(both[0, 0] / (first[0] + second[0] - both[0, 0]), abs=1e-5)
    kept = suppressed(a, 0.2)
    between = np.array([ious(np.broadcast_to(a[i], a.shape), a) for i in kept])
    assert (between[:, kept] - np.eye(len(kept)) <= 0.2 + 1e-9).all()
    assert all(i in kept or between[: sum(k < i for k in kept), i].max() > 0.2 for i in range(len(a)))


def test_outputs_that_make_no_sense() -> None:
    """Not finite, endless or tiny boxes, a box for each of very many cells: an answer all the same, and soon."""
    rng = np.random.default_rng(1)
    one, none = np.ones((300, 300, 1)), np.zeros((300, 300, 1))
    kinds = {
        "nan": np.full((300, 300, 6), np.nan),
        "infinite": np.full((300, 300, 6), np.inf),
        "endless": np.concatenate([one, np.full((300, 300, 4), 1e30), none], axis=2),
        "negative": np.concatenate([one, np.full((300, 300, 4), -20.0), none], axis=2),
        "turned": np.concatenate([one, np.full((300, 300, 4), 20.0), one * 1e38], axis=2),
        "apart": np.concatenate([one, np.full((300, 300, 4), 1.6), none], axis=2),
        "any": np.concatenate([rng.random((300, 300, 1)), rng.random((300, 300, 5)) * 200], axis=2),
    }
    assert len(one) ** 2 > CELLS
    for name, maps in kinds.items():
        begin = time.perf_counter()
        found = boxes(maps.astype(np.float32), threshold=0.1, score=0.1)
        assert time.perf_counter() - begin < 20, name
        assert len(found) <= 1000
        corners = np.array([each["polygon"] for each in found]).reshape(-1, 2)
        assert ((corners >= 0) & (corners <= 1200)).all()
        assert not found or name in ("turned", "apart", "any")
    assert boxes(np.zeros((0, 0, 6), np.float32), Frame(4, 4)) == []


def test_boxes_that_agree() -> None:
    steps, sample = pipeline({"x": PRE}, {"y": [{"step": "east_boxes"}]}), Sample({}, Frame(96, 160))
    line = told((24, 40), (8, 8, 68, 24, 0.9))
    for other, same in (
        (line, True),
        (told((24, 40), (10, 8, 68, 24, 0.9)), True),
        (told((24, 40), (8, 8, 76, 24, 0.9)), False),
        (np.zeros_like(line), False),
        (told((24, 40), (8, 8, 68, 24, 0.9), (8, 60, 68, 84, 0.8001)), True),
    ):
        assert steps.agree({"y": line}, {"y": other}, sample, 1e-3) is same


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"threshold": 2}, r"threshold=2 must be from 0 to 1"),
        ({"iou": -1}, r"iou=-1 must be from 0 to 1"),
        ({"most": 10**9}, r"most=1000000000 must be a number from 1 to 2000"),
        ({"stride": 0}, r"stride=0 must be a number from 1 to 64"),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        boxes(np.zeros((4, 4, 6)), **arguments)


def test_what_it_cannot_take() -> None:
    with pytest.raises(UsageError, match=r"expected maps \[H, W, 6\], got an output of shape \(6, 4, 4\)"):
        EastBoxes().place(np.zeros((6, 4, 4)), Frame(16, 16))
