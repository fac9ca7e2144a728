"""Answers drawn on images: labels below, outlines on top, texts beside, names that are free."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import cv2
import numpy as np
import pytest

from pdl.errors import UsageError
from pdl.report.answers import save
from pdl.runtime.drawing import Drawing, Mark
from pdl.runtime.pipeline import Answer
from tests.pipelines import pipeline

SVG = "{http://www.w3.org/2000/svg}"
KINDS = {".jpg": "jpeg", ".jpeg": "jpeg", ".webp": "webp"}
BOX = [[10, 20], [60, 20], [60, 40], [10, 40]]


def image(height: int = 80, width: int = 300) -> np.ndarray:
    return np.full((height, width, 3), 250, np.uint8)


def test_a_label_stands_below_the_image(tmp_path: Path) -> None:
    path = save(Drawing(image(40, 50), "cat  50.0%"), tmp_path / "new", "some/cat.PNG")
    assert path == tmp_path / "new" / "cat.png"
    drawn = cv2.imread(str(path))
    assert drawn.shape == (6 * 40 + 32, 6 * 50, 3)
    assert (drawn[: 6 * 40] == 250).all()
    assert drawn[6 * 40 :].min() < 100
    assert save(Drawing(image(), "cat  50.0%"), tmp_path / "new", "cat.png").name == "cat-2.png"


@pytest.mark.parametrize(
    ("name", "ending", "begins"),
    [
        ("a.jpg", ".jpg", b"\xff\xd8"), ("b.JPEG", ".jpeg", b"\xff\xd8"), ("c.webp", ".webp", b"RIFF"),
        ("d.tif", ".tif", b"II*"), ("e.bmp", ".bmp", b"BM"), ("f.pgm", ".png", b"\x89PNG"),
        ("g.mp4#3", ".png", b"\x89PNG"),
    ],
)  # fmt: skip
def test_drawings_have_the_format_of_their_inputs(name: str, ending: str, begins: bytes, tmp_path: Path) -> None:
    noise = cv2.resize(np.random.default_rng(0).integers(0, 256, (30, 40, 3), dtype=np.uint8), (640, 480))
    path = save(Drawing(noise, "1 box", [Mark(BOX)]), tmp_path, name)
    assert (path.suffix, path.read_bytes()[: len(begins)]) == (ending, begins)
    drawn = cv2.imread(str(path))[:480, :, ::-1].astype(int)
    assert np.abs(drawn[100:] - noise[100:]).mean() < 2
    assert (drawn[20, 15:55] - noise[20, 15:55]).any()
    text = save(Drawing(noise, "1", [Mark(BOX, "up")], any_script=True), tmp_path, name).read_text()
    assert f"data:image/{KINDS.get(ending, 'png')};base64" in text


def test_marks_are_outlined(tmp_path: Path) -> None:
    path = save(Drawing(image(), "1 box", [Mark(BOX)]), tmp_path, "-")
    drawn = cv2.imread(str(path))[:80].astype(int)
    changed = np.abs(drawn - 250).sum(2) > 100
    assert path.name == "stdin.png"
    assert changed[20, 10:61].all()
    assert changed[20:41, 10].all()
    assert not changed[23:38, 13:58].any()
    assert not changed[:, 70:].any()
    empty = save(Drawing(image(), "0 boxes"), tmp_path, "-")
    assert (cv2.imread(str(empty))[:80] == 250).all()


def elements(path: Path, kind: str) -> list[Any]:
    return list(ElementTree.fromstring(path.read_text(encoding="utf-8")).iter(SVG + kind))


def test_texts_stand_beside_the_image_in_any_script(tmp_path: Path) -> None:
    marks = [Mark(BOX, "价格 <9.00> & more"), Mark([[100, 60], [100, 20], [110, 20], [110, 60]], "up")]
    path = save(Drawing(image(), "2 lines", marks, any_script=True), tmp_path, "page.png")
    assert path.name == "page.svg"
    texts = elements(path, "text")
    assert [each.text for each in texts] == ["价格 <9.00> & more", "up"]
    assert [float(each.get("textLength")) for each in texts] == [50, 40]
    assert [each.get("transform") for each in elements(path, "g")] == [
        "translate(310 20) rotate(0.0)",
        "translate(400 60) rotate(-90.0)",
    ]
    assert elements(path, "polygon")[0].get("points") == "10,20 60,20 60,40 10,40"
    (inside,) = elements(path, "image")
    data = np.frombuffer(base64.b64decode(inside.get("href").removeprefix("data:image/png;base64,")), np.uint8)
    assert (cv2.imdecode(data, cv2.IMREAD_COLOR) == image()).all()


def test_a_text_stands_below_the_image(tmp_path: Path) -> None:
    path = save(Drawing(image(20, 64), "温度 5 < 6  98.7%", any_script=True), tmp_path, "line.png")
    assert path.name == "line.svg"
    assert [each.text for each in elements(path, "text")] == ["温度 5 < 6  98.7%"]
    empty = save(Drawing(image(), "0 lines", any_script=True), tmp_path, "page.png")
    assert [each.text for each in elements(empty, "text")] == ["0 lines"]


def test_what_a_step_drew_is_a_file_as_it_is(tmp_path: Path) -> None:
    path = save(Drawing(svg="<svg/>"), tmp_path, "1.5, x: 2")
    assert path.name == "1.5, x_ 2.svg"
    assert path.read_text() == "<svg/>"


@pytest.mark.parametrize(
    ("post", "answer", "text"),
    [
        ([{"step": "top", "k": 1}], {"label": "cat", "score": 0.5}, "cat  50.0%"),
        ([{"step": "ctc"}], {"text": "abc", "score": 0.25}, "abc  25.0%"),
        (
            [{"step": "threshold", "score": 0.3}],
            {"labels": [{"label": "a", "score": 0.5}, {"label": "b", "score": 0.4}]},
            "a 50%, b 40%",
        ),
        ([{"step": "threshold", "score": 0.3}], {"labels": []}, "nothing"),
    ],
)
def test_captions(post: Any, answer: dict[str, Any], text: str) -> None:
    pre = {"image": [{"step": "image", "mode": "rgb"}]}
    steps = pipeline(pre, {"y": post}, labels=["cat", "a", "b"])
    assert steps.draw(image(), Answer(answer, ("y",))).caption == text


def test_arrays_cannot_be_drawn() -> None:
    steps = pipeline({"image": [{"step": "image", "mode": "rgb"}]}, {"output": []})
    with pytest.raises(UsageError, match="leave out --save"):
        steps.draw(image(), Answer({"output": np.zeros(3)}, ("output",)))
