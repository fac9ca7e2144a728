"""Reader: lines on a page are found, cut out, turned and read, with nets that need no training."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import cv2
import numpy as np
import pytest

from pdl.errors import UsageError
from pdl.runtime.pipeline import Answer
from pdl.runtime.steps.labels import Top
from tests.ocr.synthetic import bars, session


@pytest.fixture
def reader(suite: None) -> object:
    from pdl_ocr import Reader

    return Reader(session("det"), session("rec"), session("cls"))


def page(height: int = 600, width: int = 800) -> np.ndarray:
    return np.full((height, width, 3), 255, np.uint8)


def put(x: np.ndarray, line: np.ndarray, left: int, top: int) -> None:
    x[top : top + line.shape[0], left : left + line.shape[1]] = line


def turned(x: np.ndarray, degrees: float) -> np.ndarray:
    """The picture turned about its middle, white outside."""
    h, w = x.shape[:2]
    move = cv2.getRotationMatrix2D((w / 2, h / 2), degrees, 1.0)
    return cv2.warpAffine(x, move, (w, h), flags=cv2.INTER_LINEAR, borderValue=(255, 255, 255))


def texts(answer: dict) -> list[str]:
    return [line["text"] for line in answer["lines"]]


def test_a_page_is_read_in_order(reader) -> None:
    x = page()
    put(x, bars("cab"), 450, 103)
    put(x, bars("abc"), 30, 100)
    put(x, bars("bbca"), 40, 300)
    answer = reader(x)
    assert texts(answer) == ["abc", "cab", "bbca"]
    (a, b, c, d) = answer["lines"][0]["polygon"]
    assert a[0] < 30 < b[0]
    assert a[1] < 100 < d[1]
    assert 310 < c[0] < 450
    assert all(0.5 <= line["score"] <= 1 for line in answer["lines"])
    json.dumps(answer)


def test_a_line_is_cut_out_once_of_an_image_in_one_piece(reader, monkeypatch) -> None:
    """OpenCV copies a whole page that is a view, such as of BGR in the other order, for every line."""
    from pdl_ocr import reading

    seen: list[bool] = []
    cut = reading.straightened
    monkeypatch.setattr(reading, "straightened", lambda x, each: seen.append(x.flags.c_contiguous) or cut(x, each))
    x = page()
    put(x, bars("cab"), 450, 103)
    put(x, bars("abc"), 30, 100)
    assert texts(reader(x[::-1].copy()[::-1])) == ["abc", "cab"]
    assert seen == [True, True]


@pytest.mark.parametrize("degrees", [5, -12, 30])
def test_lines_at_an_angle(reader, degrees: float) -> None:
    x = page()
    put(x, bars("abacb"), 180, 280)
    assert texts(reader(turned(x, degrees))) == ["abacb"]


def test_lines_upside_down_are_turned(reader) -> None:
    x = page()
    put(x, bars("abc")[::-1, ::-1], 100, 100)
    assert texts(reader(x)) == ["abc"]
    reader.turn = None
    assert texts(reader(x)) == ["cba"]


class Says:
    """A model whose answer for an image is that of a function."""

    def __init__(self, say: Callable[[np.ndarray], dict]) -> None:
        self.pipeline, self.run, self.say = self, None, say

    def answers(self, images: Sequence[np.ndarray], run: Any) -> list[Answer]:
        return [Answer(self.say(image)) for image in images]


def test_lines_tell_that_a_page_is_upside_down_where_nothing_else_does(reader) -> None:
    """Its lines read better when they are turned, which is told of the page, not of a line."""

    def say(image: np.ndarray) -> dict:
        dark = 255 - image.mean(axis=(0, 2))
        ends = np.cumsum(dark)[[len(dark) // 3, 2 * len(dark) // 3]] / dark.sum()
        return {"text": "right" if ends[0] > 1 - ends[1] else "wrong", "score": 0.9 if ends[0] > 1 - ends[1] else 0.7}

    reader.turn, reader.read = None, Says(say)
    line = bars("aaa", 32, 34)
    line[:, line.shape[1] // 2 :] = np.maximum(line[:, line.shape[1] // 2 :], 120)  # darker on the left
    x = page()
    for top in (100, 200, 300):
        put(x, line, 80, top)
    upright, turned = reader(x), reader(np.ascontiguousarray(x[::-1, ::-1]))
    assert texts(upright) == texts(turned) == ["right"] * 3
    assert "rectified" in turned
    assert "rectified" not in upright
    put(x, line[::-1, ::-1], 80, 400)
    assert texts(reader(x)) == ["right"] * 3 + ["wrong"]


def two_columns() -> np.ndarray:
    """A page whose lines stand in an order that only an upright page has."""
    x = page()
    for i, (text, left, top) in enumerate((("abcab", 30, 100), ("ca", 560, 104), ("bbc", 60, 260), ("ac", 560, 262))):
        put(x, bars(text, 32 + i, 34), left, top)
    return x


def corners(answer: dict) -> np.ndarray:
    return np.array([line["polygon"] for line in answer["lines"]])


@pytest.mark.parametrize("turns", [1, 2, 3])
def test_a_page_on_its_side_is_read_like_the_upright_one(reader, turns: int) -> None:
    from pdl_ocr.rectify import Rectified

    x = two_columns()
    upright, turned_page = reader(x), reader(np.rot90(x, turns))
    assert texts(upright) == ["abcab", "ca", "bbc", "ac"]
    assert "rectified" not in upright
    assert texts(turned_page) == texts(upright)
    assert [line["row"] for line in turned_page["lines"]] == [0, 0, 1, 1]
    move = Rectified.of(x.shape[:2], None, turns * np.pi / 2)
    assert move is not None
    assert np.abs(corners(turned_page) - move.forth(corners(upright))).max() < 4
    assert (turned_page["rectified"]["width"], turned_page["rectified"]["height"]) == (800, 600)
    json.dumps(turned_page)
    reader.rectify = False
    assert texts(reader(np.rot90(x, turns))) != texts(upright)


def test_a_photographed_page_is_made_flat(reader) -> None:
    x = two_columns()
    lies = np.float32([[250, 80], [760, 170], [690, 620], [90, 500]])
    move = cv2.getPerspectiveTransform(np.float32([[0, 0], [800, 0], [800, 600], [0, 600]]), lies)
    photo = cv2.warpPerspective(x, move, (850, 700), flags=cv2.INTER_AREA, borderValue=(60, 70, 210))
    answer = reader(photo)
    assert texts(answer) == ["abcab", "ca", "bbc", "ac"]
    truth = cv2.perspectiveTransform(corners(reader(x)).reshape(1, -1, 2), move.astype(float)).reshape(-1, 4, 2)
    assert np.abs(corners(answer) - truth).max() < 8
    made = answer["rectified"]
    assert made["width"] / made["height"] == pytest.approx(800 / 600, rel=0.05)
    assert (answer["width"], answer["height"]) == (850, 700)


def test_a_page_is_not_turned_where_it_reads_worse_so(reader) -> None:
    x, upright = two_columns(), texts(reader(two_columns()))
    straight = reader.read
    reader.turn = Says(lambda part: {"label": "180", "score": 0.99})

    def reads(part: np.ndarray) -> dict:
        upper, lower = np.array_split(part[:, :, 1], 2)
        return {**straight(part), "score": 0.95 if upper.mean() > lower.mean() else 0.4}

    reader.read = Says(reads)
    answer = reader(x)
    assert texts(answer) == upright
    assert "rectified" not in answer


def test_a_line_that_is_turned_wrongly_is_read_as_it_was(reader) -> None:
    reader.turn = Says(lambda x: {"label": "180", "score": 0.99})
    straight = reader.read
    line = bars("abc")

    def reads(x: np.ndarray) -> dict:
        """Lines with their upper half bright well, others badly."""
        found = straight(x)
        return {**found, "score": found["score"] if x[: len(x) // 2, :, 1].mean() > 128 else 0.4}

    reader.read = Says(reads)
    assert [each["text"] for each in reader.lines([line, line[::-1, ::-1]])] == ["abc", "abc"]


def test_lines_that_run_downwards_are_read(reader) -> None:
    x = page()
    put(x, np.rot90(bars("abbc"), -1), 100, 60)
    assert texts(reader(x)) == ["abbc"]


def test_pictures_in_a_batch_and_empty_ones(reader) -> None:
    x = page()
    put(x, bars("ca"), 100, 100)
    assert [texts(answer) for answer in reader.batch([page(), x, page(64, 64)])] == [[], ["ca"], []]
    reader.score = 1.0
    assert reader(x) == {"lines": [], "width": 800, "height": 600}


@pytest.mark.parametrize("turns", [0, 1, 2])
def test_fields_are_found_in_the_lines(reader, turns: int) -> None:
    """Shown as they lie on the upright page, in the order of the answer."""
    seen = []

    def say(item: dict) -> dict:
        seen.append(item["lines"])
        return {"fields": {"total": {"text": item["lines"][1]["text"], "score": 0.9, "lines": [1]}}}

    reader.extract = Says(say)
    x = two_columns()
    answer = reader(np.ascontiguousarray(np.rot90(x, turns)))
    assert answer["fields"]["total"]["text"] == answer["lines"][1]["text"] == "ca"
    (given,) = seen
    assert np.abs(np.array([line["polygon"] for line in given]) - corners(reader(x))).max() < 5
    assert reader.pipeline.rows(Answer(answer, ("lines",))) == [{"field": "total", "text": "ca", "score": 0.9}]
    assert reader(page())["fields"] == {}


def test_wrong_arguments(suite: None) -> None:
    from pdl_ocr import Reader

    with pytest.raises(UsageError, match=r"score=2 and sure=0.9 must be from 0 to 1"):
        Reader(session("det"), session("rec"), score=2)
    with pytest.raises(UsageError, match="rectify='no' must be true or false"):
        Reader(session("det"), session("rec"), rectify="no")
    with pytest.raises(UsageError, match=r"extract does not answer as it should: .* no step 'field_values'"):
        Reader(session("det"), session("rec"), extract=session("rec"))
    other = Says(lambda x: {"label": "upside down", "score": 0.99})
    other.answering = lambda step: Top(2)
    with pytest.raises(UsageError, match=r"turn does not .* its classes are none, expected 0 and 180"):
        Reader(session("det"), session("rec"), other)


def test_a_quadrilateral_becomes_a_rectangle(suite: None) -> None:
    from pdl_ocr.reading import straightened

    x = np.zeros((100, 200, 3), np.uint8)
    corners = cv2.boxPoints(((100, 50), (80, 20), 20))[[1, 2, 3, 0]]
    cv2.fillPoly(x, [np.rint(corners).astype(np.int32)], (255, 255, 255))
    part = straightened(x, corners.tolist())
    assert part.shape == (20, 80, 3)
    assert part[2:-2, 2:-2].min() > 200
    assert straightened(x, [[0, 0], [10, 0], [10, 50], [0, 50]]).shape == (10, 50, 3)
    assert straightened(x, [[5, 5], [5, 5], [5, 5], [5, 5]]).shape == (1, 1, 3)
