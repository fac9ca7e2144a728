"""Answers drawn on pictures: labels below, outlines on top, texts beside, names that are free."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import cv2
import numpy as np
import pytest

from pdl.errors import UsageError
from pdl.report import png
from pdl.report.answers import caption, draw

SVG = "{http://www.w3.org/2000/svg}"
BOX = [[10, 20], [60, 20], [60, 40], [10, 40]]


def picture(height: int = 80, width: int = 300) -> np.ndarray:
    return np.full((height, width, 3), 250, np.uint8)


def test_a_label_stands_below_the_picture(tmp_path: Path) -> None:
    path = draw(picture(40, 50), {"input": "some/cat.jpg", "label": "cat", "score": 0.5}, tmp_path / "new")
    assert path == tmp_path / "new" / "cat.png"
    drawn = cv2.imread(str(path))
    assert drawn.shape == (6 * 40 + 32, 6 * 50, 3)
    assert (drawn[: 6 * 40] == 250).all()
    assert drawn[6 * 40 :].min() < 100
    assert draw(picture(), {"input": "cat.png", "label": "cat", "score": 0.5}, tmp_path / "new").name == "cat-2.png"


def test_boxes_are_outlined(tmp_path: Path) -> None:
    x = picture()
    path = draw(png(x), {"input": "-", "boxes": [{"polygon": BOX, "score": 0.9}]}, tmp_path)
    drawn = cv2.imread(str(path))[:80].astype(int)
    changed = np.abs(drawn - 250).sum(2) > 100
    assert path.name == "stdin.png"
    assert changed[20, 10:61].all()
    assert changed[20:41, 10].all()
    assert not changed[23:38, 13:58].any()
    assert not changed[:, 70:].any()
    empty = draw(x, {"input": "-", "boxes": []}, tmp_path)
    assert (cv2.imread(str(empty))[:80] == 250).all()


def elements(path: Path, kind: str) -> list[Any]:
    return list(ElementTree.fromstring(path.read_text(encoding="utf-8")).iter(SVG + kind))


def test_lines_of_text_stand_beside_the_picture_in_any_script(tmp_path: Path) -> None:
    lines = [
        {"text": "价格 <9.00> & more", "score": 0.9, "polygon": BOX},
        {"text": "up", "score": 0.8, "polygon": [[100, 60], [100, 20], [110, 20], [110, 60]]},
    ]
    path = draw(picture(), {"input": "page.jpg", "lines": lines}, tmp_path)
    assert path.name == "page.svg"
    texts = elements(path, "text")
    assert [each.text for each in texts] == ["价格 <9.00> & more", "up"]
    assert [float(each.get("textLength")) for each in texts] == [50, 40]
    assert [each.get("transform") for each in elements(path, "g")] == [
        "translate(310 20) rotate(0.0)",
        "translate(400 60) rotate(-90.0)",
    ]
    assert elements(path, "polygon")[0].get("points") == "10,20 60,20 60,40 10,40"
    (image,) = elements(path, "image")
    inside = np.frombuffer(base64.b64decode(image.get("href").removeprefix("data:image/png;base64,")), np.uint8)
    assert (cv2.imdecode(inside, cv2.IMREAD_COLOR) == picture()).all()


def test_a_text_stands_below_the_picture(tmp_path: Path) -> None:
    path = draw(picture(20, 64), {"input": "line.png", "text": "温度 5 < 6", "score": 0.987}, tmp_path)
    assert path.name == "line.svg"
    assert [each.text for each in elements(path, "text")] == ["温度 5 < 6  98.7%"]
    empty = draw(picture(), {"input": "page.png", "lines": []}, tmp_path)
    assert [each.text for each in elements(empty, "text")] == ["0 lines"]


@pytest.mark.parametrize(
    ("prediction", "text"),
    [
        ({"label": "cat", "score": 0.5}, "cat  50.0%"),
        ({"text": "abc", "score": 0.25}, "abc  25.0%"),
        ({"labels": [{"label": "a", "score": 0.5}, {"label": "b", "score": 0.4}]}, "a 50%, b 40%"),
        ({"labels": []}, "nothing"),
        ({"boxes": [{}, {}]}, "2 boxes"),
        ({"lines": [{}]}, "1 line"),
        ({"boxes": [{}]}, "1 box"),
    ],
)
def test_captions(prediction: dict[str, Any], text: str) -> None:
    assert caption(prediction) == text


def test_arrays_cannot_be_drawn(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="answers are arrays, which cannot be drawn; leave out --save"):
        draw(picture(), {"input": "x.png", "output": np.zeros(3)}, tmp_path)
