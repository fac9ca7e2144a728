"""`pdl preview` shows objects where training and evaluation see them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdl.config import from_dict
from pdl.workflow import preview
from pdl_cv.detection.drawing import COLOURS, drawn
from tests.cv.data.objects import coco

SIDE = 64
RECT = re.compile(r'<rect x="([-\d.]+)" y="([-\d.]+)" width="([-\d.]+)" height="([-\d.]+)"')


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("objects")
    coco(folder)
    return folder


def recipe(root: Path, *training: dict[str, Any], **data: Any) -> dict[str, Any]:
    """With a model that cannot be built: its weights are nowhere."""
    t = "pdl.data.transforms."
    shared = [{"_target_": t + "Letterbox", "size": SIDE}, {"_target_": t + "ToFloat"}]
    split = {"_target_": "pdl_cv.data.DetectionFolder", "root": str(root)}
    before = [{"_target_": t + each["name"], **{k: v for k, v in each.items() if k != "name"}} for each in training]
    return {
        "task": {"_target_": "pdl_cv.detection.Detection"},
        "model": {"_target_": "pdl_cv.MobileNetV3", "pretrained": "cv/no_such_weights"},
        "data": {
            "train": {**split, "split": "train"},
            "val": {**split, "split": "val"},
            "transforms": {"train": [*before, *shared], "eval": shared},
            "batch_size": 2,
            **data,
        },
        "optim": {"_target_": "pdl.optim.Adam"},
        "train": {"seed": 5},
    }


def rectangles(html: str) -> list[list[float]]:
    return [[float(v) for v in found] for found in RECT.findall(html)]


def test_objects_move_with_their_pictures(root: Path) -> None:
    """An image of 40 x 30 with a box at (4, 6) to (20, 24): mirrored, then in a square of 64."""
    page = preview(from_dict(recipe(root, {"name": "RandomHorizontalFlip", "p": 1.0})), samples=1, versions=1)
    assert [each.title for each in page.sections] == ["Samples", "Classes", "Transforms"]
    html = page.sections[0].html
    assert "1 cat, 1 dog" in html
    original, mirrored, letterboxed = (rectangles(part) for part in html.split("</figure>")[:3])
    assert original[0] == [4, 6, 16, 18]
    scale, above = 1.6, 8
    np.testing.assert_allclose(mirrored[0], [20 * scale, 6 * scale + above, 16 * scale, 18 * scale], atol=0.1)
    np.testing.assert_allclose(letterboxed[0], [4 * scale, 6 * scale + above, 16 * scale, 18 * scale], atol=0.1)
    assert "epoch 0" in html
    assert "evaluation" in html
    read, flipped, boxed, _, evaluated, again, _ = page.sections[-1].html.split("<tr>")[2:]
    assert rectangles(read)[0] == rectangles(evaluated)[0] == original[0]
    assert rectangles(flipped)[0] == [20, 6, 16, 18]
    assert rectangles(boxed) == mirrored
    assert rectangles(again) == letterboxed


def test_classes_are_counted(root: Path) -> None:
    html = preview(from_dict(recipe(root)), samples=3, versions=1).sections[1].html
    assert re.findall(r"<td>(cat|dog)</td><td class=\"n\">(\d)</td><td class=\"n\">(\d)</td>", html) == [
        ("cat", "1", "1"), ("dog", "2", "2"),
    ]  # fmt: skip


def test_a_split_that_is_not_trained_on_has_no_versions(root: Path) -> None:
    html = preview(from_dict(recipe(root)), split="val", samples=1).sections[0].html
    assert html.count("<figure") == 2
    assert "epoch" not in html


def test_drawn_objects() -> None:
    """A mask colours its pixels, padding is left out, joined keypoints that are known are lines, names are escaped."""
    image = np.full((40, 60, 1), 128, np.uint8)
    masks = np.zeros((2, 40, 60), np.uint8)
    masks[0, 5:10, 5:10] = 1
    svg = drawn(
        image,
        {
            "labels": np.array([1, -1]), "boxes": np.array([[5, 5, 10, 10], [0, 0, 1, 1]]), "masks": masks,
            "scores": np.array([0.87, 0.0]),
            "keypoints": np.array([[[5, 5, 2], [9, 9, 1], [0, 0, 0]], [[0, 0, 2]] * 3]),
        },
        ["a", "<b>"],
        skeleton=[(0, 1), (1, 2)],
    )  # fmt: skip
    assert rectangles(svg) == [[5, 5, 5, 5]]
    assert "&lt;b&gt; 0.87" in svg
    assert svg.count("<circle") == 2
    assert "M5.0 5.0L9.0 9.0" in svg
    assert COLOURS[1] in svg
    assert COLOURS[0] not in svg
