"""Faults of data sets of objects, each in a data set that is good but for it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from pdl.cli import main
from pdl.data import Dataset
from pdl_cv.data import DetectionFolder
from pdl_cv.detection.check import check_boxes
from pdl_cv.detection.look_alikes import look_alikes, thumbnail
from tests.cv.data.objects import coco
from tests.cv.detection.test_preview import recipe

H, W = 60, 80


class Few(Dataset):
    """Images of smooth noise with twelve objects of each of two classes."""

    classes = ("cat", "dog")

    def __init__(self, seed: int, n: int = 12, **changes: Any) -> None:
        rng = np.random.default_rng(seed)
        self.images = [photo(rng) for _ in range(n)]
        self.boxes = [np.array([[2, 3, 30, 40], [35, 10, 70, 50]], np.float32) for _ in range(n)]
        self.labels_of = [np.array([0, 1]) for _ in range(n)]
        self.changes: dict[str, Any] = changes  # of sample 1

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> dict[str, Any]:
        sample = {"image": self.images[index], "boxes": self.boxes[index], "labels": self.labels_of[index]}
        return {**sample, **self.changes} if index == 1 else sample

    def path_of(self, index: int) -> str:
        return f"{index}.png"


def photo(rng: np.random.Generator, height: int = H, width: int = W) -> np.ndarray:
    coarse = rng.integers(0, 256, (6, 8, 3), dtype=np.uint8)
    return cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC)


def boxes(*rows: list[float]) -> np.ndarray:
    return np.array(rows, np.float32)


def masks(*rows: tuple[int, int, int, int]) -> np.ndarray:
    made = np.zeros((len(rows), H, W), np.uint8)
    for mask, (x1, y1, x2, y2) in zip(made, rows, strict=True):
        mask[y1:y2, x1:x2] = 1
    return made


GOOD = [2, 3, 30, 40]
POINTS = np.array([[[5, 5, 2], [-20, 5, 0]], [[40, 20, 2], [95, 20, 1]]], np.float32)


@pytest.mark.parametrize(
    ("changes", "words", "severity"),
    [
        ({"boxes": boxes(GOOD, [35, 10, 83, 50])}, r"object 1: the box \(35, 10, 83, 50\) reaches beyond", "warning"),
        ({"boxes": boxes(GOOD, [90, 10, 99, 50])}, r"lies outside: the image has 80 x 60 pixels", "error"),
        ({"boxes": boxes(GOOD, [70, 10, 35, 50])}, r"\(70, 10, 35, 50\) ends before it begins", "error"),
        ({"boxes": boxes(GOOD, [35, 10, 35, 50])}, "has no area", "error"),
        ({"boxes": boxes(GOOD, [35, 10, np.nan, 50])}, "is no box", "error"),
        ({"labels": np.array([0, 2])}, r"object 1: label 2 is outside of 0\.\.1", "error"),
        ({"boxes": boxes(GOOD, GOOD), "labels": np.array([0, 0])}, "is there twice", "warning"),
        ({"boxes": boxes(GOOD, GOOD)}, "has two classes", "warning"),
        ({"masks": np.zeros((2, W, H), np.uint8)}, r"masks of shape \(2, 80, 60\), \(2, 60, 80\)", "error"),
        ({"masks": masks((2, 3, 30, 40), (0, 0, 0, 0))}, "object 1: its mask has no pixels", "error"),
        ({"masks": masks((2, 3, 30, 40), (0, 0, 30, 20))}, "its mask lies within", "warning"),
        ({"keypoints": POINTS}, r"object 1: keypoint 1 \(95, 20\) is outside", "warning"),
        ({"boxes": boxes().reshape(0, 4), "labels": np.zeros(0, int)}, r"1 of 12 images \(8%\) have no", "warning"),
    ],
)  # fmt: skip
def test_a_fault_of_a_sample(changes: dict[str, Any], words: str, severity: str) -> None:
    (found,) = check_boxes({"train": Few(0, **changes)})
    assert re.search(words, str(found)), str(found)
    assert (found.severity, found.split, found.path) == (severity, "train", "1.png")


def test_good_data_has_no_faults() -> None:
    good = {"masks": masks((2, 3, 30, 40), (36, 10, 70, 49)), "keypoints": POINTS[:, :1]}
    assert check_boxes({"train": Few(0, **good), "val": Few(1)}, size=320, stride=8) == []


def test_what_cannot_be_read_is_one_fault_and_the_rest_is_looked_at() -> None:
    data = Few(0, boxes=boxes(GOOD, [70, 10, 35, 50]))
    data.images[3] = None
    faults = check_boxes({"train": data})
    assert [each.index for each in faults] == [3, 1] or [each.index for each in faults] == [1, 3]


def test_classes() -> None:
    data = Few(0)
    data.classes = ("cat", "dog", "cow")
    data.labels_of[0] = np.array([2, 1])
    (rare,) = check_boxes({"train": data})
    assert "cow (1)" in str(rare)
    data.labels_of[0] = np.array([0, 1])
    (absent,) = check_boxes({"train": data})
    assert (absent.severity, "1 of 3 classes have no objects: cow" in str(absent)) == ("error", True)
    assert [each.severity for each in check_boxes({"val": data})] == ["warning"]
    data.classes = ("cat", "dog", *(f"other {k}" for k in range(78)))
    (own,) = check_boxes({"train": data})
    assert "80 names, as COCO's own, and 78 of them have no objects; " in str(own)
    assert "cat, dog" in own.advice


def test_boxes_that_the_net_cannot_see() -> None:
    data = Few(0)
    data.boxes[0] = boxes(GOOD, [35, 10, 35.5, 50])
    data.boxes[1] = boxes(GOOD, [35, 10, 50, 10.5])
    (found,) = check_boxes({"train": data}, size=320, stride=8)
    assert "8% of 24 boxes have a side below 4 pixels in the net's 320" in str(found)
    assert check_boxes({"train": data}) == []


def test_the_same_picture_in_two_splits() -> None:
    train, val = Few(0), Few(1)
    val.images[2] = train.images[5]
    coded = cv2.imencode(".jpg", train.images[7], [cv2.IMWRITE_JPEG_QUALITY, 60])[1]
    val.images[4] = cv2.resize(cv2.imdecode(coded, cv2.IMREAD_COLOR), (W * 2, H * 2))
    val.boxes[4] = val.boxes[4] * 2
    same, alike = check_boxes({"train": train, "val": val})
    assert (same.index, same.severity, "the same image is in train: 5.png" in str(same)) == (2, "error", True)
    assert (alike.index, alike.severity) == (4, "warning")
    assert "looks like an image in train: 7.png" in str(alike)


def test_look_alikes() -> None:
    """Every image is found again after JPEG and resizing, none is taken for another; flat ones are like no other."""
    rng = np.random.default_rng(0)
    photos = [photo(rng, int(rng.integers(60, 200)), int(rng.integers(60, 200))) for _ in range(200)]
    again = []
    for each in photos:
        smaller = cv2.resize(each, None, fx=0.6, fy=0.6, interpolation=cv2.INTER_AREA)
        again.append(cv2.imdecode(cv2.imencode(".jpg", smaller, [cv2.IMWRITE_JPEG_QUALITY, 70])[1], cv2.IMREAD_COLOR))
    first, second = (np.stack([thumbnail(each) for each in every]) for every in (photos, again))
    assert [(i, j) for i, j, _ in look_alikes(first, second)] == [(k, k) for k in range(200)]
    assert list(look_alikes(first[:100], second[100:])) == []
    flat = np.full((3, 256), 90, np.uint8)
    assert list(look_alikes(flat, flat)) == []


def test_many_of_a_kind_are_counted() -> None:
    data = Few(0, n=30)
    data.boxes = [boxes(GOOD, [70, 10, 35, 50])] * 30
    faults = check_boxes({"train": data}, limit=5)
    assert len(faults) == 6
    assert "25 more of the same kind" in str(faults[-1])


def test_the_annotation_is_named(tmp_path: Path) -> None:
    coco(tmp_path)
    page = tmp_path / "annotations/instances_train2017.json"
    page.write_text(page.read_text().replace("[22, 3, 16, 24]", "[22, 3, 0, 24]"))
    faults = check_boxes({"train": DetectionFolder(tmp_path, split="train")})
    (flat,) = (each for each in faults if "no area" in each.what)
    assert flat.path == f"{page}: annotation 1"


def test_the_command_draws_samples(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    coco(tmp_path)
    (tmp_path / "recipe.yaml").write_text(json.dumps(recipe(tmp_path)))
    page = tmp_path / "page.html"
    assert main(["check", "-c", str(tmp_path / "recipe.yaml"), "--draw", str(page)]) == 0
    said = capsys.readouterr()
    assert "almost no objects: cat (1), dog (2)" in said.err
    assert str(page) in said.out
    assert page.read_text().split("<h2>Transforms")[0].count("<rect") == 3 * 3
    cut = next((tmp_path).rglob("train2017/*.png"))
    whole = cut.read_bytes()
    cut.write_bytes(whole[: len(whole) // 2])
    assert main(["check", "-c", str(tmp_path / "recipe.yaml"), "--draw", str(page)]) == 3
    said = capsys.readouterr()
    assert said.err.count(cut.name) == 1
    assert str(page) in said.out
    assert 0 < page.read_text().count("<rect") < 3 * 3
    cut.write_bytes(whole)
    broken = tmp_path / "annotations/instances_train2017.json"
    broken.write_text(broken.read_text().replace("[22, 3, 16, 24]", "[22, 3, 0, 24]"))
    assert main(["check", "-c", str(tmp_path / "recipe.yaml"), "--json"]) == 3
    faults = json.loads(capsys.readouterr().out)["faults"]
    assert any("has no area" in each["what"] for each in faults)
